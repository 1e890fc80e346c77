"""What an evaluation has found."""

from __future__ import annotations

from dataclasses import dataclass

from sacbbf.run.certainty import certainty_and_count
from sacbbf.run.evaluate import Summary, summarise


@dataclass(frozen=True)
class Evaluation:
    """Scores of whole episodes, never clipped."""

    mean: float
    """Mean of the scores."""
    standard_error: float
    """Standard error of the mean; 0 for a single episode."""
    interval: tuple[float, float]
    """Normal 95% interval of the mean: low, high."""
    scores: tuple[float, ...]
    """The score of each episode, in the order of their seeds."""

    @classmethod
    def of(cls, scores: tuple[float, ...]) -> Evaluation:
        """Return the statistics of some scores."""
        found = summarise(scores)
        return cls(found.mean, found.standard_error, found.interval, scores)

    @property
    def summary(self) -> Summary:
        """Mean, standard error, median and number of episodes."""
        return summarise(self.scores)

    def __str__(self) -> str:
        return f"{self.mean:.2f} ({certainty_and_count(self.interval, len(self.scores))})"
