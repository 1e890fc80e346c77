"""Progress on the terminal: a live line where there is one, plain log lines where there is not."""

from __future__ import annotations

import time
from collections import deque

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sacbbf.envs import games

LINE_EVERY = 15.0  # seconds between log lines without a terminal


class Display:
    """Shows how a run is going: step, speed, time left, recent and best score."""

    def __init__(self, console: Console, game: str | None) -> None:
        self.console = console
        self.game = game if game in games.GAMES else None
        self.recent: deque[float] = deque(maxlen=20)
        self.best: float | None = None
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=console.quiet or not console.is_terminal,  # a live line that is not shown would swallow prints
        )
        self._task: TaskID | None = None
        self._started = self._last_line = time.monotonic()
        self._first = self._done = self._total = 0
        self._name = ""
        self._speed = ""

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._progress.stop()

    def begin(self, name: str, total: int, done: int = 0) -> None:
        """Begin a stretch of work of `total` parts, of which `done` were done before."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._name, self._total, self._first, self._done = name, total, done, done
        self._task = self._progress.add_task(name, total=total, completed=done, note="")
        self._started = self._last_line = time.monotonic()
        self._speed = ""

    def episode(self, score: float) -> None:
        """Take note of a finished training episode."""
        self.recent.append(score)
        self.best = score if self.best is None else max(self.best, score)

    def advance(self, note: str = "") -> None:
        """One more part is done."""
        self._done += 1
        if self._task is not None:
            self._progress.update(self._task, completed=self._done, note=note or self._note())
        now = time.monotonic()
        if not self.console.is_terminal and now - self._last_line >= LINE_EVERY:
            self._last_line = now
            self._print_line(now, note or self._note())

    def speed(self, steps_per_second: float, updates_per_second: float) -> None:
        """Show the measured speed from now on."""
        self._speed = f"{steps_per_second:.1f} steps/s, {updates_per_second:.1f} updates/s"

    def _note(self) -> str:
        parts = [self._speed] if self._speed else []
        if self.recent and self.best is not None:
            mean = sum(self.recent) / len(self.recent)
            parts.append(f"score {mean:.1f} (last {len(self.recent)}), best {self.best:.1f}")
            if self.game:
                parts.append(f"human-normalised {games.human_normalised(self.game, mean):.3f}")
        return "; ".join(parts)

    def _print_line(self, now: float, note: str) -> None:
        rate = (self._done - self._first) / (now - self._started)  # of this process alone
        left = time.strftime("%H:%M:%S", time.gmtime((self._total - self._done) / rate)) if rate else "?"
        self.console.print(f"{self._name} {self._done:,}/{self._total:,}, {left} left; {note}", highlight=False)
