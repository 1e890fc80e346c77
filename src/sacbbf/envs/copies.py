"""Copies of Gymnasium objects, with their wrappers: what Gymnasium has recorded of one is enough to make it again."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import HumanRendering, OrderEnforcing, PassiveEnvChecker, RenderCollection, TimeLimit

from sacbbf.envs.gymnasium import AnyEnv, make_raw

AnyWrapper = gymnasium.Wrapper[Any, Any, Any, Any]

# They check and show, and change nothing that an agent sees.
_SHOWING = (HumanRendering, RenderCollection)
_WATCHERS = (PassiveEnvChecker, OrderEnforcing, *_SHOWING)
_PLAIN = (bool, int, float, str, type(None), np.generic)
_OWN_GAMES = ("ale_py", "minatar")  # played here without Gymnasium: an id of theirs names something else


class NoCopy(Exception):  # noqa: N818 - named after what there is not
    """An object cannot be made again as it is; the message says why."""


def wrappers_of(env: AnyEnv) -> list[AnyWrapper]:
    """The wrappers of an object, outermost first."""
    found = []
    while isinstance(env, gymnasium.Wrapper):
        found.append(env)
        env = env.env
    return found


def added_wrappers(env: AnyEnv) -> list[AnyWrapper]:
    """The wrappers that gymnasium.make(id) would not have added, outermost first."""
    found = wrappers_of(env)
    own: list[type] = [PassiveEnvChecker, OrderEnforcing, TimeLimit]
    registered = _registered(env)
    while found and registered is not None and own:
        kind, inner = own.pop(0), found[-1]
        limited = kind is not TimeLimit or _arguments(inner).get("max_episode_steps") == registered.max_episode_steps
        if type(inner) is kind and limited:
            found.pop()
    return [wrapper for wrapper in found if not isinstance(wrapper, _WATCHERS)]


def is_plain(env: AnyEnv) -> bool:
    """Whether an object is just what gymnasium.make gives for its id, drawn or not."""
    registered = _registered(env)
    if registered is None or _module(env).startswith(_OWN_GAMES):
        return False
    try:
        other = gymnasium.make(registered.id)
    except Exception:  # whatever an environment does when it is made without its arguments
        return False
    try:
        return _signature(env) == _signature(other) and not _difference(env, other)
    except ValueError:  # arguments that cannot be compared
        return False
    finally:
        other.close()


class Copier:
    """Makes an object again: its environment from the spec, then each wrapper with its recorded arguments."""

    def __init__(self, env: AnyEnv) -> None:
        """Make one copy and compare it; raises NoCopy if there is none or it differs."""
        self._layers = [layer for layer in reversed(wrappers_of(env)) if not isinstance(layer, _SHOWING)]
        for layer in self._layers:
            if not isinstance(layer, RecordConstructorArgs):
                raise NoCopy(f"the wrapper {type(layer).__name__} does not record its arguments")
        self._spec = self._recorded(env)
        try:
            copy = self.make()
        except Exception as error:  # whatever an environment or a wrapper does when it is made
            raise NoCopy(f"making one failed: {error}") from error
        try:
            if found := _difference(env, copy):
                raise NoCopy(found)
        finally:
            copy.close()

    def make(self, render: bool = False) -> AnyEnv:
        """Return a new environment like the object; with `render` it draws pictures."""
        env = make_raw(deepcopy(self._spec), render)
        for layer in self._layers[len(wrappers_of(env)) :]:  # an entry point may have put some on itself
            env = type(layer)(env, **deepcopy(_arguments(layer)))
        return env

    def _recorded(self, env: AnyEnv) -> Any:
        """What the innermost environment is made from; it need not open a window as the object may have."""
        spec = env.unwrapped.spec
        if spec is None:
            raise NoCopy(f"{type(env.unwrapped).__name__} was not made by gymnasium.make")
        kwargs = {name: value for name, value in spec.kwargs.items() if (name, value) != ("render_mode", "human")}
        return replace(spec, kwargs=kwargs, order_enforce=False, disable_env_checker=True, max_episode_steps=None)


def _registered(env: AnyEnv) -> Any:
    """The registered spec under an object's id, if there is one."""
    spec = env.unwrapped.spec
    return None if spec is None else gymnasium.registry.get(spec.id)


def _module(env: AnyEnv) -> str:
    return type(env.unwrapped).__module__


def _arguments(wrapper: AnyWrapper) -> dict[str, Any]:
    """What a wrapper has recorded of its arguments, without the environment."""
    saved = getattr(wrapper, "_saved_kwargs", {})
    return {name: value for name, value in saved.items() if name != "env"}


def _signature(env: AnyEnv) -> tuple[Any, ...]:
    """The class and arguments of each layer, without those that change nothing."""
    layers = [(type(layer), _arguments(layer)) for layer in wrappers_of(env) if not isinstance(layer, _WATCHERS)]
    kwargs = env.unwrapped.spec.kwargs if env.unwrapped.spec is not None else {}
    drawn = ("render_mode",)
    return (*layers, type(env.unwrapped), {name: value for name, value in kwargs.items() if name not in drawn})


def _difference(env: AnyEnv, other: AnyEnv) -> str:
    """In what an object and another differ, empty for nothing found."""
    kinds, others = (
        [type(layer) for layer in (*wrappers_of(one), one.unwrapped) if not isinstance(layer, _WATCHERS)]
        for one in (env, other)
    )
    if kinds != others:
        return "a copy has other wrappers"
    if env.observation_space != other.observation_space or env.action_space != other.action_space:
        return "a copy has other spaces"
    if name := _other_attribute(env.unwrapped, other.unwrapped):
        try:  # they may only have been played: an episode's beginning shows what was set by hand
            env.unwrapped.reset(seed=0)
            other.unwrapped.reset(seed=0)
        except Exception:
            return f"its {name} was changed"
        name = _other_attribute(env.unwrapped, other.unwrapped)
    return f"its {name} was changed" if name else ""


def _other_attribute(env: AnyEnv, other: AnyEnv) -> str:
    """The first attribute, of numbers or words, in which two environments of a class differ."""
    ours, theirs = vars(env), vars(other)
    for name in (*ours, *theirs):
        one, two = ours.get(name), theirs.get(name)
        if name in ("render_mode", "spec") or not _comparable(one) or not _comparable(two):
            continue
        if not np.array_equal(np.asarray(one), np.asarray(two)):
            return name
    return ""


def _comparable(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return bool(value.dtype != object)
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(isinstance(part, _PLAIN) for part in value))
