"""Which actions of a Gymnasium environment are legal: by its method `action_masks`, or by what comes with a state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import gymnasium

from sacbbf.envs.base import EnvError, check_mask
from sacbbf.types import BoolArray

METHOD, KEY = "action_masks", "action_mask"  # of the environment or a wrapper; of `info`


class Masks:
    """The mask of an environment's current state; the first reset decides where masks come from, if from anywhere."""

    def __init__(self, env: gymnasium.Env[Any, Any], name: str, num_actions: int) -> None:
        self._name = name
        self._shape = (num_actions,)
        self._method = _method_of(env, name)
        self._source: Literal["unknown", "none", "method", "info"] = "unknown" if self._method is None else "method"
        self.current: BoolArray | None = None  # (A,); of a state that is over, what it was before

    def read(self, info: dict[str, Any], over: bool) -> None:
        """Take the mask of the state that a reset or step has just returned with `info`; where it is over, none."""
        if self._source == "unknown":
            self._source = "info" if KEY in info else "none"
        if self._source == "none":
            if KEY in info:
                raise EnvError(f"{self._name}: info[{KEY!r}] came with a step, but not with the first reset")
            return
        if over:
            return
        if self._method is not None:
            self.current = check_mask(self._method(), self._shape, f"{self._name}: {METHOD}()")
        elif KEY in info:
            self.current = check_mask(info[KEY], self._shape, f"{self._name}: info[{KEY!r}]")
        else:
            raise EnvError(f"{self._name}: info[{KEY!r}] is missing, though it came with the first reset")


def _method_of(env: gymnasium.Env[Any, Any], name: str) -> Callable[[], object] | None:
    """The method of the outermost wrapper that has it, or of the environment itself."""
    if not env.has_wrapper_attr(METHOD):
        return None
    method = env.get_wrapper_attr(METHOD)
    if not callable(method):
        raise EnvError(f"{name}: {METHOD} is {type(method).__name__}, must be a method without arguments")
    found: Callable[[], object] = method
    return found
