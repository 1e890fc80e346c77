"""How every subcommand reads its words: flags from a dataclass, a help text from docstrings, and examples at its end.

Command modules import PyTorch only once their words are read, so that `--help` and refusals come at once.
"""

from __future__ import annotations

import inspect
import re
import shutil
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import tyro
from tyro.constructors import ConstructorRegistry, StructConstructorSpec, StructTypeInfo

from sacbbf.errors import UsageError

Args = TypeVar("Args")


def parse(kind: type[Args], argv: Sequence[str], command: str, examples: str, default: Args | None = None) -> Args:
    """Return what the words say; `--help` prints what the command does and its flags, then the examples, and exits."""
    preset = tyro.MISSING_NONPROP if default is None else default
    words = list(map(hyphened, argv))
    if not {"-h", "--help"}.isdisjoint(words):
        print(f"{filled(inspect.getdoc(kind) or '')}\n")  # by tyro its lines would stay longer than the terminal's
    try:
        return tyro.cli(
            kind, args=words, prog=f"sacbbf {command}", default=preset, description="", registry=_help_texts()
        )
    except SystemExit as end:
        if not end.code:
            print(f"\nexamples:\n{examples.rstrip()}")
        raise


def hyphened(word: str) -> str:
    """Return a flag with the hyphens of its help, so that one that there is not is answered with the nearest."""
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else word


def filled(text: str) -> str:
    """Return a text in lines that fit the terminal."""
    wrap = textwrap.TextWrapper(shutil.get_terminal_size().columns, break_long_words=False, break_on_hyphens=False)
    return "\n\n".join(wrap.fill(paragraph) for paragraph in text.split("\n\n"))


def flowing(text: str) -> str:
    """Return what is said of a setting as one paragraph; tyro would break it where the source does, and at commas."""
    return re.sub(r"(?<=\d),(?=\d{3})", "", " ".join(text.split()))


def _help_texts() -> ConstructorRegistry:
    """Return tyro's rules, but for settings whose words flow."""
    registry = ConstructorRegistry()
    asked: list[type] = []

    @registry.struct_rule
    def rule(info: StructTypeInfo) -> StructConstructorSpec | None:
        if info.type in asked:  # by this rule: the next one, tyro's own, answers
            return None
        asked.append(info.type)
        spec = ConstructorRegistry.get_struct_spec(info)
        asked.pop()
        if not isinstance(spec, StructConstructorSpec):
            return None
        return replace(spec, fields=tuple(replace(one, helptext=_flowing(one.helptext)) for one in spec.fields))

    return registry


def _flowing(text: str | Callable[[], str | None] | None) -> Callable[[], str | None]:
    """Return a setting's words, which are read only once they are shown, as one paragraph."""

    def read() -> str | None:
        words = text() if callable(text) else text
        return None if words is None else flowing(words)

    return read


def check_file(name: str, path: Path | None) -> None:
    """Raise UsageError for a file that could not be written, before the work that would be lost."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        what = "is a directory" if path.is_dir() else f"there is no directory {path.parent}"
        raise UsageError(f"{name} = {path}: {what}; give the path of a file in a directory that exists")
