"""The final comparison: the best trial against the default on seeds that the tuning never saw.

The best of many trials is partly the luckiest: its score among the trials says too much. Fresh seeds decide. With few
seeds a bootstrap interval is too narrow, so intervals here are Student's, of a difference Welch's.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from sacbbf.report.aggregate import Estimate
from sacbbf.sweep.spec import Cell, Spec
from sacbbf.tune.tuning import TuningDirectory, finished

# 97.5% quantiles of Student's t for 1 to 30 degrees of freedom; the last one serves for more, to be on the safe side.
T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """Scores of the default and of the best trial on the same fresh seeds."""

    seeds: tuple[int, ...]
    default: tuple[float, ...]
    best: tuple[float, ...]

    @property
    def difference(self) -> Estimate:
        """How much more the best trial scores, with its interval."""
        return welch(self.best, self.default)

    @property
    def verdict(self) -> str:
        """What follows, in words."""
        found = self.difference
        if found.low is None or found.high is None:
            return "one fresh seed is not enough to compare the best trial with the default"
        if found.low > 0:
            return "beats the default on fresh seeds"
        if found.high < 0:
            return "does worse than the default on fresh seeds"
        return "is not clearly different from the default on fresh seeds: the interval of the difference holds 0"


def mean_interval(scores: Sequence[float]) -> Estimate:
    """Return the mean of scores with Student's 95% interval; none for a single score."""
    mean = statistics.fmean(scores)
    if len(scores) < 2:
        return Estimate(mean)
    room = quantile(len(scores) - 1) * statistics.stdev(scores) / math.sqrt(len(scores))
    return Estimate(mean, mean - room, mean + room)


def welch(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Return the difference of two means with Welch's 95% interval; none if either is of a single score."""
    difference = statistics.fmean(first) - statistics.fmean(second)
    if min(len(first), len(second)) < 2:
        return Estimate(difference)
    parts = [(statistics.variance(scores) / len(scores), len(scores) - 1) for scores in (first, second)]
    total = sum(part for part, _ in parts)
    if total == 0:
        return Estimate(difference, difference, difference)
    freedom = total**2 / sum(part**2 / degrees for part, degrees in parts)
    room = quantile(freedom) * math.sqrt(total)
    return Estimate(difference, difference - room, difference + room)


def quantile(freedom: float) -> float:
    """Return the 97.5% quantile of Student's t; degrees of freedom are rounded down."""
    return T_975[min(int(freedom), len(T_975)) - 1]


def unfinished(directory: TuningDirectory, spec: Spec) -> list[Cell]:
    """Return the runs that are left of the comparison, the default's and the best trial's in turn."""
    return [cell for cell in spec.cells() if score_of(directory, cell) is None]


def read_comparison(directory: TuningDirectory, spec: Spec) -> Comparison | None:
    """Return the comparison on the seeds that both have finished; None if there is none."""
    default, best = (
        [score_of(directory, Cell(one, spec.envs[0], seed)) for seed in spec.seeds] for one in spec.variants
    )
    triples = zip(spec.seeds, default, best, strict=True)
    whole = [(seed, one, two) for seed, one, two in triples if one is not None and two is not None]
    if not whole:
        return None
    seeds, first, second = zip(*whole, strict=True)
    return Comparison(seeds, first, second)


def score_of(directory: TuningDirectory, cell: Cell) -> float | None:
    """Return the score of a run of the comparison; None if it is not finished."""
    result = finished(directory.comparison.run(cell))
    return None if result is None else float(result["score"])
