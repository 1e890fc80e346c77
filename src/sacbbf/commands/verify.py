"""`sacbbf verify`: compare the learner and the replay with numbers computed by the authors' code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from sacbbf.agents.config import Kernels
from sacbbf.commands.parsing import parse
from sacbbf.run.checks import Check

EXAMPLES = """\
  sacbbf verify
  sacbbf verify --replay
"""


@dataclass(frozen=True)
class VerifyArgs:
    """Compare the learner that trains, or the replay, with reference numbers of the authors' release.

    Without options, every reference case that comes with the package is run: three updates each.
    Exits with 0 if every quantity is within its tolerance, else with 1.
    """

    case: str | None = None
    """A case to run: PATH of a pair PATH.json and PATH.npz, a folder of such pairs, or a shipped case's name."""
    kernels: Kernels = "auto"
    """Compute with the kernels that apply, or off: with plain PyTorch alone."""
    replay: Annotated[Path | None, tyro.conf.arg(metavar="FILE.npz")] = None
    """Check the replay's `released` behaviour against this file instead; without a file, the package's own."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    args = parse(VerifyArgs, with_default_replay(argv), "verify", EXAMPLES)
    from sacbbf.run.reference_case import find_cases
    from sacbbf.run.verify import verify_case
    from sacbbf.run.verify_replay import verify_replay

    console = Console(width=None if Console().is_terminal else 130)
    results: dict[str, list[Check]] = {}
    if args.replay is not None:
        results[args.replay.name] = verify_replay(args.replay)
    if args.case is not None or args.replay is None:
        for prefix in find_cases(args.case):
            results[prefix.name] = verify_case(prefix, args.kernels)
    for name, checks in results.items():
        console.print(check_table(name, checks))
    checks = [check for checks in results.values() for check in checks]
    failed = sum(not check.ok for check in checks)
    console.print(f"{len(checks)} quantities compared, {failed} out of tolerance")
    return 1 if failed else 0


def with_default_replay(argv: Sequence[str]) -> list[str]:
    """Give a bare `--replay` the file that comes with the package."""
    words = list(argv)
    for index, word in enumerate(words):
        if word == "--replay" and (index + 1 == len(words) or words[index + 1].startswith("--")):
            from sacbbf.run.reference_case import shipped_replay_reference

            words.insert(index + 1, str(shipped_replay_reference()))
            break
    return words


def check_table(name: str, checks: Sequence[Check]) -> Table:
    """Lay out comparisons as a table, one row each."""
    table = Table(title=name, title_justify="left")
    for heading in ("quantity", "max abs dev", "max rel dev", "tolerance", "ok", "worst"):
        table.add_column(heading, justify="right" if "dev" in heading else "left", no_wrap=heading != "worst")
    for check in checks:
        verdict = "[green]ok[/green]" if check.ok else "[bold red]OUT[/bold red]"
        deviations = (f"{check.max_abs:.1e}", f"{check.max_rel:.1e}")
        table.add_row(check.quantity, *deviations, check.tolerance, verdict, check.worst)
    return table
