"""What has been published for Atari 100K, packaged with its sources: runs where there are any, else means per game.

An aggregate that needs the runs (IQM, optimality gap) is quoted, and marked as quoted, where only means are known.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from sacbbf.envs import games
from sacbbf.report.scores import Agent

PAPER = "SAC-BBF paper, main table"
# Column of the packaged means -> name, and where the numbers come from.
MEANS = {
    "sac_discrete": ("SAC-Discrete", f"Christodoulou 2019, quoted in the {PAPER}"),
    "sr_spr": ("SR-SPR", f"D'Oro et al. 2023 by way of Schwarzer et al. 2023, quoted in the {PAPER}"),
    "efficientzero": ("EfficientZero", f"Ye et al. 2021 by way of Schwarzer et al. 2023, quoted in the {PAPER}"),
    "bbf_rr8": ("BBF RR8, paper", f"Schwarzer et al. 2023, quoted in the {PAPER}"),
    "sac_bbf_rr2": ("SAC-BBF RR2, paper", PAPER),
}
# File of runs -> name, and where they come from.
RUNS = {
    "bbf_rr2_per_seed.csv": ("BBF RR2, runs", "runs published by the BBF authors"),
    "bbf_rr8_per_seed.csv": ("BBF RR8, runs", "runs published by the BBF authors"),
    "sac_bbf_rr2_authors_per_seed.csv": (
        "SAC-BBF RR2, runs",
        "runs published by the SAC-BBF authors after the paper; not those behind its table",
    ),
}
ORDER = (
    "SAC-Discrete", "SR-SPR", "EfficientZero", "BBF RR2, runs", "BBF RR8, paper", "BBF RR8, runs",
    "SAC-BBF RR2, paper", "SAC-BBF RR2, runs",
)  # fmt: skip


def _folder() -> Any:
    return resources.files("sacbbf") / "data" / "published"


@cache
def paper_tables() -> Mapping[str, Any]:
    """Return the paper's other tables, as printed."""
    tables: Mapping[str, Any] = json.loads((_folder() / "paper_tables.json").read_text(encoding="utf-8"))
    return tables


@cache
def published_agents() -> tuple[Agent, ...]:
    """Return every published agent, in the paper's order; what has runs comes from its runs."""
    agents = [_from_means(column) for column in MEANS] + [_from_runs(file) for file in RUNS]
    return tuple(sorted(agents, key=lambda agent: ORDER.index(agent.name)))


@cache
def baselines() -> tuple[Agent, ...]:
    """Return random play and the human, the two ends of the normalised scale."""
    source = f"random and human scores of the benchmark, as in the {PAPER}"
    return (
        Agent("Random", source, {game: (games.SCORES[game].random,) for game in games.GAMES}, published=True),
        Agent("Human", source, {game: (games.SCORES[game].human,) for game in games.GAMES}, published=True),
    )


def printed_aggregates() -> dict[str, dict[str, float]]:
    """Return the aggregate rows of the paper's main table exactly as it prints them, by agent."""
    table = paper_tables()["aggregate_26_games"]
    names = {
        "sr_spr": "SR-SPR",
        "efficientzero": "EfficientZero",
        "bbf_rr2": "BBF RR2",
        "bbf_rr8": "BBF RR8",
        "bbf_rr8_from_published_runs": "BBF RR8, from 50 of the published runs per game",
        "sac_bbf_rr2": "SAC-BBF RR2",
    }
    return {
        name: {column: value for column, value in zip(table["columns"], table[key], strict=True) if value is not None}
        for key, name in names.items()
    }


def _from_means(column: str) -> Agent:
    name, source = MEANS[column]
    scores = {game: (games.SCORES[game].published[column],) for game in games.GAMES if _has(game, column)}
    table = paper_tables()["aggregate_26_games"]
    quoted = dict(zip(table["columns"], table.get(column, ()), strict=False))
    seeds = paper_tables()["seeds_per_game"][column]
    return Agent(
        name, f"{source}; means of {seeds} runs per game", scores, published=True, means_only=True, quoted=quoted
    )


def _has(game: str, column: str) -> bool:
    return column in games.SCORES[game].published


def _from_runs(file: str) -> Agent:
    name, source = RUNS[file]
    scores: dict[str, tuple[float, ...]] = {}
    for row in csv.DictReader((_folder() / file).read_text(encoding="utf-8").splitlines()):
        scores[row["game"]] = (*scores.get(row["game"], ()), float(row["score"]))
    counts = sorted({len(found) for found in scores.values()})
    per_game = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return Agent(name, f"{source}; {per_game} per game", scores, published=True)
