"""rliable's stratified bootstrap, with its random numbers, many samples at a time.

rliable resamples a matrix of runs x games: each game's column on its own, with replacement. Where games have
different numbers of runs the matrix ends in NaN below the shorter columns, and each column is resampled from its own
runs, as many as it has: rliable's scheme, column by column.

rliable calls a statistic once per sample. Here statistics take samples x runs x games, and a block of samples at once.
The numbers are those that rliable draws after `np.random.seed(seed)`, so the intervals are its own as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]

BLOCK = 2**17  # scores drawn at a time: a block stays in the processor's cache
TAIL = (1.0 - 0.95) / 2  # on each side of an interval


def interval(function: Callable[..., Values], scores: Sequence[Matrix], reps: int, seed: int) -> Values:
    """Return the 95% percentile interval of a statistic of one matrix, or of two independent ones: (2, values)."""
    generator = np.random.RandomState(seed)
    block = max(1, BLOCK // sum(matrix.size for matrix in scores))
    found = []
    for first in range(0, reps, block):
        rows = _draw(scores, min(block, reps - first), generator)
        drawn = [np.take_along_axis(matrix[None], of, axis=1) for matrix, of in zip(scores, rows, strict=True)]
        found.append(function(*drawn))
    # Along the last axis percentiles are found several times faster.
    values = np.ascontiguousarray(np.concatenate(found).T)
    return np.percentile(values, [100 * TAIL, 100 * (1 - TAIL)], axis=1)


def _draw(scores: Sequence[Matrix], samples: int, generator: np.random.RandomState) -> list[npt.NDArray[np.int64]]:
    """Return the rows of each matrix that stand in each sample: (samples, runs, games)."""
    if any(np.isnan(matrix).any() for matrix in scores):
        shares = generator.random_sample((samples, sum(matrix.size for matrix in scores)))
        return [_own_rows(part, matrix) for part, matrix in zip(_parts(shares, scores), scores, strict=True)]
    runs = {len(matrix) for matrix in scores}
    if len(runs) == 1:
        rows = generator.randint(runs.pop(), size=(samples, sum(matrix.size for matrix in scores)))
        return _parts(rows, scores)
    pairs = [[generator.randint(len(matrix), size=matrix.shape) for matrix in scores] for _ in range(samples)]
    return [np.array(drawn) for drawn in zip(*pairs, strict=True)]


def _parts(drawn: npt.NDArray[np.generic], scores: Sequence[Matrix]) -> list[npt.NDArray[np.int64]]:
    """Cut each sample's numbers into those of the matrices."""
    ends = np.cumsum([matrix.size for matrix in scores])[:-1]
    parts = np.split(drawn, ends, axis=1)
    return [part.reshape(-1, *matrix.shape) for part, matrix in zip(parts, scores, strict=True)]


def _own_rows(shares: npt.NDArray[np.generic], matrix: Matrix) -> npt.NDArray[np.int64]:
    """Return run floor(u n) of each game's n runs, u uniform; below them the padding stays where it is."""
    counts = np.sum(~np.isnan(matrix), axis=0)
    rows = np.arange(len(matrix))[:, None]
    return np.where(rows < counts, (shares * counts).astype(np.int64), rows)
