"""Where a run's environments come from: a name, a Gymnasium object with its wrappers, or a function that makes one."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium

from sacbbf.envs.base import EnvError, Environment, EnvSpec
from sacbbf.envs.copies import Copier, NoCopy, added_wrappers, is_plain
from sacbbf.envs.gymnasium import AnyEnv, make_gymnasium
from sacbbf.envs.make import EnvSettings, make_env, refuse_foreign
from sacbbf.envs.raw import RawSide, raw_side
from sacbbf.envs.trust import CUSTOM

EnvLike = str | AnyEnv | Callable[[], AnyEnv]
_Maker = Callable[[bool], Environment]  # takes whether pictures are wanted


@dataclass(frozen=True)
class EnvSource:
    """Environments for training, and for evaluation and watching beside it."""

    name: str  # what RunConfig.env holds; equal to spec.id
    settings: EnvSettings
    spec: EnvSpec
    repeatable: bool  # whether make_env(name, settings=settings) alone finds the environment again
    shared: bool  # there is one object only: evaluation plays on the one that training uses
    given: AnyEnv | None  # the unwrapped object that was handed in, which others may use when training does not
    raw: RawSide | None  # the environment's own spaces; None for Atari
    description: str  # one sentence for people: what evaluation plays on
    _make: _Maker
    _make_for_play: _Maker

    def make(self, render: bool = False) -> Environment:
        """Return the environment to train on: an object as it is, with all its wrappers."""
        return self._make(render)

    def make_for_play(self, render: bool = False) -> Environment:
        """Return an environment to evaluate or watch on.

        Where `shared` is set it is the object of training itself: the episode in progress must be given up before
        (`Training.cut_off`), and only one may be played at a time (`parallel`).
        """
        return self._make_for_play(render)

    def parallel(self, wanted: int) -> int:
        """Return how many environments can be played side by side: 1 where there is one object only."""
        return 1 if self.shared else wanted


def source_of(env: EnvLike, settings: EnvSettings | None = None) -> EnvSource:
    """Return where environments come from, given a name, a gymnasium.Env, or a function without arguments."""
    settings = settings or EnvSettings()
    if isinstance(env, str):
        return _of_name(env, settings)
    if isinstance(env, gymnasium.Env):
        return _of_object(env, settings)
    if callable(env):
        return _of_function(env, settings)
    raise refuse_foreign(env)


def _of_name(name: str, settings: EnvSettings) -> EnvSource:
    made = make_env(name, settings=settings)
    spec, raw = made.spec, raw_side(made)
    made.close()
    maker = _by_name(spec.id, settings)
    words = f"evaluation plays on further environments made as {spec.id}"
    return EnvSource(spec.id, settings, spec, True, False, None, raw, words, maker, maker)


def _of_object(env: AnyEnv, settings: EnvSettings) -> EnvSource:
    plain = is_plain(env)
    name = id_of(env) if plain else custom_name(env)

    def itself(render: bool) -> Environment:
        return make_env(env, settings=settings, render=render, name=name)

    seen = itself(False)
    spec, raw = seen.spec, raw_side(seen)
    if plain:
        words = f"evaluation plays on further environments made as {name}, which is what the object is"
        return EnvSource(name, settings, spec, True, False, env.unwrapped, raw, words, itself, _by_name(name, settings))
    try:
        copier = Copier(env)
    except NoCopy as reason:
        words = (
            f"evaluation plays on the object itself, between episodes, as no copy can be made of it ({reason}); "
            "a training episode in progress is cut off before"
        )
        return EnvSource(name, settings, spec, False, True, env.unwrapped, raw, words, itself, itself)

    def copy(render: bool) -> Environment:
        return make_gymnasium(copier.make(render), settings, name=name, render=render, owned=True)

    words = "evaluation plays on copies of the object, made from its spec with its wrappers"
    return EnvSource(name, settings, spec, False, False, env.unwrapped, raw, words, itself, copy)


def _of_function(function: Callable[[], AnyEnv], settings: EnvSettings) -> EnvSource:
    factory = _Factory(function)
    first = factory.make()
    plain = is_plain(first)
    name = id_of(first) if plain else CUSTOM + factory.name
    seen = make_env(first, settings=settings, name=name)
    factory.keep(first)  # the first that is wanted

    def make(render: bool) -> Environment:
        made = factory.take()
        return make_env(made, settings=settings, render=render, name=name, owned=True)

    words = "evaluation plays on further environments made by the function"
    return EnvSource(name, settings, seen.spec, plain, False, None, raw_side(seen), words, make, make)


class _Factory:
    """A function that makes environments, checked to make a new one each time."""

    def __init__(self, function: Callable[[], AnyEnv]) -> None:
        self.function = function
        self.name = _name_of(function)
        self._made: list[weakref.ref[AnyEnv]] = []
        self._kept: AnyEnv | None = None

    def make(self) -> AnyEnv:
        made = self.function()
        if not isinstance(made, gymnasium.Env):
            raise EnvError(f"env = {self.name}: the function must return a gymnasium.Env, got {type(made).__name__}")
        self._made = [known for known in self._made if known() is not None]
        if any(known() is made.unwrapped for known in self._made):
            raise EnvError(
                f"env = {self.name}: the function returned the same environment twice; it must make a new one at each "
                "call, or the environment be given itself"
            )
        self._made.append(weakref.ref(made.unwrapped))
        return made

    def keep(self, env: AnyEnv) -> None:
        """Hold an environment for the next that is taken."""
        self._kept = env

    def take(self) -> AnyEnv:
        """Return the environment that is held, or a new one."""
        kept, self._kept = self._kept, None
        return self.make() if kept is None else kept


def _name_of(function: Callable[[], Any]) -> str:
    """The name of a function or class, or of the class of another object that can be called."""
    inner = getattr(function, "func", function)  # of functools.partial
    return str(getattr(inner, "__qualname__", type(inner).__qualname__)).replace("<locals>.", "")


def _by_name(name: str, settings: EnvSettings) -> _Maker:
    return lambda render: make_env(name, settings=settings, render=render)


def id_of(env: AnyEnv) -> str:
    """The id under which an object was made, else the name of its class."""
    spec = env.unwrapped.spec
    return spec.id if spec is not None else type(env.unwrapped).__name__


def custom_name(env: AnyEnv) -> str:
    """The name of an object: its id or class inside its wrappers, `custom:TimeLimit(Spy(CartPole-v1))`."""
    name = id_of(env)
    for wrapper in reversed(added_wrappers(env)):
        name = f"{type(wrapper).__name__}({name})"
    return CUSTOM + name
