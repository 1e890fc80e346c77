"""One line of a verification: a quantity, how far it is from the reference, and whether that is allowed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """The largest differences found in one quantity."""

    quantity: str
    max_abs: float
    max_rel: float
    tolerance: str
    ok: bool
    worst: str = ""  # where the largest difference is, if there is one
