"""Of which kind each entry of `result.json` is: what reads one may rely on it, whoever wrote the file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sacbbf.disk.reading import Unreadable

MOST = 1 << 53  # of a count


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, and a float can hold it."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def is_count(value: Any) -> bool:
    """Whether a value is a whole number that counts something."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_number, value))


Kind = tuple[Callable[[Any], bool], str]
NUMBER: Kind = (lambda value: value is None or is_number(value), "a finite number")
COUNT: Kind = (is_count, "a whole number")
ANSWER: Kind = (lambda value: isinstance(value, bool), "true or false")
NUMBERS: Kind = (_are_numbers, "a list of finite numbers")
INTERVAL: Kind = (lambda value: value is None or (_are_numbers(value) and len(value) == 2), "a list of two numbers")
TEXT: Kind = (lambda value: value is None or (isinstance(value, str) and value.isprintable()), "a text in one line")

KINDS: dict[str, Kind] = {
    **dict.fromkeys(("env", "agent", "size", "stopped_by", "mix", "trained_by"), TEXT),
    **dict.fromkeys(("seed", "episodes", "steps", "updates"), COUNT),
    **dict.fromkeys(("score", "standard_error", "median", "human_normalised", "wall_seconds"), NUMBER),
    **dict.fromkeys(("returns", "lengths"), NUMBERS),
    "interval_95": INTERVAL,
    "finished": ANSWER,
}


def check_result(path: Path, result: dict[str, Any]) -> None:
    """Raise Unreadable for an entry of another kind than training writes; what is not there is nobody's fault."""
    _check(path, result)
    baselines = result.get("baselines", {})
    for name, played in baselines.items() if isinstance(baselines, dict) else [("baselines", baselines)]:
        if not isinstance(played, dict) or not all(is_number(played.get(key)) for key in ("score", "standard_error")):
            raise Unreadable(path, f"{name} = {played!r}: must have a score and a standard_error")
        _check(path, played)


def _check(path: Path, entries: dict[str, Any]) -> None:
    for name, (fits, words) in KINDS.items():
        if name in entries and not fits(entries[name]):
            raise Unreadable(path, f"{name} = {entries[name]!r}: must be {words}")
