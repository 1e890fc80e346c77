"""Actions by number: an agent's 0 .. n - 1, and what a Gymnasium environment takes for each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from sacbbf.envs.base import EnvError

if TYPE_CHECKING:
    from sacbbf.envs.gymnasium import AnyEnv

MOST = 512  # combinations of a space with several actions at once
WRAPPERS = "docs/environments.md shows how a wrapper is given (--wrapper module:Class)"


class Actions:
    """The actions of a space by number, and their names.

    `Discrete` is counted from 0 wherever the space starts. Of `MultiDiscrete` and `MultiBinary` every combination is an
    action, the last part changing fastest: (0, 0), (0, 1), (1, 0), ...
    """

    def __init__(self, env: AnyEnv, name: str) -> None:
        """Read an environment's action space; EnvError if its actions cannot be numbered."""
        space = env.action_space
        self._space = space
        self.sizes, self._starts = _parts(space, name)  # actions of each part, and the first of them
        self.count = math.prod(self.sizes)
        if not isinstance(space, spaces.Discrete) and self.count > MOST:
            raise EnvError(
                f"{name}: the action space {space} has {self.count:,} combinations, at most {MOST} can be played; "
                f"gymnasium.ActionWrapper makes a wrapper that offers those that matter as Discrete(n). {WRAPPERS}"
            )
        self.names = _names(env, self)

    def raw(self, number: int) -> Any:
        """Return what the environment takes for action `number`: an int, or an array of the space's shape."""
        parts = self.parts(number)
        if isinstance(self._space, spaces.Discrete):
            return int(parts[0] + self._starts[0])
        return (np.asarray(parts) + self._starts).astype(self._space.dtype).reshape(self._space.shape)

    def number(self, raw: Any) -> int:
        """Return the number of an action as the environment takes it; EnvError if the space does not have it."""
        parts = np.asarray(raw).reshape(-1) - self._starts if np.size(raw) == len(self.sizes) else None
        if parts is None or any(part not in range(size) for part, size in zip(parts, self.sizes, strict=True)):
            raise EnvError(f"action = {raw!r}: must be one of {self._space}")
        return int(np.ravel_multi_index(tuple(int(part) for part in parts), self.sizes))

    def parts(self, number: int) -> tuple[int, ...]:
        """Return the choice in each part that action `number` stands for, each counted from 0."""
        if not 0 <= number < self.count:
            raise EnvError(f"action must be an integer in 0 .. {self.count - 1}, got {number!r}")
        return tuple(int(part) for part in np.unravel_index(number, self.sizes))


def _parts(space: spaces.Space[Any], name: str) -> tuple[tuple[int, ...], Any]:
    if isinstance(space, spaces.Discrete):
        return (int(space.n),), np.array([int(space.start)])
    if isinstance(space, spaces.MultiDiscrete):
        return tuple(int(size) for size in space.nvec.reshape(-1)), space.start.reshape(-1)
    if isinstance(space, spaces.MultiBinary):
        return (2,) * math.prod(space.shape), np.zeros(math.prod(space.shape), np.int64)
    raise EnvError(f"{name}: the action space is {space}; {_advice(space)}. {WRAPPERS}")


def _advice(space: spaces.Space[Any]) -> str:
    if isinstance(space, spaces.Box):
        return (
            "actions must be discrete: gymnasium.wrappers.DiscretizeAction divides a range into bins, a "
            "gymnasium.ActionWrapper of one's own offers chosen values as Discrete(n)"
        )
    return (
        "it must be Discrete, MultiDiscrete or MultiBinary: a gymnasium.ActionWrapper makes others of it, "
        "as Discrete(n)"
    )


def _names(env: AnyEnv, actions: Actions) -> tuple[str, ...]:
    """The environment's own words for its actions where it has them, else their numbers, as in `2` or `0,1`."""
    found = _meanings(env)
    if len(found) == actions.count and all(isinstance(word, str) for word in found):
        return tuple(found)
    sizes = actions.sizes
    if isinstance(env.action_space, spaces.MultiBinary) and len(found) == len(sizes):  # of buttons
        return tuple(_joined(_pressed(found, actions.parts(number))) for number in range(actions.count))
    if len(found) == len(sizes) > 1 and all(
        not isinstance(words, str) and len(words) == size for words, size in zip(found, sizes, strict=True)
    ):
        return tuple(
            _joined([words[part] for words, part in zip(found, actions.parts(number), strict=True)])
            for number in range(actions.count)
        )
    return tuple(",".join(map(str, actions.parts(number))) for number in range(actions.count))


def _meanings(env: AnyEnv) -> list[Any]:
    """What `get_action_meanings` says, of the outermost layer that has it: a word for each action, or for each part."""
    if not env.has_wrapper_attr("get_action_meanings"):
        return []
    meanings = env.get_wrapper_attr("get_action_meanings")
    return list(meanings()) if callable(meanings) else []


def _pressed(buttons: list[Any], parts: tuple[int, ...]) -> list[Any]:
    return [button for button, down in zip(buttons, parts, strict=True) if down] or ["none"]


def _joined(words: list[Any]) -> str:
    return "+".join(map(str, words))
