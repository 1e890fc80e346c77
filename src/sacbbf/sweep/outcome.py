"""How the work on a cell ends: what executors hand to who drives a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Outcome:
    """How the work on a cell ended."""

    kind: Literal["finished", "stopped", "busy", "failed"]  # busy: another process is at work on it
    why: str = ""
