"""What a setting may be, as its own annotation says: a type, a choice, or a number between bounds."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from sacbbf.errors import UsageError


@dataclass(frozen=True)
class Between:
    """Bounds of a number, both included: `Annotated[float, Between(0, 1)]`."""

    low: float
    high: float = math.inf

    def __str__(self) -> str:
        return f"at least {self.low:g}" if math.isinf(self.high) else f"from {self.low:g} to {self.high:g}"


def check_settings(config: Any, prefix: str = "", apart: Collection[str] = ()) -> None:
    """Raise UsageError for the first setting of a dataclass that is not what its annotation says, but those `apart`."""
    hints = get_type_hints(type(config), include_extras=True)
    for entry in fields(config):
        if entry.name in apart:
            continue
        value, name = getattr(config, entry.name), f"{prefix}{entry.name}"
        if is_dataclass(value):
            check_settings(value, f"{name}.")
        else:
            check_value(name, value, hints[entry.name])


def check_value(name: str, value: Any, hint: Any) -> None:
    """Raise UsageError if a setting's value is not of its type, its choices, or its range."""
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise UsageError(f"{name} = {value!r}: must be one of {', '.join(map(str, get_args(hint)))}")
    elif hint is bool:
        if not isinstance(value, bool):
            raise UsageError(f"{name} = {value!r}: must be true or false")
    elif hint is str:  # a name that others may add to; whoever uses it knows which there are
        if not isinstance(value, str) or not value:
            raise UsageError(f"{name} = {value!r}: must be a name")
    elif (bounds := bounds_of(hint)) is not None:
        whole = get_args(hint)[0] is int
        fits = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
        if not fits or not bounds.low <= value <= bounds.high:
            raise UsageError(f"{name} = {value!r}: must be a {'whole ' if whole else ''}number {bounds}")


def bounds_of(hint: Any) -> Between | None:
    """Return the bounds that an annotation gives a number, if it does."""
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((note for note in notes if isinstance(note, Between)), None)


def all_bounds(config: Any, prefix: str = "") -> dict[str, Between]:
    """Return the bounds of every number among a dataclass's settings, by dotted name."""
    hints = get_type_hints(type(config), include_extras=True)
    found: dict[str, Between] = {}
    for entry in fields(config):
        value, name = getattr(config, entry.name), f"{prefix}{entry.name}"
        if is_dataclass(value):
            found |= all_bounds(value, f"{name}.")
        elif (bounds := bounds_of(hints[entry.name])) is not None:
            found[name] = bounds
    return found
