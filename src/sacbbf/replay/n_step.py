"""What a window of stored steps means: ends, n-step returns, masks and weights. Pure functions of arrays.

Arrays are time-major: row i belongs to step t + i, column b to sample b of the batch.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sacbbf.types import BoolArray, FloatArray, IntArray


def check_n(n: int) -> None:
    """Raises ValueError unless a return may span n steps."""
    if n < 1:
        raise ValueError(f"n: got {n}, must be at least 1")


def check_gamma(gamma: float) -> None:
    """Raises ValueError unless gamma may discount rewards."""
    if not 0.0 < gamma <= 1.0:
        raise ValueError(f"gamma: got {gamma}, must be above 0 and at most 1")


@lru_cache(maxsize=32)  # n takes a few values in a run
def step_offsets(rows: int) -> IntArray:
    """How far after t the steps of a window are: 0 .. rows - 1, as (rows, 1)."""
    return np.arange(rows)[:, None]


@lru_cache(maxsize=32)
def state_offsets(k: int, bootstrap_step: int) -> IntArray:
    """How far after t the states of a batch are: 0 .. k, and the bootstrap state; (k + 2,)."""
    return np.array([*range(k + 1), bootstrap_step])


class Ends(NamedTuple):
    """What the three flags of a step come to, each an array of the flags' shape."""

    terminal: BoolArray  # nothing follows for learning: the return stops here, without bootstrapping
    cut: BoolArray  # cut off without a terminal: what would have followed is unknown
    over: BoolArray  # the next stored frame belongs to another episode

    def first(self, rows: int) -> Ends:
        """Those of the first `rows` steps."""
        return Ends(self.terminal[:rows], self.cut[:rows], self.over[:rows])


class Windows(NamedTuple):
    """B windows with what both judging and assembling them must know, so that it is looked up once."""

    t: IntArray  # (B,): the steps at which they start
    slots: IntArray  # (rows, B): where t, t + 1, .. are stored, as far as a window or its batch reaches
    ends: Ends  # (rows, B)


def combine_ends(terminated: BoolArray, truncated: BoolArray, life_lost: BoolArray) -> Ends:
    """Combines the three ends of a step, arrays of one shape; a terminal wins over a truncation beside it."""
    terminal = terminated | life_lost
    return Ends(terminal=terminal, cut=truncated & ~terminal, over=terminal | truncated)


def before_any(flags: BoolArray) -> BoolArray:
    """(T, B) -> (T, B): row i is true where none of rows 0 .. i - 1 is set."""
    before = np.empty(flags.shape, dtype=np.bool_)
    before[:1] = True
    later = before[1:]
    np.logical_or.accumulate(flags[:-1], axis=0, out=later)
    np.logical_not(later, out=later)
    return before


def n_step_return(rewards: FloatArray, terminal: BoolArray, gamma: float) -> FloatArray:
    """Discounted sum of the rewards up to the first terminal, its own included: eq. 12 before the bootstrap.

    rewards, terminal: (n, B) of steps t .. t + n - 1. Returns (B,) float64.
    """
    terms = _discounts(len(rewards), gamma) * rewards  # (n, B)
    terms[1:][np.logical_or.accumulate(terminal[:-1], axis=0)] = 0.0  # what comes after a terminal
    # Not a matrix product, whose order of summation may depend on the batch size.
    return np.asarray(np.add.reduce(terms, axis=0))


@lru_cache(maxsize=8)  # n and gamma stand still between two anneals
def _discounts(n: int, gamma: float) -> FloatArray:
    """gamma^0 .. gamma^(n - 1), (n, 1)."""
    return np.asarray(gamma ** np.arange(n, dtype=np.float64)[:, None])


def ends_within(terminal: BoolArray, bootstrap_lag: int) -> BoolArray:
    """Whether a terminal ends the return, (n, B) -> (B,); one in the last `bootstrap_lag` steps is unseen."""
    return np.asarray(terminal[: len(terminal) - bootstrap_lag].any(axis=0))


def cut_short(ends: Ends) -> BoolArray:
    """Whether a window is cut off before any terminal, so that its return cannot be known; (n, B) -> (B,)."""
    if not ends.cut.any():  # few episodes are cut off, so this is what most batches come to
        return np.zeros(ends.cut.shape[1:], dtype=np.bool_)
    return np.asarray((ends.cut & before_any(ends.terminal)).any(axis=0))


def same_episode(ends: Ends, *, exact: bool) -> BoolArray:
    """Whether s_{t+j}, j = 0 .. k, belongs to the episode of s_t; ends of (k + 1, B), result (k + 1, B).

    exact: no end of any kind at t .. t + j - 1. Otherwise the release's mask: no terminal at t .. t + j, so a
    terminal masks its own state as well, a truncation masks nothing, and the first sample is never masked.
    """
    if exact:
        return before_any(ends.over)
    same = ~np.logical_or.accumulate(ends.terminal, axis=0)
    same[:, 0] = True
    return same


def importance_weights(priorities: FloatArray) -> FloatArray:
    """1 / sqrt(priority) divided by its maximum over all that was drawn, (B,) -> (B,); at most 1.

    Written as sqrt(smallest / priority), which is the same and has a limit at zero priority.
    """
    smallest = priorities.min()
    if smallest > 0.0:
        return np.asarray(np.sqrt(smallest / priorities))
    return np.asarray(np.where(priorities > 0.0, 0.0, 1.0))
