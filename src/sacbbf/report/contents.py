"""Every number of a report, computed once; the writers only set it. Holds no clock times: same input, same report."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sacbbf.envs import games
from sacbbf.report.aggregate import (
    LOWER_IS_BETTER,
    METRICS,
    NEEDS_RUNS,
    Estimate,
    Matrix,
    Sampling,
    aggregates,
    estimate,
    game_means,
    matrix,
    profile,
)
from sacbbf.report.curves import Curve, efficiency_curve, learning_curves
from sacbbf.report.notes import agent_notes, comparison_notes
from sacbbf.report.pairs import Improvement, improvements
from sacbbf.report.pooled import Pooled, pooled
from sacbbf.report.published import baselines, printed_aggregates, published_agents
from sacbbf.report.raw import RawTable, raw_tables
from sacbbf.report.scores import Agent, Found
from sacbbf.run.display import Display, silent

CURVE_REPS = 2_000  # bootstrap samples of curves and profiles, at most: hundreds of intervals, read by eye


@dataclass(frozen=True)
class Row:
    """An agent's aggregates over the games of a comparison; those that cannot be known are left out."""

    agent: Agent
    metrics: Mapping[str, Estimate]


@dataclass(frozen=True)
class Comparison:
    """Agents over the same games."""

    games: tuple[str, ...]
    rows: tuple[Row, ...]
    profiles: Mapping[str, tuple[Estimate, ...]]
    improvements: tuple[Improvement, ...]
    efficiency: tuple[Curve, ...]
    notes: tuple[str, ...]

    @property
    def words(self) -> str:
        """The games in words."""
        if len(self.games) == len(games.GAMES):
            return f"the {len(games.GAMES)} games of Atari 100K"
        if len(self.games) == 1:
            return self.games[0]
        return f"{len(self.games)} of the {len(games.GAMES)} games"

    def best(self, metric: str) -> float | None:
        """The best value of a metric among the agents, at the precision it is printed with; None if none has it."""
        found = [_shown(row.metrics[metric]) for row in self.rows if _competes(row, metric)]
        return (min if metric in LOWER_IS_BETTER else max)(found, default=None)

    def wins(self, row: Row, metric: str) -> bool:
        """Whether an agent has the best value of a metric; random play and the human do not compete."""
        return _competes(row, metric) and _shown(row.metrics[metric]) == self.best(metric)


@dataclass(frozen=True)
class Cell:
    """An agent's score in a game: the mean over its runs."""

    score: Estimate
    runs: int | None  # None: a published mean
    best: bool
    above_human: bool


@dataclass(frozen=True)
class GameTable:
    """Mean scores by game and agent: those reported on, the baselines, the published."""

    games: tuple[str, ...]
    agents: tuple[Agent, ...]
    cells: Mapping[tuple[str, str], Cell]  # (game, agent's name)


