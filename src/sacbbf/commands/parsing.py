"""How every subcommand reads its words: flags from a dataclass, and a help text that ends with examples.

Command modules import PyTorch only once their words are read, so that `--help` and refusals come at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import tyro

Args = TypeVar("Args")


def parse(kind: type[Args], argv: Sequence[str], command: str, examples: str, default: Args | None = None) -> Args:
    """Return what the words say; `--help` prints what they may say, then the examples, and exits."""
    preset = tyro.MISSING_NONPROP if default is None else default
    try:
        return tyro.cli(kind, args=argv, prog=f"sacbbf {command}", default=preset)
    except SystemExit as end:
        if not end.code:
            print(f"\nexamples:\n{examples.rstrip()}")
        raise
