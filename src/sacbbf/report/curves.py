"""Learning curves over many runs: an environment's mean score by step, and the IQM over games by step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from sacbbf.envs import games
from sacbbf.report.aggregate import Estimate, Sampling, estimate, game_means, iqm_by_step, matrix
from sacbbf.report.run_scores import Points, RunScore
from sacbbf.report.scores import Agent

BINS = 20  # of training episodes, where a run was not evaluated while it trained
EVALUATIONS, EPISODES = "evaluations", "training episodes"


@dataclass(frozen=True)
class Curve:
    """An agent's score by step."""

    agent: str
    environment: str  # or the words for several
    steps: tuple[int, ...]
    points: tuple[Estimate, ...]
    source: str  # EVALUATIONS or EPISODES
    runs: int


def learning_curves(agent: Agent, sampling: Sampling) -> list[Curve]:
    """Return a curve for each environment: the mean over runs at the steps that all of them have."""
    found = []
    for environment in (*agent.games, *agent.others):
        own = [run for run in agent.runs if _environment(run) == environment]
        source, rows = _rows(own)
        if len(rows) > 1:
            found.append((environment, source, rows, len(own)))
    if not found:
        return []
    columns = matrix([scores for _, _, rows, _ in found for scores in rows.values()])
    points = iter(estimate(game_means, columns, sampling=sampling))  # drawn in one go: each column on its own
    curves = []
    for environment, source, rows, runs in found:
        drawn = tuple(next(points) if runs > 1 else Estimate(next(points).value) for _ in rows)
        curves.append(Curve(agent.name, environment, tuple(rows), drawn, source, runs))
    return curves


def efficiency_curve(agent: Agent, among: Sequence[str], sampling: Sampling) -> Curve | None:
    """Return the IQM over games by step, from evaluations; None unless every run on these games has some."""
    runs = [run for run in agent.runs if _environment(run) in among]
    if not runs or {_environment(run) for run in runs} != set(among) or not all(run.evaluations for run in runs):
        return None
    steps = _shared(_evaluations(run) for run in runs)
    if len(steps) < 2:
        return None
    columns = [
        [_normalised(run, step) for run in runs if _environment(run) == game] for step in steps for game in among
    ]
    function = partial(iqm_by_step, steps=len(steps))
    points = tuple(estimate(function, matrix(columns), sampling=sampling))
    return Curve(agent.name, f"{len(among)} games", tuple(steps), points, EVALUATIONS, len(runs))


def _environment(run: RunScore) -> str:
    return games.find_game(run.config.env) or run.config.env


def _normalised(run: RunScore, step: int) -> float:
    return games.human_normalised(_environment(run), _evaluations(run)[step])


def _evaluations(run: RunScore) -> dict[int, float]:
    """Mean scores by step: evaluations during training, and the final one."""
    return dict(run.evaluations) | {int(run.result["steps"]): run.score}


def _rows(runs: list[RunScore]) -> tuple[str, dict[int, list[float]]]:
    """Return the runs' scores by step: from evaluations if all runs have them, else from training episodes."""
    if runs and all(run.evaluations for run in runs):
        by_run = [_evaluations(run) for run in runs]
        return EVALUATIONS, {step: [found[step] for found in by_run] for step in _shared(by_run)}
    last = max((run.config.steps for run in runs), default=0)
    binned = [_binned(run.episodes, last) for run in runs]
    return EPISODES, {step: [found[step] for found in binned] for step in _shared(binned)}


def _shared(by_run: Iterable[dict[int, float]]) -> list[int]:
    steps = [set(found) for found in by_run]
    return sorted(set.intersection(*steps)) if steps else []


def _binned(episodes: Points, last: int) -> dict[int, float]:
    """Return the mean score of the episodes that ended in each of BINS stretches, by the stretch's last step."""
    edges = np.linspace(0, last, BINS + 1).round().astype(int)
    scores: dict[int, list[float]] = {}
    for step, score in episodes:
        number = int(np.searchsorted(edges[1:], min(step, last)))
        scores.setdefault(int(edges[number + 1]), []).append(score)
    return {step: float(np.mean(found)) for step, found in scores.items()}
