"""Crash points: named moments at which a crash test kills the process; otherwise they do nothing.

`SACBBF_CRASH_AT="config.toml: after write#2"` kills the process when it reaches that point for the second time.
`SACBBF_CRASH_LOG=FILE` appends every point that is reached to a file, a line each. Both are read at import.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sacbbf.errors import UsageError

CRASH_AT, CRASH_LOG = "SACBBF_CRASH_AT", "SACBBF_CRASH_LOG"


def kill() -> None:
    """End this process as a power cut would: at once, with nothing flushed and nothing cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Plan:
    """What happens when points are reached."""

    point: str | None = None
    count: int = 1  # the visit to `point` at which the action is taken
    action: Callable[[], None] = kill
    log: int | None = None  # file descriptor
    reached: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def visit(self, point: str) -> None:
        """Note the point, and act if it is the one waited for."""
        if self.log is not None:
            os.write(self.log, f"{point}\n".encode())
        if point != self.point:
            return
        with self.lock:
            self.reached += 1
            due = self.reached == self.count
        if due:
            self.action()


def reach(point: str) -> None:
    """Say that a crash point has been reached."""
    if _plan is not None:
        _plan.visit(point)


def arm(point: str, count: int = 1, action: Callable[[], None] = kill) -> None:
    """Take an action in this process when `point` is reached for the `count`-th time from now."""
    global _plan
    _plan = Plan(point, count, action)


def disarm() -> None:
    """Let all points do nothing again."""
    global _plan
    _plan = None


def plan_from(environment: Mapping[str, str]) -> Plan | None:
    """The plan that the environment variables ask for; None if they ask for nothing."""
    at, log = environment.get(CRASH_AT), environment.get(CRASH_LOG)
    if at is None and log is None:
        return None
    plan = Plan()
    if at is not None:
        plan.point, plan.count = _parse(at)
    if log is not None:
        plan.log = _open_log(log)
    return plan


def _parse(value: str) -> tuple[str, int]:
    point, _, count = value.partition("#")
    if not point or not (count.isascii() and count.isdigit()) or int(count) < 1:
        raise UsageError(f'{CRASH_AT}={value!r}: takes "point name#count" with a count of at least 1')
    return point, int(count)


def _open_log(name: str) -> int:
    try:
        return os.open(Path(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError as error:
        raise UsageError(f"{CRASH_LOG}={name!r}: takes a file that can be written; {error.strerror}") from error


_plan: Plan | None = plan_from(os.environ)
