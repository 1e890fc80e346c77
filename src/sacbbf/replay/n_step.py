"""What a window of stored steps means: ends, n-step returns, masks and weights. Pure functions of arrays.

Arrays are time-major: row i belongs to step t + i, column b to sample b of the batch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sacbbf.types import BoolArray, FloatArray


class Ends(NamedTuple):
    """What the three flags of a step come to, each an array of the flags' shape."""

    terminal: BoolArray  # nothing follows for learning: the return stops here, without bootstrapping
    cut: BoolArray  # cut off without a terminal: what would have followed is unknown
    over: BoolArray  # the next stored frame belongs to another episode


def combine_ends(terminated: BoolArray, truncated: BoolArray, life_lost: BoolArray) -> Ends:
    """Combines the three ends of a step, arrays of one shape; a terminal wins over a truncation beside it."""
    terminal = terminated | life_lost
    return Ends(terminal=terminal, cut=truncated & ~terminal, over=terminal | truncated)


def before_any(flags: BoolArray) -> BoolArray:
    """(T, B) -> (T, B): row i is true where none of rows 0 .. i - 1 is set."""
    before = np.ones_like(flags)
    np.logical_not(np.logical_or.accumulate(flags[:-1], axis=0), out=before[1:])
    return before


def n_step_return(rewards: FloatArray, terminal: BoolArray, gamma: float) -> FloatArray:
    """Discounted sum of the rewards up to the first terminal, its own included: eq. 12 before the bootstrap.

    rewards, terminal: (n, B) of steps t .. t + n - 1. Returns (B,) float64.
    """
    discounts = gamma ** np.arange(len(rewards), dtype=np.float64)[:, None]  # (n, 1)
    kept = np.where(before_any(terminal), rewards, 0.0)  # (n, B)
    # Not a matrix product, whose order of summation may depend on the batch size.
    return np.asarray((discounts * kept).sum(axis=0))


def ends_within(terminal: BoolArray, bootstrap_lag: int) -> BoolArray:
    """Whether a terminal ends the return, (n, B) -> (B,); one in the last `bootstrap_lag` steps is unseen."""
    return np.asarray(terminal[: len(terminal) - bootstrap_lag].any(axis=0))


def cut_short(ends: Ends) -> BoolArray:
    """Whether a window is cut off before any terminal, so that its return cannot be known; (n, B) -> (B,)."""
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
    weights = np.ones_like(priorities)
    np.divide(priorities.min(), priorities, out=weights, where=priorities > 0.0)
    return np.sqrt(weights)
