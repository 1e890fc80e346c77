"""`sacbbf list`: agents, sizes, games with their scores, environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sacbbf.agents.config import flatten
from sacbbf.agents.ladder import RUNGS, Rung, published
from sacbbf.agents.presets import AGENTS, SIZES
from sacbbf.commands.parsing import parse
from sacbbf.envs import games
from sacbbf.envs.playable import playable
from sacbbf.errors import UsageError
from sacbbf.report.terminal import print_table

What = Literal["agents", "sizes", "games", "environments", "all"]
LADDER_COLUMNS = ("agent", "on top of", "setting", "there", "here")


EXAMPLES = """\
  sacbbf list agents --diff
  sacbbf list environments
"""


@dataclass(frozen=True)
class ListArgs:
    """List what there is: agents, sizes, the 26 games with random, human and published scores, environments."""

    what: Annotated[What, tyro.conf.Positional] = "all"
    """What to list."""
    diff: bool = False
    """With agents: every setting in which each agent differs from the one below it, as published for Atari 100K."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    args = parse(ListArgs, argv, "list", EXAMPLES)
    console = Console(width=None if Console().is_terminal else 130)
    if args.diff and args.what not in ("agents", "all"):
        raise UsageError(f"diff: goes with agents, not with {args.what}")
    parts: dict[str, Callable[[], object]] = {
        "agents": lambda: console.print(ladder() if args.diff else agents()),
        "sizes": lambda: console.print(sizes()),
        "games": lambda: print_game_scores(console),
        "environments": lambda: console.print(environments()),
    }
    for name, show in parts.items():
        if args.what in (name, "all"):
            show()
    return 0


def agents() -> Table:
    """Return agents by name."""
    return _table("agents", {name: (text,) for name, text in AGENTS.items()}, ("agent", "what it is"))


def ladder() -> Table:
    """Return each agent's differences from the one below it."""
    table = Table(*LADDER_COLUMNS, title="the ladder, as published for Atari 100K")
    for rows in ladder_rows().values():
        for number, (name, below, *cells) in enumerate(rows):
            table.add_row(*((name, below) if number == 0 else ("", "")), *cells)
        table.add_section()
    return table


def ladder_markdown() -> str:
    """Return the same as a table in Markdown, for the documentation."""
    rows = [LADDER_COLUMNS, ("---",) * len(LADDER_COLUMNS), *(row for rows in ladder_rows().values() for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def ladder_rows() -> dict[str, list[tuple[str, ...]]]:
    """Return the ladder's rows by agent, from the presets themselves; one that starts a ladder has all that moves."""
    moving = {setting for rung in RUNGS.values() if rung.below for setting in _changed(rung)}
    found: dict[str, list[tuple[str, ...]]] = {}
    for name, rung in RUNGS.items():
        here = flatten(published(name))
        there = {} if rung.below is None else flatten(published(rung.below))
        shown = _changed(rung) | (moving if rung.below is None else set())
        settings = [setting for setting in here if setting in shown and (not there or there[setting] != here[setting])]
        found[name] = [
            (name, rung.below or "-", setting, _show(there.get(setting, "")), _show(here[setting]))
            for setting in settings
        ]
    return found


def _changed(rung: Rung) -> set[str]:
    return {f"{part}.{setting}" for part, settings in rung.changes.items() for setting in settings}


def _show(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def sizes() -> Table:
    """Return sizes by name."""
    rows = {name: (size.summary, f"{size.steps:,}") for name, size in SIZES.items()}
    return _table("sizes", rows, ("size", "what it is", "steps by default"))


def print_game_scores(console: Console) -> None:
    """Print the Atari 100K games with random, human and published mean scores."""
    rows = []
    for game in games.GAMES:
        scores = games.SCORES[game]
        published = [scores.published.get(agent) for agent in games.PUBLISHED_AGENTS]
        cells = ["-" if score is None else f"{score:,.1f}" for score in (scores.random, scores.human, *published)]
        rows.append([game, *cells])
    head = ["game", "random", "human", *games.PUBLISHED_AGENTS]
    print_table(console, "Atari 100K: mean scores, published", head, rows)


def environments() -> Table:
    """Return the names that `sacbbf train` takes here, by group, and what other names need."""
    found = playable()
    rows = {group: (", ".join(names),) for group, names in found.names.items() if names}
    needs = {escape(f"needs {extra}"): (", ".join(names),) for extra, names in found.lacking.items()}
    return _table("environments", rows | needs, ("group", "names"))


def _table(title: str, rows: Mapping[Any, Sequence[str]], headings: Sequence[str]) -> Table:
    table = Table(*headings, title=title)
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table
