"""How much a mean score says, in words: its interval, which a single episode does not have, and its episodes."""

from __future__ import annotations

from collections.abc import Sequence


def certainty(interval: Sequence[float], episodes: int) -> str:
    """Return `95% interval 1.00 to 2.00`, or `1 episode` where there is but one."""
    low, high = interval
    return "1 episode" if episodes == 1 else f"95% interval {low:.2f} to {high:.2f}"


def certainty_and_count(interval: Sequence[float], episodes: int) -> str:
    """Return `95% interval 1.00 to 2.00, 10 episodes`, or `1 episode`."""
    words = certainty(interval, episodes)
    return words if episodes == 1 else f"{words}, {episodes} episodes"


def counted(episodes: int) -> str:
    """Return `1 episode` or `10 episodes`."""
    return f"{episodes} episode{'s' * (episodes != 1)}"
