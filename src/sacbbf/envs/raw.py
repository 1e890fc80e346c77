"""An environment as its maker sees it: Gymnasium's spaces, and the way to the frames and action numbers used here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
from gymnasium import spaces

from sacbbf.envs.base import Environment
from sacbbf.types import Frame


@dataclass(frozen=True)
class RawSide:
    """What a raw environment shows and takes, and how that becomes what is used here."""

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    to_frame: Callable[[npt.ArrayLike], Frame]  # one observation -> one frame of the spec's shape
    to_action: Callable[[int], Any]  # action number 0 .. num_actions - 1 -> an action of `action_space`
    to_number: Callable[[Any], int]  # and back


def raw_side(env: Environment) -> RawSide | None:
    """Return the raw side of an environment; None for Atari, whose frames no Gymnasium environment shows."""
    found: RawSide | None = getattr(env, "raw", None)
    return found
