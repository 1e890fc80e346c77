"""When a run ends before its steps are done: signals and deadlines."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name)]


@dataclass
class Stop:
    """Whether, and why, a run should end before its steps are done."""

    reason: str = ""
    deadline: float = float("inf")  # of time.monotonic()

    def wanted(self) -> bool:
        """Whether to end now, at a step's boundary."""
        if not self.reason and time.monotonic() >= self.deadline:
            self.reason = "max_hours"
        return bool(self.reason)

    @property
    def interrupted(self) -> bool:
        """Whether a signal has asked for the end, and not for more play."""
        return self.reason == "interrupt"


@contextmanager
def ending_cleanly(stop: Stop, signals: Sequence[int] = SIGNALS) -> Iterator[None]:
    """Turn signals, by default Ctrl-C, SIGTERM and SIGUSR1, into a wish to stop; a second Ctrl-C ends at once."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop.interrupted and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.reason = "interrupt"

    try:
        previous = {number: signal.signal(number, on_signal) for number in signals}
    except ValueError:  # not in the main thread: signals are somebody else's affair
        previous = {}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
