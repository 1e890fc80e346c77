"""`sacbbf diff`: in which settings, and by how much, two runs differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sacbbf.commands.parsing import parse
from sacbbf.run.records import RunDirectory
from sacbbf.run.settings import differences, from_toml

EXAMPLES = """\
  sacbbf diff runs/Pong-sac-bbf-laptop-seed0 runs/Pong-bbf-laptop-seed0
"""


@dataclass(frozen=True)
class DiffArgs:
    """Show the settings and the scores in which two runs differ."""

    first: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run directory."""
    second: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Another run directory."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    args = parse(DiffArgs, argv, "diff", EXAMPLES)
    runs = [RunDirectory(path).require() for path in (args.first, args.second)]
    configs = [from_toml(run.config) for run in runs]
    console = Console(width=None if Console().is_terminal else 130)
    table = Table("", *(escape(str(run.path)) for run in runs))
    for column in table.columns:
        column.overflow = "fold"  # no letter of a setting is dropped
    for name, values in differences(*configs).items():
        table.add_row(name, *map(_show, values))
    table.add_section()
    results = [run.read_result() or {} for run in runs]
    for name in (
        "score",
        "standard_error",
        "median",
        "human_normalised",
        "episodes",
        "steps",
        "updates",
        "wall_seconds",
    ):
        table.add_row(name, *(_show(result.get(name)) for result in results))
    console.print(table)
    return 0


def _show(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.3f}" if isinstance(value, float) and abs(value) >= 1e-2 else escape(str(value))
