"""What is handed from room to room: an environment's step and a learner's batch. No logic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch  # environments use this file, and do not need torch

Frame = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Arrays = dict[str, npt.NDArray[Any]]  # by name


@dataclass(frozen=True, slots=True)
class Step:
    """What an environment answers to one action.

    `frame` is the newest single frame, channels first: (C, H, W) for images and grids, (D,) for vectors.
    `reward` is raw; clipping is the learner's affair. The three ends stay apart: the game is over
    (`terminated`), it was cut off (`truncated`), or it goes on with one life less (`life_lost`).
    """

    frame: Frame
    reward: float
    terminated: bool
    truncated: bool
    life_lost: bool

    @property
    def over(self) -> bool:
        """Whether the environment must be reset before the next action."""
        return self.terminated or self.truncated


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """One finished episode: its number within its phase, the seed it began with, and how it went."""

    number: int
    seed: int
    score: float  # undiscounted, unclipped return
    length: int  # agent steps
    truncated: bool  # cut off rather than over


@dataclass(frozen=True, slots=True)
class Batch:
    """B sampled windows, ready for one update; k is the number of future states that SPR predicts.

    `states` is time-major, so that each pass over it is one contiguous slice:
    states[0] is s_t, states[1 : k + 1] are s_{t+1} .. s_{t+k}, and states[k + 1] is s_{t+n}.
    """

    states: torch.Tensor  # (k + 2, B, stack * C, ...), the stored dtype
    actions: torch.Tensor  # (k + 1, B) int64: a_t .. a_{t+k}
    return_n: torch.Tensor  # (B,) float32: discounted sum of up to n rewards
    discount_n: torch.Tensor  # (B,) float32: gamma^n
    done: torch.Tensor  # (B,) bool: the episode terminated within the n steps
    same_episode: torch.Tensor  # (k, B) float32: 1 where s_{t+j} belongs to the episode of s_t
    weights: torch.Tensor  # (B,) float32: importance weights, at most 1
    bootstrap_step: int  # steps from s_t to the bootstrap state: n (one less in released behaviour)
    indices: IntArray  # (B,) step numbers t, for writing priorities back
    mask_t: torch.Tensor | None = None  # (B, A) bool: the legal actions at s_t; None: all of them, in every state
    mask_n: torch.Tensor | None = None  # (B, A) bool: those at the bootstrap state, row k + 1 of `states`
