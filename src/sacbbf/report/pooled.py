"""Agents over several environments that have no human score: pooled in units that the agents themselves give."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sacbbf.report.aggregate import Estimate, Matrix, Sampling, estimate, iqm, matrix
from sacbbf.report.pairs import Improvement, improvements
from sacbbf.report.raw import RawTable
from sacbbf.report.scores import Agent


@dataclass(frozen=True)
class Pooled:
    """Agents over the same environments; in each, 0 is random play and 1 the best agent's mean."""

    environments: tuple[str, ...]
    iqm: Mapping[str, Estimate]  # by agent
    improvements: tuple[Improvement, ...]


def pooled(
    agents: Sequence[Agent], tables: Sequence[RawTable], sampling: Sampling, compared: Collection[str] | None = None
) -> Pooled | None:
    """Pool the environments that all agents share; None for a single agent, or where units would mean nothing.

    Every two agents are put side by side; with `compared` only those pairs that one of its agents is part of.

    The unit is the same for all agents and is not drawn anew with the runs. Random play is as the runs measured it, 0
    where they did not.
    """
    present = [agent for agent in agents if agent.others]
    shared = set.intersection(*(set(agent.others) for agent in present)) if present else set()
    chosen = [table for table in tables if table.environment in shared]
    units = [_unit(table) for table in chosen]
    if len(present) < 2 or not chosen or not all(best > zero for zero, best in units):
        return None
    environments = tuple(table.environment for table in chosen)
    scores = {agent.name: _scaled(agent, environments, units) for agent in present}
    pairs = [
        pair for pair in itertools.combinations(scores, 2) if compared is None or not set(pair).isdisjoint(compared)
    ]
    return Pooled(
        environments,
        {name: estimate(iqm, found, sampling=sampling)[0] for name, found in scores.items()},
        improvements(scores, pairs, sampling),
    )


def _unit(table: RawTable) -> tuple[float, float]:
    """Scores that count as 0 and 1."""
    zero = table.baselines["random"].score if "random" in table.baselines else 0.0
    return zero, max(row.score.value for row in table.rows)


def _scaled(agent: Agent, environments: Sequence[str], units: Sequence[tuple[float, float]]) -> Matrix:
    """Scores of an agent as runs x environments, in units."""
    return matrix(
        [
            [(score - zero) / (best - zero) for score in agent.scores[environment]]
            for environment, (zero, best) in zip(environments, units, strict=True)
        ]
    )
