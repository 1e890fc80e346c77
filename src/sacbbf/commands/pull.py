"""`sacbbf pull`: download a shared policy from the Hugging Face Hub."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from sacbbf.commands.parsing import parse
from sacbbf.run.sharing import pull

EXAMPLES = """\
  sacbbf pull OWNER/NAME copy && sacbbf evaluate copy
"""


@dataclass(frozen=True)
class PullArgs:
    """Download a policy into a new folder, for `sacbbf evaluate`, `sacbbf play` and `Agent.load`.

    Only files that this package reads as data are fetched; nothing of them is executed.
    """

    repository: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="OWNER/NAME")]
    """The repository on the Hub."""
    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """A new or empty folder."""
    revision: str | None = None
    """A branch, tag or commit; by default the newest."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    args = parse(PullArgs, argv, "pull", EXAMPLES)
    pull(args.repository, args.folder, revision=args.revision)
    print(f"{args.folder}: sacbbf evaluate {args.folder}")
    return 0
