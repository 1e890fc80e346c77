"""Any Gymnasium environment with discrete actions and an array to look at, by id or as an object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec as EnvRecord

from sacbbf.envs.base import Clock, EnvError, EnvSpec, Kind, Pixels, check_at_least, check_seed
from sacbbf.envs.raw import RawSide
from sacbbf.types import Frame, Step

AnyEnv = gymnasium.Env[Any, Any]

_CHANNELS = (1, 3, 4)  # grey, RGB, and RGBA or four stacked frames
_ALLOWED = (
    "sacbbf plays environments with a Discrete action space and a Box observation space "
    "of one dimension (a vector) or two or three (an image or a grid)"
)


def make_gymnasium(
    env: str | AnyEnv,
    *,
    name: str | None = None,
    max_steps: int | None = None,
    render: bool = False,
    owned: bool = False,
) -> GymnasiumEnvironment:
    """The environment registered under an id (`CartPole-v1`, `module:Name-v0`), or the object itself.

    `max_steps` (agent steps) cuts episodes off, on top of the environment's own limit. `render=True`
    makes pictures available; an object must have been made with render_mode="rgb_array" for that.
    An object goes by `name`, and is closed with the environment if it is `owned`.
    """
    if isinstance(env, str):
        made = make_raw(env, render)
        try:
            return GymnasiumEnvironment(made, env, max_steps=max_steps, owned=True)
        except EnvError:
            made.close()
            raise
    if name is None:
        name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    if render and env.render_mode != "rgb_array":
        raise EnvError(f"{name}: rendering needs render_mode = 'rgb_array', this object has {env.render_mode!r}")
    return GymnasiumEnvironment(env, name, max_steps=max_steps, owned=owned)


def make_raw(what: str | EnvRecord, render: bool) -> AnyEnv:
    """Make what Gymnasium knows by an id or a spec; EnvError if it is to draw pictures and cannot.

    Pictures are asked for only when wanted: many environments need more packages or time for them.
    """
    name = what if isinstance(what, str) else what.id
    try:
        made = gymnasium.make(what, render_mode="rgb_array") if render else gymnasium.make(what)
    except TypeError as error:
        if not (render and "render_mode" in str(error)):
            raise
        raise EnvError(f"{name}: render = True, but this environment draws no pictures") from error
    if render and "rgb_array" not in made.metadata.get("render_modes", ()):
        raise EnvError(f"{name}: render = True, but this environment draws no pictures")
    return made


class GymnasiumEnvironment:
    """A Gymnasium environment with its frames brought into the project's form, channels first.

    An episode is a function of its seed and actions as far as the environment keeps Gymnasium's
    promise that reset(seed=...) fixes all its randomness.
    """

    def __init__(self, env: AnyEnv, name: str, *, max_steps: int | None = None, owned: bool = True) -> None:
        if max_steps is not None:
            check_at_least("max_steps", max_steps, 1)
        self._env = env
        self._owned = owned
        actions = _check_actions(env.action_space, name)
        self._first_action = int(actions.start)
        self._convert, kind, shape, dtype = _converter(env.observation_space, name)
        own_limit = env.spec.max_episode_steps if env.spec is not None else None
        self._spec = EnvSpec(
            id=name,
            kind=kind,
            frame_shape=shape,
            frame_dtype=dtype,
            num_actions=int(actions.n),
            action_names=_action_names(env, int(actions.n)),
            stack=_default_stack(kind, shape),
            max_steps=min((limit for limit in (max_steps, own_limit) if limit is not None), default=None),
        )
        self._clock = Clock(self._spec)

    @property
    def spec(self) -> EnvSpec:
        """What a learner must know of this environment."""
        return self._spec

    @property
    def raw(self) -> RawSide:
        """The environment's own spaces, and the way from them to frames and action numbers and back."""
        first = self._first_action
        return RawSide(
            self._env.observation_space,
            self._env.action_space,
            self._convert,
            lambda number: number + first,
            lambda action: int(action) - first,
        )

    def reset(self, seed: int) -> Frame:
        """Begin the episode of `seed`; its first frame, of the spec's shape."""
        observation, _ = self._env.reset(seed=check_seed(seed))
        self._clock.start()
        return self._convert(observation)

    def step(self, action: int) -> Step:
        """Take action number `action`, counted from 0 wherever the environment's own count starts."""
        action = self._clock.check(action) + self._first_action
        observation, reward, terminated, cut, _ = self._env.step(action)
        truncated = self._clock.tick(bool(terminated), bool(cut))
        return Step(self._convert(observation), float(reward), bool(terminated), truncated, life_lost=False)

    def render(self) -> Pixels:
        """The environment's own picture, (H, W, 3) uint8."""
        if self._env.render_mode != "rgb_array":
            raise EnvError(f"{self._spec.id}: made without render = True, so there are no pictures")
        return np.asarray(self._env.render(), dtype=np.uint8)

    def close(self) -> None:
        """Close the environment, unless it was handed in as an object: then it is its maker's to close."""
        if self._owned:
            self._env.close()


