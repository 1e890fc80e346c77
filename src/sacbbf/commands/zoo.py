"""`sacbbf zoo`: the trained policies that come with this package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from sacbbf.commands.parsing import parse
from sacbbf.run import zoo
from sacbbf.run.records import RunDirectory
from sacbbf.run.settings import from_toml

EXAMPLES = f"""\
  sacbbf zoo
  sacbbf play {zoo.PREFIX}MinAtar-Breakout
  sacbbf evaluate {zoo.PREFIX}MinAtar-Breakout --episodes 20
"""


@dataclass(frozen=True)
class ZooArgs:
    """List the trained policies that come with this package.

    Their names stand for a run in play, evaluate, export and train --init, and in `Agent.load`.
    """


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    parse(ZooArgs, argv, "zoo", EXAMPLES)
    console = Console(width=None if Console().is_terminal else 130)
    table = Table()
    table.add_column("name", no_wrap=True)
    for name in ("score (95% interval)", "random", "blind", "steps"):
        table.add_column(name, justify="right")
    for name in zoo.names():
        table.add_row(f"{zoo.PREFIX}{name}", *_cells(RunDirectory(zoo.FOLDER / name)))
    console.print(table)
    return 0


def _cells(run: RunDirectory) -> list[str]:
    config, result = from_toml(run.config), run.read_result() or {}
    low, high = map(_score, result["interval_95"])
    played = result.get("baselines", {})
    chance = [_score(played[name]["score"]) if name in played else "-" for name in ("random", "blind")]
    return [f"{_score(result['score'])} ({low} to {high})", *chance, f"{config.steps:,}"]


def _score(value: Any) -> str:
    return f"{value:,.1f}"
