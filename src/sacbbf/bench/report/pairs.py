"""Two agents side by side on the same games: how likely one beats the other, and how far their IQMs lie apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sacbbf.bench.aggregate import Estimate, Matrix, Sampling, estimate, improvement, iqm_difference


@dataclass(frozen=True)
class Improvement:
    """What a run of the first agent has over one of the second."""

    first: str
    second: str
    probability: Estimate  # that it scores higher in the same game, averaged over games
    difference: Estimate  # the first agent's IQM minus the second's


def improvements(
    scores: Mapping[str, Matrix], pairs: Iterable[tuple[str, str]], sampling: Sampling
) -> tuple[Improvement, ...]:
    """Compare pairs of agents by name; their scores are runs x games, over the same games."""
    return tuple(
        Improvement(
            first,
            second,
            estimate(improvement, scores[first], scores[second], sampling=sampling)[0],
            estimate(iqm_difference, scores[first], scores[second], sampling=sampling)[0],
        )
        for first, second in pairs
    )
