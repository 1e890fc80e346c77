"""Any Gymnasium environment with actions that can be numbered and arrays to look at, by id or as an object."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec as EnvRecord

from sacbbf.envs.actions import Actions
from sacbbf.envs.base import Clock, EnvError, EnvSpec, MissingExtra, NoPictures, Pixels, check_seed
from sacbbf.envs.configured import read_kwargs, wrap
from sacbbf.envs.masks import Masks
from sacbbf.envs.raw import RawSide
from sacbbf.envs.spaces import view_of
from sacbbf.types import BoolArray, Frame, Step

if TYPE_CHECKING:
    from sacbbf.envs.make import EnvSettings

AnyEnv = gymnasium.Env[Any, Any]


def make_gymnasium(
    env: str | AnyEnv,
    settings: EnvSettings,
    *,
    name: str | None = None,
    render: bool = False,
    owned: bool = False,
) -> GymnasiumEnvironment:
    """The environment registered under an id (`CartPole-v1`), with its settings, or the object itself.

    `settings.max_steps` (agent steps) cuts episodes off, on top of the environment's own limit. `render=True`
    makes pictures available; an object must have been made with render_mode="rgb_array" for that.
    Either goes by `name`; an object is closed with the environment only if it is `owned`.
    """
    if isinstance(env, str):
        name = name or env
        made = wrap(_make_named(env, name, settings, render), settings.wrappers, name)
        try:
            return GymnasiumEnvironment(made, name, settings, owned=True)
        except EnvError:
            made.close()
            raise
    if name is None:
        name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    if render and env.render_mode != "rgb_array":
        raise EnvError(f"{name}: rendering needs render_mode = 'rgb_array', this object has {env.render_mode!r}")
    return GymnasiumEnvironment(env, name, settings, owned=owned)


def _make_named(id: str, name: str, settings: EnvSettings, render: bool) -> AnyEnv:
    """Make what is registered, with the arguments of the settings; what it says against them becomes an EnvError."""
    kwargs = read_kwargs(settings.kwargs)
    try:
        return make_raw(id, render, kwargs)
    except EnvError:
        raise
    except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
        raise MissingExtra(f"{name} needs a package that is not installed: {error}") from error
    except Exception as error:
        if not kwargs:
            raise
        given = ", ".join(f"{key}={value!r}" for key, value in kwargs.items())
        raise EnvError(f"{name} cannot be made with {given}: {type(error).__name__}: {error}") from error


def make_raw(what: str | EnvRecord, render: bool, kwargs: dict[str, Any] | None = None) -> AnyEnv:
    """Make what Gymnasium knows by an id or a spec; EnvError if it is to draw pictures and cannot.

    Pictures are asked for only when wanted: many environments need more packages or time for them.
    """
    name = what if isinstance(what, str) else what.id
    if render:
        _quieten_pygame()
    arguments: dict[str, Any] = {"render_mode": "rgb_array"} if render else {}
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*render_mode='rgb_array' that is not in")  # found out below
            made = gymnasium.make(what, **arguments, **(kwargs or {}))
    except TypeError as error:
        if not (render and "render_mode" in str(error)):
            raise
        raise NoPictures(f"{name}: render = True, but this environment draws no pictures") from error
    if render and "rgb_array" not in made.metadata.get("render_modes", ()):
        raise NoPictures(f"{name}: render = True, but this environment draws no pictures")
    return made


def _quieten_pygame() -> None:
    """Keep pygame, which draws for some environments, from greeting, and from complaining where there is no screen."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


class GymnasiumEnvironment:
    """A Gymnasium environment with its frames brought into the project's form, channels first.

    An episode is a function of its seed and actions as far as the environment keeps Gymnasium's
    promise that reset(seed=...) fixes all its randomness.
    """

    def __init__(self, env: AnyEnv, name: str, settings: EnvSettings, *, owned: bool = True) -> None:
        self._env = env
        self._owned = owned
        self._actions = Actions(env, name)
        self._view = view_of(env.observation_space, name, settings)
        own_limit = env.spec.max_episode_steps if env.spec is not None else None
        limits = [limit for limit in (settings.max_steps, own_limit) if limit is not None]
        self._spec = EnvSpec(
            id=name,
            kind=self._view.kind,
            frame_shape=self._view.shape,
            frame_dtype=self._view.dtype,
            num_actions=self._actions.count,
            action_names=self._actions.names,
            stack=self._view.stack,
            max_steps=min(limits, default=None),
            note=self._view.note,
        )
        settings.refuse_resize(self._spec)
        self._clock = Clock(self._spec)
        self._masks = Masks(env, name, self._spec.num_actions)

    @property
    def spec(self) -> EnvSpec:
        """What a learner must know of this environment."""
        return self._spec

    @property
    def raw(self) -> RawSide:
        """The environment's own spaces, and the way from them to frames and action numbers and back."""
        own = self._env.observation_space, self._env.action_space
        return RawSide(*own, self.frame_of, self.raw_action, self.action_number)

    @property
    def mask(self) -> BoolArray | None:
        """The legal actions (A,) of the state last returned; None if the environment does not tell them."""
        return self._masks.current

    def reset(self, seed: int) -> Frame:
        """Begin the episode of `seed`; its first frame, of the spec's shape."""
        observation, info = self._env.reset(seed=check_seed(seed))
        self._clock.start()
        self._masks.read(info, over=False)
        return self.frame_of(observation)

    def step(self, action: int) -> Step:
        """Take action number `action`, counted from 0 whatever the environment itself takes."""
        raw = self.raw_action(self._clock.check(action))
        observation, reward, terminated, cut, info = self._env.step(raw)
        truncated = self._clock.tick(bool(terminated), bool(cut))
        self._masks.read(info, over=bool(terminated) or truncated)
        return Step(self.frame_of(observation), float(reward), bool(terminated), truncated, life_lost=False)

    def raw_action(self, number: int) -> Any:
        """Return what the Gymnasium environment takes for action `number`: an int or an array, as its space has it."""
        return self._actions.raw(number)

    def action_number(self, raw: Any) -> int:
        """Return the number of an action that the Gymnasium environment takes: the inverse of `raw_action`."""
        return self._actions.number(raw)

    def frame_of(self, observation: Any) -> Frame:
        """Return the frame that an agent sees of one of the Gymnasium environment's observations."""
        try:
            return self._view.frame(observation)
        except (IndexError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, EnvError):
                raise
            raise EnvError(
                f"{self._spec.id}: an observation is not of the space {self._env.observation_space}: {error}"
            ) from error

    def render(self) -> Pixels:
        """The environment's own picture, (H, W, 3) uint8."""
        if self._env.render_mode != "rgb_array":
            raise EnvError(f"{self._spec.id}: made without render = True, so there are no pictures")
        try:
            drawn = self._env.render()
        except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
            raise MissingExtra(
                f"{self._spec.id} cannot draw its pictures: {error}; pip install 'sacbbf[video]' brings pygame"
            ) from error
        if drawn is None:
            raise NoPictures(f"{self._spec.id}: its render() gives no picture")
        return np.asarray(drawn, dtype=np.uint8)

    def close(self) -> None:
        """Close the environment, unless it was handed in as an object: then it is its maker's to close."""
        if self._owned:
            self._env.close()
