"""rliable's stratified bootstrap, and the same for games with unequal numbers of runs. Slow to import: use it late.

rliable resamples a matrix of runs x games: each game's column on its own, with replacement. Where games have
different numbers of runs the matrix ends in NaN below the shorter columns, and each column is resampled from its own
runs, as many as it has: rliable's scheme, column by column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from rliable import library

Matrix = npt.NDArray[np.float64]


class RaggedBootstrap(library.StratifiedBootstrap):  # type: ignore[misc]
    """Stratified bootstrap of a matrix whose columns may end in NaN."""

    def update_indices(self) -> tuple[Any, ...]:
        """Draw run floor(u n) of each game's n runs, u uniform; below them the padding stays where it is."""
        return (_draw(self._args[0]), *self._strata_indices)


class RaggedIndependentBootstrap(library.StratifiedIndependentBootstrap):  # type: ignore[misc]
    """The same for two agents, each resampled on its own."""

    def update_indices(self) -> tuple[list[tuple[Any, ...]], dict[str, tuple[Any, ...]]]:
        """Draw for each matrix in turn."""
        pairs = zip(self._args, self._args_strata_indices, strict=True)
        return [(_draw(scores), *strata) for scores, strata in pairs], {}


def _draw(scores: Matrix) -> npt.NDArray[np.int64]:
    counts = np.sum(~np.isnan(scores), axis=0)
    rows = np.arange(len(scores))[:, None]
    drawn = (np.random.random_sample(scores.shape) * counts).astype(np.int64)  # noqa: NPY002 - rliable's generator
    return np.where(rows < counts, drawn, rows)


def interval(
    function: Callable[..., npt.NDArray[np.float64]], scores: tuple[Matrix, ...], reps: int, seed: int
) -> npt.NDArray[np.float64]:
    """Return the 95% percentile interval of a statistic of one matrix, or of two independent ones: (2, values)."""
    ragged = any(np.isnan(matrix).any() for matrix in scores)
    before = np.random.get_state()  # noqa: NPY002 - rliable draws from the global generator, whatever it is handed
    np.random.seed(seed)  # noqa: NPY002
    try:
        if not ragged:
            data = scores[0] if len(scores) == 1 else list(scores)
            _, intervals = library.get_interval_estimates({"": data}, function, reps=reps)
            return np.asarray(intervals[""], np.float64)
        kind = RaggedBootstrap if len(scores) == 1 else RaggedIndependentBootstrap
        return np.asarray(kind(*scores).conf_int(function, reps=reps, size=0.95, method="percentile"), np.float64)
    finally:
        np.random.set_state(before)  # noqa: NPY002
