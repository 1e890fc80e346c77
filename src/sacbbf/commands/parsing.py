"""How every subcommand reads its words: flags from a dataclass, and a help text that ends with examples.

Command modules import PyTorch only once their words are read, so that `--help` and refusals come at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import tyro

from sacbbf.errors import UsageError

Args = TypeVar("Args")


def parse(kind: type[Args], argv: Sequence[str], command: str, examples: str, default: Args | None = None) -> Args:
    """Return what the words say; `--help` prints what they may say, then the examples, and exits."""
    preset = tyro.MISSING_NONPROP if default is None else default
    try:
        return tyro.cli(kind, args=list(map(hyphened, argv)), prog=f"sacbbf {command}", default=preset)
    except SystemExit as end:
        if not end.code:
            print(f"\nexamples:\n{examples.rstrip()}")
        raise


def hyphened(word: str) -> str:
    """Return a flag with the hyphens of its help, so that one that there is not is answered with the nearest."""
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else word


def check_file(name: str, path: Path | None) -> None:
    """Raise UsageError for a file that could not be written, before the work that would be lost."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        what = "is a directory" if path.is_dir() else f"there is no directory {path.parent}"
        raise UsageError(f"{name} = {path}: {what}; give the path of a file in a directory that exists")
