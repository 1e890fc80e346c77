"""Two agents side by side on the same games: how likely one beats the other, and how far their IQMs lie apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from sacbbf.report.aggregate import Estimate, Matrix, Sampling, Values, estimate, improvement, iqm_difference


@dataclass(frozen=True)
class Improvement:
    """What a run of the first agent has over one of the second."""

    first: str
    second: str
    probability: Estimate  # that it scores higher in the same game, averaged over games
    difference: Estimate  # the first agent's IQM minus the second's


def improvements(
    scores: Mapping[str, Matrix],
    pairs: Iterable[tuple[str, str]],
    sampling: Sampling,
    on_pair: Callable[[str], object] = lambda words: None,
) -> tuple[Improvement, ...]:
    """Compare pairs of agents by name; their scores are runs x games, over the same games."""
    found = []
    for first, second in pairs:
        both = estimate(_both, scores[first], scores[second], sampling=sampling)
        found.append(Improvement(first, second, *both))
        on_pair(f"{first} and {second}")
    return tuple(found)


def _both(first: Matrix, second: Matrix) -> Values:
    """Probability of improvement and IQM difference, of the same resampled runs."""
    return np.concatenate([improvement(first, second), iqm_difference(first, second)], axis=-1)