def _check_actions(space: spaces.Space[Any], name: str) -> spaces.Discrete:
    if not isinstance(space, spaces.Discrete):
        raise EnvError(f"{name}: the action space is {space}; {_ALLOWED}")
    return space


def _action_names(env: AnyEnv, count: int) -> tuple[str, ...]:
    """The environment's own words for its actions where it has them, else their numbers."""
    meanings = getattr(env.unwrapped, "get_action_meanings", None)
    names = tuple(str(meaning) for meaning in meanings()) if callable(meanings) else ()
    return names if len(names) == count else tuple(str(action) for action in range(count))


def _default_stack(kind: Kind, shape: tuple[int, ...]) -> int:
    """4 for images of one moment (grey or RGB), which hide motion; else 1: stacked images, grids, vectors."""
    return 4 if kind == "image" and shape[0] in (1, 3) else 1


Converter = Callable[[npt.ArrayLike], Frame]


def _converter(space: spaces.Space[Any], name: str) -> tuple[Converter, Kind, tuple[int, ...], np.dtype[Any]]:
    """How this space's observations become frames: (function, kind, frame shape, frame dtype)."""
    if not isinstance(space, spaces.Box) or len(space.shape) not in (1, 2, 3):
        raise EnvError(f"{name}: the observation space is {space}; {_ALLOWED}")
    if space.dtype is None or space.dtype.kind not in "buif":
        raise EnvError(f"{name}: observations are of dtype {space.dtype}; {_ALLOWED}, of numbers")
    if len(space.shape) == 1:
        scale = 255.0 if space.dtype == np.uint8 else 1.0  # bytes, such as a console's memory
        return _vector(scale), "vector", space.shape, np.dtype(np.float32)
    # Bytes are pixels; anything else is a map. Booleans stay small, other numbers become floats.
    kind: Kind = "image" if space.dtype == np.uint8 else "grid"
    dtype = space.dtype if space.dtype in (np.uint8, np.bool_) else np.dtype(np.float32)
    convert = _planes(space.shape, dtype)
    shape = convert(np.zeros(space.shape, space.dtype)).shape
    return convert, kind, shape, dtype


def _vector(scale: float) -> Converter:
    def convert(observation: npt.ArrayLike) -> Frame:
        return np.array(observation, dtype=np.float32) / np.float32(scale)  # (D,)

    return convert


def _planes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Converter:
    """(H, W), (H, W, C) or (C, H, W) -> (C, H, W), always a copy: environments may write over their own.

    Channels are taken to be last, unless only the first axis is as short as channels are.
    """
    channels_first = len(shape) == 3 and shape[0] in _CHANNELS and shape[-1] not in _CHANNELS

    def convert(observation: npt.ArrayLike) -> Frame:
        planes = np.asarray(observation)
        if planes.ndim == 2:
            planes = planes[np.newaxis]
        elif not channels_first:
            planes = planes.transpose(2, 0, 1)
        return np.array(planes, dtype=dtype, order="C")

    return convert
