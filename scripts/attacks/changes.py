"""Changes to what was made: each takes the folder that holds all of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

Change = Callable[[Path], None]


def in_json(name: str, place: tuple[str | int, ...], value: object) -> Change:
    """Put a value in its place in a file of JSON."""

    def change(made: Path) -> None:
        found = inner = json.loads((made / name).read_text())
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = value
        (made / name).write_text(json.dumps(found))

    return change


def in_text(name: str, old: str, new: str) -> Change:
    """Put words in the place of others."""
    pattern = old if old.startswith("(?m)") else re.escape(old)
    return lambda made: (made / name).write_text(re.sub(pattern, lambda _: new, (made / name).read_text())) and None


def appended(name: str, line: str) -> Change:
    """Write a line behind the end of a file."""
    return lambda made: (made / name).write_text((made / name).read_text() + line + "\n") and None


def written(name: str, text: str) -> Change:
    """Write a file."""
    return lambda made: (made / name).write_text(text) and None
