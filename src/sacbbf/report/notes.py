"""What a reader must know beside the numbers: missing games and seeds, unequal or single runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from sacbbf.envs import games
from sacbbf.report.aggregate import Matrix, balanced_iqm, run_counts
from sacbbf.report.scores import Agent

LISTED = 8  # names in a note


def agent_notes(agent: Agent) -> Iterator[str]:
    """What is missing of an agent."""
    absent = [game for game in games.GAMES if game not in agent.scores]
    if agent.games and absent:
        few = len(agent.games) < len(absent)
        which = f"only {', '.join(agent.games)}" if few else f"missing are {', '.join(absent)}"
        yield f"{agent.name}: {len(agent.games)} of the 26 games; {which}"
    seeds = sorted({seed for found in agent.seeds.values() for seed in found})
    gaps = {
        environment: [seed for seed in seeds if seed not in found]
        for environment, found in agent.seeds.items()
        if len(found) < len(seeds)
    }
    if gaps:
        lines = [f"{environment} lacks {', '.join(map(str, lacking))}" for environment, lacking in gaps.items()]
        yield f"{agent.name}: seeds are missing: {_few(lines)}"
    single = [environment for environment, found in agent.scores.items() if len(found) == 1]
    if len(single) == len(agent.scores):
        yield f"{agent.name}: one run per environment, so there is nothing to draw intervals from"
    elif single:
        yield f"{agent.name}: a single run, which adds no width to intervals, in {_few(single)}"


def comparison_notes(
    among: Sequence[str], present: Sequence[Agent], every: Sequence[Agent], scores: Mapping[str, Matrix]
) -> Iterator[str]:
    """What to know of a comparison: who is not in it, whose runs are unequal, what is quoted."""
    for agent in every:
        if agent not in present and agent.games:
            lacking = [game for game in among if game not in agent.scores]
            yield f"{agent.name} is not in this comparison: no score for {_few(lacking)}"
    for name, found in scores.items():
        counts = run_counts(found)
        if counts.min() < counts.max():
            yield (
                f"{name}: {_counts(counts)} runs per game. IQM and optimality gap pool the runs as they are; with "
                f"every game weighing the same the IQM is {balanced_iqm(found):.3f}"
            )
    means = [agent.name for agent in present if agent.means_only]
    if means and len(among) < len(games.GAMES):
        yield (
            f"{_few(means)}: means per game are published, their runs are not, so IQM and optimality gap over these "
            "games are not known"
        )


def _counts(counts: np.typing.NDArray[np.int64]) -> str:
    found = sorted(set(counts.tolist()))
    return ", ".join(map(str, found)) if len(found) < 4 else f"{found[0]} to {found[-1]}"


def _few(words: Sequence[str]) -> str:
    more = len(words) - LISTED
    return ", ".join([*words[:LISTED], *([f"and {more} more"] if more > 0 else [])])
