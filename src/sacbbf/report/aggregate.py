"""The statistics of a score table, with 95% stratified bootstrap intervals: aggregates, profiles, improvement.

Scores come as a matrix of runs x games, NaN below the columns of games with fewer runs. With equal numbers of runs
every statistic is rliable's. With unequal numbers
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

from sacbbf.errors import UsageError

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
    return np.asarray(np.sum(~np.isnan(scores), axis=0), np.int64)


def game_means(scores: Matrix) -> Values:
    """Return each game's mean over its runs."""
    means: Values = scores.mean(axis=0)
    if np.isnan(means.sum()):  # some game has fewer runs; a slower way for these alone
        means = np.nansum(scores, axis=0) / run_counts(scores)
    return means


def _pooled(scores: Matrix) -> Values:
    """Return all runs of all games in order."""
    ordered = np.sort(scores, axis=None)  # NaN sorts behind every number
    return ordered[: np.searchsorted(ordered, np.nan)]


def _middle_mean(ordered: Values) -> float:
    """Return the mean of the middle half: a quarter of the runs, rounded down to whole ones, goes at each end."""
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def iqm_by_step(scores: Matrix, steps: int) -> Values:
    """Return the IQM at each of some steps; the columns are the games at the first step, then at the next."""
    return np.array([_middle_mean(_pooled(block)) for block in np.split(scores, steps, axis=1)])


def iqm(scores: Matrix) -> Values:
    """Return the IQM alone."""
    return np.array([_middle_mean(_pooled(scores))])


def aggregates(scores: Matrix) -> Values:
    """Return the metrics in the order of METRICS."""
    ordered, means = _pooled(scores), game_means(scores)
    summary = [
        _middle_mean(ordered),
        np.median(means),
        means.mean(),
        1.0 - np.minimum(ordered, 1.0).mean(),
        np.count_nonzero(means > 1.0),
    ]
    return np.array(summary, np.float64)


def balanced_iqm(scores: Matrix) -> float:
    """Return the IQM with each game's runs weighed so that every game counts the same; trimmed by weight."""
    weights = np.where(np.isnan(scores), 0.0, 1.0 / run_counts(scores)) / scores.shape[1]
    order = np.argsort(scores, axis=None)
    ordered, upper = scores.ravel()[order], np.cumsum(weights.ravel()[order])
    lower = upper - weights.ravel()[order]
    kept = np.clip(upper, 0.25, 0.75) - np.clip(lower, 0.25, 0.75)
    return float(np.nansum(kept * ordered) / 0.5)


def profile(scores: Matrix) -> Values:
    """Return the share of runs above each threshold."""
    ordered = _pooled(scores)
    return np.asarray(1.0 - np.searchsorted(ordered, THRESHOLDS, side="right") / len(ordered))


def improvement(first: Matrix, second: Matrix) -> Values:
    """Return P(first > second), ties counting half, averaged over games: the Mann-Whitney statistic."""
    above = np.sum(first[:, None] > second[None], axis=(0, 1))
    equal = np.sum(first[:, None] == second[None], axis=(0, 1))
    return np.array([np.mean((above + 0.5 * equal) / (run_counts(first) * run_counts(second)))])


def iqm_difference(first: Matrix, second: Matrix) -> Values:
    """Return the first agent's IQM minus the second's."""
    return np.array([_middle_mean(_pooled(first)) - _middle_mean(_pooled(second))])


def estimate(function: Callable[..., Values], *scores: Matrix, sampling: Sampling) -> list[Estimate]:
    """Return a statistic's values with intervals; without them if an agent has no second run to draw from."""
    values = function(*scores)
    if any(len(found) < 2 for found in scores):
        return [Estimate(float(value)) for value in values]
    lows, highs = _resampling()(function, scores, sampling.reps, sampling.seed)
    triples = zip(values, lows, highs, strict=True)
    return [Estimate(float(value), float(low), float(high)) for value, low, high in triples]


def _resampling() -> Callable[..., Values]:
    """Return the bootstrap; UsageError where its packages are not installed."""
    try:
        from sacbbf.report.resample import interval
    except ImportError as error:
        raise UsageError(
            f"intervals need rliable 1.2 and pandas 2, which are installed on request: "
            f"pip install 'sacbbf[report]' ({error})"
        ) from error
    return interval
