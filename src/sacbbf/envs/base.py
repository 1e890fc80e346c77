"""What every environment looks like to the rest of the project, and the errors they share."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from sacbbf.errors import UsageError
from sacbbf.types import BoolArray, Frame, Step

Kind = Literal["image", "grid", "vector"]
Pixels = npt.NDArray[np.uint8]


class EnvError(UsageError):
    """An environment or one of its settings cannot be used; the message says what can."""


class UnknownEnvironment(EnvError):  # noqa: N818 - named after what it is, like KeyError's kin
    """No environment has the name that was given."""


class UnknownModule(UnknownEnvironment):
    """A module that is to be imported for an environment is not there."""


class NoPictures(EnvError):  # noqa: N818
    """An environment draws no pictures, and they were asked for."""


class MissingExtra(UsageError, ImportError):  # noqa: N818
    """An environment needs a package that is installed on request only."""


@dataclass(frozen=True)
class EnvSpec:
    """What a learner must know of an environment before it plays it."""

    id: str  # the name under which make_env finds it again
    kind: Kind
    frame_shape: tuple[int, ...]  # one frame, channels first: (C, H, W), or (D,) for vectors
    frame_dtype: np.dtype[Any]
    num_actions: int
    action_names: tuple[str, ...]
    stack: int = 1  # frames in a state unless set otherwise: more than one where a frame hides motion
    clip_rewards: bool = False  # whether rewards are clipped to [-1, 1] for learning unless set otherwise
    game: str | None = None  # an Atari game's name, else None
    max_steps: int | None = None  # agent steps after which an episode is cut off; None: never
    note: str = ""  # what a person may not expect of how it is seen: pictures that are resized, for one


@runtime_checkable
class Environment(Protocol):
    """One game at a time; an episode is a function of its seed and actions, whatever was played before."""

    @property
    def spec(self) -> EnvSpec:
        """What a learner must know of this environment."""
        ...

    @property
    def mask(self) -> BoolArray | None:
        """The legal actions (A,) of the state last returned, at least one unless the episode is over.

        None in every state where the environment knows no illegal actions.
        """
        ...

    def reset(self, seed: int) -> Frame:
        """Begin the episode that belongs to `seed` and return its first frame, of the spec's shape."""
        ...

    def step(self, action: int) -> Step:
        """Take action number `action`, 0 .. num_actions - 1."""
        ...

    def render(self) -> Pixels:
        """The screen as a person would see it: (H, W, 3) uint8."""
        ...

    def close(self) -> None:
        """Give back what the environment holds."""
        ...


def check_sticky(sticky: float) -> None:
    """Refuse a probability of repeating the last action outside [0, 1)."""
    if not 0.0 <= sticky < 1.0:
        raise EnvError(f"sticky must be a probability in [0, 1), got {sticky!r}")


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_at_least(name: str, value: int, least: int) -> None:
    """Refuse a whole-number setting below `least`."""
    if not _is_whole(value) or value < least:
        raise EnvError(f"{name} must be an integer of at least {least}, got {value!r}")


def check_seed(seed: int) -> int:
    """The episode seed as a plain int, in [0, 2**32): what every emulator's seed can hold."""
    if not _is_whole(seed) or not 0 <= seed < 2**32:
        raise EnvError(f"an episode's seed must be an integer in [0, 2**32), got {seed!r}")
    return int(seed)


def check_mask(mask: object, shape: tuple[int, ...], source: str) -> BoolArray:
    """A copy of a mask of the legal actions (..., A); EnvError unless each state has one, of 0 and 1 alone."""
    found = np.asarray(mask)
    if found.shape != shape:
        raise EnvError(f"{source} has shape {found.shape}: must be {shape}, one entry for each action")
    if found.dtype.kind not in "biuf" or not np.isin(found, (0, 1)).all():
        raise EnvError(f"{source} holds {found.dtype} of other values than 0 and 1: True stands for a legal action")
    legal = found.astype(np.bool_)
    if not legal.any(axis=-1).all():
        raise EnvError(f"{source} has no legal action in a state in which one must be taken")
    return legal


class Clock:
    """Counts an episode's agent steps, cuts it off, and refuses steps that no episode is there for."""

    def __init__(self, spec: EnvSpec) -> None:
        self._spec = spec
        self._taken: int | None = None

    def start(self) -> None:
        """A new episode begins."""
        self._taken = 0

    def check(self, action: int) -> int:
        """The action as a plain int, if there is such an action and an episode to take it in."""
        if self._taken is None:
            raise RuntimeError(f"{self._spec.id}: the episode is over or was never begun; call reset(seed)")
        if not _is_whole(action) or not 0 <= action < self._spec.num_actions:
            last = self._spec.num_actions - 1
            raise EnvError(f"{self._spec.id}: action must be an integer in 0 .. {last}, got {action!r}")
        return int(action)

    def tick(self, terminated: bool, truncated: bool = False) -> bool:
        """Count one step; whether the episode is truncated by it, which a terminated one never is."""
        taken = self._taken = (self._taken or 0) + 1
        limit = self._spec.max_steps
        truncated = not terminated and (truncated or (limit is not None and taken >= limit))
        if terminated or truncated:
            self._taken = None
        return truncated
