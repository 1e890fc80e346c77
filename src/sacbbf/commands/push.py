"""`sacbbf push`: upload a shared policy to the Hugging Face Hub."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from sacbbf.commands.parsing import parse
from sacbbf.run.sharing import push

EXAMPLES = """\
  sacbbf export RUN --hub folder && sacbbf push folder OWNER/NAME --private
"""


@dataclass(frozen=True)
class PushArgs:
    """Upload a folder made by `sacbbf export RUN --hub DIR`. Log in first: `hf auth login`, or set HF_TOKEN."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """The folder."""
    repository: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="OWNER/NAME")]
    """The repository on the Hub; it is made if there is none."""
    private: bool = False
    """Make it private."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    args = parse(PushArgs, argv, "push", EXAMPLES)
    print(push(args.folder, args.repository, private=args.private))
    return 0
