"""The statistics of a score table, with 95% stratified bootstrap intervals: aggregates, profiles, improvement.

Scores come as a matrix of runs x games, NaN below the columns of games with fewer runs. With equal numbers of runs
every statistic is as rliable has it. With unequal numbers
- mean, median and games above human are of the games' means, so that each game weighs the same;
- IQM, optimality gap and profiles are of all runs pooled as they are, so that a game with more runs weighs more
  (`balanced_iqm` says how much that matters);
- the probability of improvement is averaged over games, each from its own runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sacbbf.report.resample import interval

Matrix = npt.NDArray[np.float64]
Values = npt.NDArray[np.float64]

METRICS = {
    "iqm": "IQM",
    "median": "Median",
    "mean": "Mean",
    "optimality_gap": "Optimality gap",
    "games_above_human": "Games above human",
}
LOWER_IS_BETTER = frozenset({"optimality_gap"})
NEEDS_RUNS = frozenset({"iqm", "optimality_gap"})  # not functions of the games' means
THRESHOLDS = np.linspace(0.0, np.sqrt(8.0), 81) ** 2  # of the profiles: closer together where most scores lie


@dataclass(frozen=True)
class Sampling:
    """How intervals are drawn; the same sampling of the same scores gives the same intervals."""

    reps: int = 5_000  # bootstrap samples
    seed: int = 0


@dataclass(frozen=True)
class Estimate:
    """A number with its 95% interval, if it has one."""

    value: float
    low: float | None = None
    high: float | None = None
    quoted: bool = False  # as printed in a paper, not computed here


def matrix(scores: Sequence[Sequence[float]]) -> Matrix:
    """Return the scores of games as the columns of a matrix, NaN below the shorter ones."""
    most = max(map(len, scores))
    return np.array([[*column, *[np.nan] * (most - len(column))] for column in scores], np.float64).T


def run_counts(scores: Matrix) -> npt.NDArray[np.int64]:
    """Return each game's number of runs."""
    return np.asarray(np.sum(~np.isnan(scores), axis=-2), np.int64)


# --- statistics: of a matrix, or of many samples x runs x games, for each of them -----------------------------------


def game_means(scores: Matrix) -> Values:
    """Return each game's mean over its runs."""
    means: Values = scores.mean(axis=-2)
    if np.isnan(means.sum()):  # some game has fewer runs; a slower way for these alone
        means = np.nansum(scores, axis=-2) / run_counts(scores)
    return means


def _pooled(scores: Matrix) -> Values:
    """Return all runs of all games in order."""
    flat = scores.reshape(*scores.shape[:-2], -1)
    ordered: Values = np.sort(flat, axis=-1)  # NaN sorts behind every number; there is as much of it in every sample
    return ordered[..., : np.count_nonzero(~np.isnan(flat.reshape(-1, flat.shape[-1])[0]))]


def _middle_mean(ordered: Values) -> Values:
    """Return the mean of the middle half: a quarter of the runs, rounded down to whole ones, goes at each end."""
    runs = ordered.shape[-1]
    cut = runs // 4
    return np.asarray(ordered[..., cut : runs - cut].mean(axis=-1))


def iqm_by_step(scores: Matrix, steps: int) -> Values:
    """Return the IQM at each of some steps; the columns are the games at the first step, then at the next."""
    return np.stack([_middle_mean(_pooled(block)) for block in np.split(scores, steps, axis=-1)], axis=-1)


def iqm(scores: Matrix) -> Values:
    """Return the IQM alone."""
    return _middle_mean(_pooled(scores))[..., None]


def aggregates(scores: Matrix) -> Values:
    """Return the metrics in the order of METRICS."""
    ordered, means = _pooled(scores), game_means(scores)
    summary = [
        _middle_mean(ordered),
        np.median(means, axis=-1),
        means.mean(axis=-1),
        1.0 - np.minimum(ordered, 1.0).mean(axis=-1),
        np.count_nonzero(means > 1.0, axis=-1),
    ]
    return np.stack(summary, axis=-1).astype(np.float64)


def profile(scores: Matrix) -> Values:
    """Return the share of runs above each threshold."""
    known = ~np.isnan(scores)
    passed = np.where(known, np.searchsorted(THRESHOLDS, scores, side="left"), 0)  # how many thresholds lie below
    samples = passed.reshape(-1, scores.shape[-2] * scores.shape[-1])
    width = len(THRESHOLDS) + 1
    places = samples + width * np.arange(len(samples))[:, None]
    exactly = np.bincount(places.ravel(), minlength=width * len(samples)).reshape(len(samples), width)
    above = np.cumsum(exactly[:, :0:-1], axis=1)[:, ::-1]
    runs = known.sum(axis=(-2, -1)).reshape(-1, 1)
    return np.asarray((above / runs).reshape(*scores.shape[:-2], len(THRESHOLDS)))


def improvement(first: Matrix, second: Matrix) -> Values:
    """Return P(first > second), ties counting half, averaged over games: the Mann-Whitney statistic."""
    twice = np.zeros(first.shape, np.int32)
    for run in range(second.shape[-2]):  # a run at a time: all at once would not fit the processor's cache
        row = second[..., run : run + 1, :]
        twice += first > row
        twice += first >= row
    won = twice.sum(axis=-2) / 2
    return np.asarray(np.mean(won / (run_counts(first) * run_counts(second)), axis=-1, keepdims=True))


def iqm_difference(first: Matrix, second: Matrix) -> Values:
    """Return the first agent's IQM minus the second's."""
    return iqm(first) - iqm(second)


# --- beside them ----------------------------------------------------------------------------------------------------


def balanced_iqm(scores: Matrix) -> float:
    """Return the IQM with each game's runs weighed so that every game counts the same; trimmed by weight."""
    weights = np.where(np.isnan(scores), 0.0, 1.0 / run_counts(scores)) / scores.shape[1]
    order = np.argsort(scores, axis=None)
    ordered, upper = scores.ravel()[order], np.cumsum(weights.ravel()[order])
    lower = upper - weights.ravel()[order]
    kept = np.clip(upper, 0.25, 0.75) - np.clip(lower, 0.25, 0.75)
    return float(np.nansum(kept * ordered) / 0.5)


def estimate(function: Callable[..., Values], *scores: Matrix, sampling: Sampling) -> list[Estimate]:
    """Return a statistic's values with intervals; without them if an agent has no second run to draw from."""
    values = function(*scores)
    if any(len(found) < 2 for found in scores):
        return [Estimate(float(value)) for value in values]
    lows, highs = interval(function, scores, sampling.reps, sampling.seed)
    triples = zip(values, lows, highs, strict=True)
    return [Estimate(float(value), float(low), float(high)) for value, low, high in triples]