@dataclass(frozen=True)
class Report:
    """All there is to report."""

    title: str
    agents: tuple[Agent, ...]  # what was asked for
    references: tuple[Agent, ...]  # baselines and published agents beside them
    comparisons: tuple[Comparison, ...]
    table: GameTable
    raw: tuple[RawTable, ...]
    pooled: Pooled | None  # the environments of `raw` together
    curves: tuple[Curve, ...]
    notes: tuple[str, ...]
    left_out: tuple[str, ...]
    sampling: Sampling
    printed: Mapping[str, Mapping[str, float]]  # the paper's own aggregates, in a report on published data

    @property
    def colours(self) -> dict[str, int]:
        """A number for the colour and dashes of each agent that is drawn with runs of its own.

        Published agents look the same in every report: the last three of seven colours. The others share the first
        four, then with dashes, which each further seven stand for.
        """
        published = [agent.name for agent in self.references if _has_runs(agent)]
        first = 4 if self.agents else 0
        own = {agent.name: number % 4 + 7 * (number // 4) for number, agent in enumerate(self.agents)}
        return own | {name: first + number for number, name in enumerate(published)}


def build(
    found: Found, sampling: Sampling, compared: Collection[str] | None = None, display: Display | None = None
) -> Report:
    """Compute the report of what was read, beside everything that is published.

    `compared`: of environments without published scores, only these agents are put side by side with the others.
    """
    clashes = {agent.name for agent in found.agents} & {agent.name for agent in (*baselines(), *published_agents())}
    own = tuple(
        replace(agent, name=f"{agent.name} (yours)") if agent.name in clashes else agent for agent in found.agents
    )
    covered = tuple(game for game in games.GAMES if any(game in agent.scores for agent in own))
    references = (*baselines(), *published_agents()) if covered else ()
    quick = replace(sampling, reps=min(sampling.reps, CURVE_REPS))
    display = display or silent()
    sets = _game_sets(own)
    display.begin("computing intervals", sum(len(_pairs(chosen, own, references)) for chosen in sets) + len(own) + 2)
    comparisons = tuple(compare(chosen, own, references, sampling, display.advance) for chosen in sets)
    raw = raw_tables(own, sampling)
    display.advance("raw scores")
    together = pooled(own, raw, sampling, compared)
    display.advance("environments together")
    curves: list[Curve] = []
    for agent in own:
        curves += learning_curves(agent, quick)
        display.advance("learning curves")
    return Report(
        title=f"Report on {len(own)} agents" if len(own) > 1 else f"Report on {own[0].name}",
        agents=own,
        references=references,
        comparisons=comparisons,
        table=game_table(covered, own, references, sampling),
        raw=raw,
        pooled=together,
        curves=tuple(curves),
        notes=(*found.notes, *(note for agent in own for note in agent_notes(agent))),
        left_out=found.left_out,
        sampling=sampling,
        printed={},
    )


def build_published(sampling: Sampling) -> Report:
    """Compute the paper's table and figure from published data alone."""
    return Report(
        title="Published results on Atari 100K",
        agents=(),
        references=(*baselines(), *published_agents()),
        comparisons=(compare(games.GAMES, (), (*baselines(), *published_agents()), sampling),),
        table=game_table(games.GAMES, (), (*baselines(), *published_agents()), sampling),
        raw=(),
        pooled=None,
        curves=(),
        notes=(),
        left_out=(),
        sampling=sampling,
        printed=printed_aggregates(),
    )


def _game_sets(agents: Sequence[Agent]) -> list[tuple[str, ...]]:
    """Return the sets of games to compare on: each agent's own, and what all have in common; the largest first."""
    sets = {agent.games for agent in agents if agent.games}
    if not sets:
        return []
    shared = set.intersection(*(set(found) for found in sets))
    sets |= {tuple(game for game in games.GAMES if game in shared)} if shared else set()
    return sorted(sets, key=lambda found: (-len(found), found))


def normalised(agent: Agent, among: Sequence[str]) -> Matrix:
    """Return an agent's human-normalised scores as a matrix of runs x games."""
    return matrix([[games.human_normalised(game, score) for score in agent.scores[game]] for game in among])


def _has_runs(agent: Agent) -> bool:
    return not agent.means_only and agent not in baselines()


def _present(among: tuple[str, ...], agents: Iterable[Agent]) -> list[Agent]:
    """Return the agents that have scores for all of these games."""
    return [agent for agent in agents if set(among) <= set(agent.scores)]


def _pairs(among: tuple[str, ...], own: Sequence[Agent], references: Sequence[Agent]) -> list[tuple[str, str]]:
    """Return the names of every two agents with runs that are put side by side: one's own, and they beside others."""
    names = [agent.name for agent in _present(among, (*own, *references)) if _has_runs(agent)]
    first = [agent.name for agent in own if agent.name in names] or names
    others = [name for name in names if name not in first]
    pairs = [*itertools.combinations(first, 2), *itertools.product(first, others)]
    return pairs if own else [(later, earlier) for earlier, later in pairs]  # the newest published over those before


def compare(
    among: tuple[str, ...],
    own: Sequence[Agent],
    references: Sequence[Agent],
    sampling: Sampling,
    on_pair: Callable[[str], object] = lambda words: None,
) -> Comparison:
    """Compare the agents that have scores for all of these games."""
    agents = _present(among, (*own, *references))
    scores = {agent.name: normalised(agent, among) for agent in agents if _has_runs(agent)}
    quick = replace(sampling, reps=min(sampling.reps, CURVE_REPS))
    curves = (efficiency_curve(agent, among, quick) for agent in agents)
    return Comparison(
        games=among,
        rows=tuple(Row(agent, _metrics(agent, among, sampling)) for agent in (*own, *references) if agent in agents),
        profiles={name: tuple(estimate(profile, found, sampling=quick)) for name, found in scores.items()},
        improvements=improvements(scores, _pairs(among, own, references), sampling, on_pair),
        efficiency=tuple(curve for curve in curves if curve),
        notes=tuple(comparison_notes(among, agents, (*own, *references), scores)),
    )


def _metrics(agent: Agent, among: Sequence[str], sampling: Sampling) -> dict[str, Estimate]:
    """Return what can be known of an agent over some games: computed, or quoted where it needs unpublished runs."""
    found = estimate(aggregates, normalised(agent, among), sampling=sampling)
    metrics = dict(zip(METRICS, found, strict=True))
    if not agent.means_only:
        return metrics
    whole = len(among) == len(games.GAMES)
    quoted = {name: Estimate(agent.quoted[name], quoted=True) for name in NEEDS_RUNS if whole and name in agent.quoted}
    known = {name: value for name, value in metrics.items() if name not in NEEDS_RUNS} | quoted
    return {name: known[name] for name in METRICS if name in known}


def _competes(row: Row, metric: str) -> bool:
    return row.agent not in baselines() and metric in row.metrics


def _shown(found: Estimate) -> float:
    return round(found.value, 3)


def game_table(
    among: Sequence[str], own: Sequence[Agent], references: Sequence[Agent], sampling: Sampling
) -> GameTable:
    """Return the mean scores of every agent in these games; own agents with intervals, the best in each game marked."""
    ends = [agent.name for agent in baselines()]
    agents = (*(agent for agent in own if agent.games), *references)
    scores: dict[tuple[str, str], Estimate] = {}
    for agent in agents:
        present = [game for game in among if game in agent.scores]
        raw = matrix([agent.scores[game] for game in present]) if present else None
        if raw is not None:
            found = estimate(game_means, raw, sampling=sampling) if agent in own else _plain(game_means(raw))
            scores |= {(game, agent.name): value for game, value in zip(present, found, strict=True)}
    cells = {}
    for game in among:
        best = max(found.value for (where, name), found in scores.items() if where == game and name not in ends)
        for agent in agents:
            if (game, agent.name) in scores:
                score, competes = scores[game, agent.name], agent.name not in ends
                if len(agent.scores[game]) < 2:  # nothing to draw from, whatever the other games have
                    score = Estimate(score.value)
                runs = None if agent.means_only or not competes else len(agent.scores[game])
                above = competes and score.value > games.SCORES[game].human
                cells[game, agent.name] = Cell(score, runs, competes and score.value == best, above)
    return GameTable(tuple(among), agents, cells)


def _plain(values: Iterable[float]) -> list[Estimate]:
    return [Estimate(float(value)) for value in values]
