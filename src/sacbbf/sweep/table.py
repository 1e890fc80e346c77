"""A sweep on the terminal: a table of progress with the time left, live where there is a terminal, else log lines."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.outcome import Outcome
from sacbbf.sweep.spec import Cell, Spec
from sacbbf.sweep.status import STATES, CellState, State, cell_state, steps_done

LOOK_EVERY = 2.0  # seconds between looks at the runs at work
LOOKS = 100  # runs that are looked at each time; where there are more they take turns
LINE_EVERY = 60.0  # seconds between log lines without a terminal
SHOWN = 20  # cells at work or failed that are listed


def overview(states: Sequence[CellState], spec: Spec) -> Table:
    """Return the table of a sweep: a line per variant."""
    table = Table("agent", *STATES, "steps", title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    table.columns[0].overflow = "fold"
    variants: dict[str, list[CellState]] = {}
    for state in states:
        variants.setdefault(state.cell.variant.name, []).append(state)
    for name, own in variants.items():
        table.add_row(escape(name), *_counts(own, spec))
    if len(variants) > 1:
        table.add_section()
        table.add_row("all", *_counts(states, spec))
    return table


def _counts(states: Sequence[CellState], spec: Spec) -> list[str]:
    counts = [sum(state.state == name for state in states) for name in STATES]
    total = sum(spec.steps_of(state.cell) for state in states)
    return [*(str(count) if count else "-" for count in counts), f"{steps_done(states, spec):,}/{total:,}"]


def details(states: Sequence[CellState], spec: Spec) -> list[str]:
    """Return a line for each cell at work, and for each that failed."""
    lines = []
    for state in [state for state in states if state.state == "running"][:SHOWN]:
        total = spec.steps_of(state.cell)
        speed = f", {state.speed:.1f} steps/s" if state.speed else ""
        what = f"{state.step:,}/{total:,} steps{speed}" if state.step < total else "evaluating"
        lines.append(f"{state.cell.name}: {what}")
    failed = [state for state in states if state.state == "failed"]
    lines += [f"{state.cell.name} failed: {state.why}" for state in failed[:SHOWN]]
    if len(failed) > SHOWN:
        lines.append(f"and {len(failed) - SHOWN} more that failed")
    return lines


def time_left(states: Sequence[CellState], spec: Spec) -> float | None:
    """Return the seconds left; None if they cannot be known yet.

    Once cells have finished, the others will take as long, evaluation and all, as many at a time as now; before that,
    the speed of the cells at work tells, of those that learn: a warm-up says nothing of what comes after it.
    """
    running = [state for state in states if state.state == "running"]
    ahead = [state for state in states if state.state in ("running", "stopped", "waiting")]
    taken = {state.cell.variant.name: state for state in states if state.seconds and spec.steps_of(state.cell)}
    if taken and ahead:
        left = sum(_seconds_ahead(state, taken, spec) for state in ahead)
        return left / max(1, len(running))
    training = [state for state in running if spec.steps_of(state.cell)]
    speeds = [state.speed for state in training if state.learns and state.speed]
    if not speeds:
        return None
    steps = sum(spec.steps_of(state.cell) for state in ahead) - steps_done(ahead, spec)
    return steps / (statistics.mean(speeds) * len(training))


def _seconds_ahead(state: CellState, taken: Mapping[str, CellState], spec: Spec) -> float:
    """Return what a cell will still take, by a finished one of its variant, else by one of another."""
    like = taken.get(state.cell.variant.name) or next(iter(taken.values()))
    steps = spec.steps_of(state.cell)
    return like.seconds / spec.steps_of(like.cell) * max(0, steps - state.step)


def duration(seconds: float) -> str:
    """Return a time in words short enough for a line."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return "less than a minute"
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    parts = [(days, "d"), (hours, "h"), (minutes if not days else 0, "min")]
    return " ".join(f"{count:,} {unit}" for count, unit in parts if count)


def about(seconds: float) -> str:
    """Return a time that was estimated in words."""
    words = duration(seconds)
    return words if words.startswith("less") else f"about {words}"


def left_words(seconds: float) -> str:
    """Return the time left in words."""
    return f"{about(seconds)} left"


class LiveTable:
    """Shows a sweep while it is driven.

    Where the executor `queues`, a cell that was started waits until a process holds its run.
    """

    def __init__(
        self,
        console: Console,
        directory: SweepDirectory,
        spec: Spec,
        states: Sequence[CellState],
        queues: bool = False,
    ) -> None:
        self.console, self.directory = console, directory
        self.spec = spec
        self._begun: State = "waiting" if queues else "running"  # what a cell is between its start and its run
        self.states = {state.cell.name: state for state in states}
        self._at_work: dict[str, Cell] = {}
        self._finished = sum(state.state == "finished" for state in states)
        self._looked = self._printed = time.monotonic()
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def started(self, cell: Cell) -> None:
        """The work on a cell begins."""
        self._at_work[cell.name] = cell
        before = self.states.get(cell.name)
        self.states[cell.name] = CellState(cell, self._begun, before.step if before else 0)

    def ended(self, cell: Cell, outcome: Outcome, words: str) -> None:
        """The work on a cell has ended."""
        self._at_work.pop(cell.name, None)
        self.states[cell.name] = cell_state(self.directory, cell)
        self._finished += outcome.kind == "finished"
        why = f": {outcome.why};" if outcome.why else ""
        line = f"[{self._finished}/{len(self.states)}] {cell.name} {outcome.kind}{why} {words}"
        self._say(line.rstrip(" ;"))

    def tick(self) -> None:
        """Look at the runs at work from time to time, and show them."""
        now = time.monotonic()
        if now - self._looked < LOOK_EVERY:
            return
        self._looked = now
        for name in list(self._at_work)[:LOOKS]:
            cell = self._at_work.pop(name)
            self._at_work[name] = cell  # behind all others
            found = cell_state(self.directory, cell)
            there = found.state in ("running", "finished")
            self.states[name] = found if there else replace(found, state=self._begun)
        if self._live is not None:
            self._live.update(self.view(), refresh=True)
        elif now - self._printed >= LINE_EVERY:
            self._printed = now
            self._say(self._line())

    def view(self) -> RenderableType:
        """The table, the cells at work, and the time left."""
        states = list(self.states.values())
        lines = [escape(line) for line in details(states, self.spec)]
        return Group(overview(states, self.spec), *lines, self._line())

    def _line(self) -> str:
        states = list(self.states.values())
        left = time_left(states, self.spec)
        total = sum(self.spec.steps_of(state.cell) for state in states)
        words = "time left unknown" if left is None else left_words(left)
        at_work = sum(state.state == "running" for state in states)
        return f"{steps_done(states, self.spec):,}/{total:,} steps, {at_work} at work, {words}"

    def _say(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)
