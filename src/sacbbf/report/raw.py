"""Environments without a human score: raw scores per agent, beside random and blind play where the runs played them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sacbbf.report.aggregate import Estimate, Sampling, estimate, game_means, matrix
from sacbbf.report.scores import Agent


@dataclass(frozen=True)
class Measured:
    """Random or blind play as the runs measured it: mean of their scores, and its standard error."""

    score: float
    standard_error: float
    runs: int

    @property
    def estimate(self) -> Estimate:
        """The score with its normal 95% interval."""
        half = 1.96 * self.standard_error
        return Estimate(self.score, self.score - half, self.score + half)


@dataclass(frozen=True)
class RawRow:
    """An agent's mean score in an environment."""

    agent: str
    score: Estimate
    runs: int
    gain: float | None  # (score - random) / (blind - random); None where that means nothing
    best: bool


@dataclass(frozen=True)
class RawTable:
    """One environment."""

    environment: str
    rows: tuple[RawRow, ...]
    baselines: Mapping[str, Measured]


def raw_tables(agents: Sequence[Agent], sampling: Sampling) -> tuple[RawTable, ...]:
    """Return a table for each environment that has no human score."""
    environments = sorted({environment for agent in agents for environment in agent.others})
    return tuple(_table(environment, agents, sampling) for environment in environments)


def _table(environment: str, agents: Sequence[Agent], sampling: Sampling) -> RawTable:
    present = [agent for agent in agents if environment in agent.scores]
    measured = _measured(environment, present)
    scores = {
        agent.name: estimate(game_means, matrix([agent.scores[environment]]), sampling=sampling)[0] for agent in present
    }
    best = max(score.value for score in scores.values())
    rows = (
        RawRow(
            agent.name,
            scores[agent.name],
            len(agent.scores[environment]),
            _gain(scores[agent.name].value, measured),
            scores[agent.name].value == best,
        )
        for agent in present
    )
    return RawTable(environment, tuple(rows), measured)


def _measured(environment: str, agents: Sequence[Agent]) -> dict[str, Measured]:
    """Return the mean of what the runs measured; runs with the same seed have played the same episodes."""
    found: dict[str, dict[int, tuple[float, float]]] = {}
    for agent in agents:
        for (where, seed), baselines in agent.played.items():
            if where == environment:
                for name, played in baselines.items():
                    found.setdefault(name, {})[seed] = played
    return {
        name: Measured(
            statistics.fmean(score for score, _ in played.values()),
            math.sqrt(sum(error**2 for _, error in played.values())) / len(played),
            len(played),
        )
        for name, played in found.items()
    }


def _gain(score: float, measured: Mapping[str, Measured]) -> float | None:
    """Return a score in units of what blind play gains over random play; None unless that is clearly above 0."""
    if not {"random", "blind"} <= measured.keys():
        return None
    random, blind = measured["random"], measured["blind"]
    unit = blind.score - random.score
    if unit <= 2 * math.hypot(random.standard_error, blind.standard_error):
        return None
    return (score - random.score) / unit
