"""`sacbbf list`: agents, sizes, games with their scores, environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from sacbbf import games
from sacbbf.envs import known_environments
from sacbbf.presets import AGENTS, SIZES

What = Literal["agents", "sizes", "games", "environments", "all"]


@dataclass(frozen=True)
class ListArgs:
    """List what there is: agents, sizes, the 26 games with random, human and published scores, environments."""

    what: Annotated[What, tyro.conf.Positional] = "all"
    """What to list."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    args = tyro.cli(ListArgs, args=argv, prog="sacbbf list")
    console = Console(width=None if Console().is_terminal else 130)
    tables = {"agents": agents, "sizes": sizes, "games": game_scores, "environments": environments}
    for name, make in tables.items():
        if args.what in (name, "all"):
            console.print(make())
    return 0


def agents() -> Table:
    """Return agents by name."""
    return _table("agents", {name: (text,) for name, text in AGENTS.items()}, ("agent", "what it is"))


def sizes() -> Table:
    """Return sizes by name."""
    rows = {name: (size.summary, f"{size.steps:,}") for name, size in SIZES.items()}
    return _table("sizes", rows, ("size", "what it is", "steps by default"))


def game_scores() -> Table:
    """Return the Atari 100K games with random, human and published mean scores."""
    table = Table("game", "random", "human", *games.PUBLISHED_AGENTS, title="Atari 100K: mean scores, published")
    for column in table.columns[1:]:
        column.justify = "right"
    for game in games.GAMES:
        scores = games.SCORES[game]
        published = [scores.published.get(agent) for agent in games.PUBLISHED_AGENTS]
        cells = ["-" if score is None else f"{score:,.1f}" for score in (scores.random, scores.human, *published)]
        table.add_row(game, *cells)
    return table


def environments() -> Table:
    """Return the names that `sacbbf train` takes, by group."""
    rows = {group: (", ".join(names),) for group, names in known_environments().items()}
    return _table("environments", rows, ("group", "names"))


def _table(title: str, rows: Mapping[Any, Sequence[str]], headings: Sequence[str]) -> Table:
    table = Table(*headings, title=title)
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table
