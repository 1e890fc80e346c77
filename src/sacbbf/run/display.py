"""Progress on the terminal: a live line where there is one, plain log lines where there is not."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID
from rich.table import Column
from rich.text import Text

from sacbbf.envs import games

LINE_EVERY = 15.0  # seconds between log lines without a terminal
WINDOW = 60.0  # seconds over which the speed is taken that the time left follows from
BAR, SHORT_BAR = 24, 10  # characters; the short one where there are fewer than WIDE
WIDE = 80


class Pace:
    """How fast work goes, over the last minute or so: its start may be faster than its end, as a warm-up is."""

    def __init__(self, done: int, total: int) -> None:
        self.total = total
        self.marks: deque[tuple[float, int]] = deque([(time.monotonic(), done)])

    def note(self, done: int) -> None:
        """So much is done now."""
        now = time.monotonic()
        if len(self.marks) > 1 and now - self.marks[-2][0] < WINDOW / 60:
            self.marks.pop()  # a mark a second is enough
        self.marks.append((now, done))
        while len(self.marks) > 2 and now - self.marks[1][0] >= WINDOW:
            self.marks.popleft()

    @property
    def left(self) -> float | None:
        """Seconds to the end at this pace; None as long as nothing is known of it."""
        (since, first), (now, done) = self.marks[0], self.marks[-1]
        return (self.total - done) * (now - since) / (done - first) if done > first else None


def clock(seconds: float | None) -> str:
    """Return a time as hours, minutes and seconds, with days in front if there are any; ? for none."""
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days} d {hours:02}:{minutes:02}" if days else f"{hours}:{minutes:02}:{rest:02}"


def fitting(parts: Sequence[str], room: int) -> str:
    """Return as many parts as have room in a line, the first ones first."""
    line = ""
    for part in parts:
        longer = f"{line}; {part}" if line else part
        if len(longer) > room:
            break
        line = longer
    return line


class _Words(ProgressColumn):
    """All that stands beside the bar, in one line: what comes first stays, the rest where there is room."""

    def __init__(self, console: Console) -> None:
        super().__init__(Column(no_wrap=True))
        self.console = console

    def render(self, task: Task) -> Text:
        """Return steps, time left, and what has room of the notes."""
        parts = [f"{task.completed:,.0f}/{task.total:,.0f}", f"{clock(task.fields['left'])} left"]
        start = "  ".join(parts)
        room = self.console.width - len(task.description) - bar_width(self.console) - len(start) - 4
        return Text("  ".join(filter(None, [start, fitting(task.fields["notes"], room)])))


def bar_width(console: Console) -> int:
    """Return how wide a bar is on a console."""
    return BAR if console.width >= WIDE else SHORT_BAR


def silent() -> Display:
    """Return a display that shows nothing."""
    return Display(Console(quiet=True), None)


class Display:
    """Shows how a run is going: steps, time left, recent and best score, speed."""

    def __init__(self, console: Console, game: str | None) -> None:
        self.console = console
        self.game = game if game in games.GAMES else None
        self.recent: deque[float] = deque(maxlen=20)
        self.best: float | None = None
        self._progress = Progress(
            "{task.description}",
            BarColumn(bar_width(console)),
            _Words(console),
            console=console,
            refresh_per_second=4,
            disable=console.quiet or not console.is_terminal,  # a live line that is not shown would swallow prints
        )
        self._task: TaskID | None = None
        self._last_line = time.monotonic()
        self._done = 0
        self._pace = Pace(0, 0)
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
        self._name, self._done, self._pace = name, done, Pace(done, total)
        self._task = self._progress.add_task(name, total=total, completed=done, notes=(), left=None)
        self._last_line = time.monotonic()
        self._speed = ""

    def episode(self, score: float) -> None:
        """Take note of a finished training episode."""
        self.recent.append(score)
        self.best = score if self.best is None else max(self.best, score)

    def advance(self, note: str = "", parts: int = 1) -> None:
        """So many more parts are done; none, if there is only something to say."""
        self._done += parts
        self._pace.note(self._done)
        notes = [note] if note else self._notes()
        if self._task is not None:
            self._progress.update(self._task, completed=self._done, notes=notes, left=self._pace.left)
        now = time.monotonic()
        if not self.console.is_terminal and now - self._last_line >= LINE_EVERY:
            self._last_line = now
            words = [f"{clock(self._pace.left)} left", *notes]
            line = f"{self._name} {self._done:,}/{self._pace.total:,}, {'; '.join(words)}"
            self.console.print(line, highlight=False)

    def speed(self, steps_per_second: float, updates_per_second: float) -> None:
        """Show the measured speed from now on."""
        self._speed = f"{steps_per_second:.1f} steps/s, {updates_per_second:.1f} updates/s"

    def _notes(self) -> list[str]:
        """What there is to say, by its importance."""
        parts = []
        if self.recent and self.best is not None:
            mean = sum(self.recent) / len(self.recent)
            parts += [f"score {mean:.1f}", f"best {self.best:.1f}"]
            if self.game:
                parts.append(f"human-normalised {games.human_normalised(self.game, mean):.3f}")
        return [*parts, self._speed] if self._speed else parts
