"""Drives a sweep: hands cells to an executor, tries failed ones again, and lets nothing keep the rest from going on.

Any number of sweeps may drive one directory, on one machine or several: a cell belongs to whoever holds its run's
lease. A sweep that finds a cell taken comes back to it later.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sacbbf.run.stop import Stop
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.executor import Executor
from sacbbf.sweep.outcome import Outcome
from sacbbf.sweep.spec import Cell
from sacbbf.sweep.status import cell_state, saved_step

PAUSE = 0.2  # seconds between looks at the executor
TAKEN_PAUSE = 10.0  # seconds before a cell that another process was at work on is looked at again


class Audience(Protocol):
    """Is told what happens to cells."""

    def started(self, cell: Cell) -> None:
        """The work on a cell begins."""
        ...

    def ended(self, cell: Cell, outcome: Outcome, words: str) -> None:
        """The work on a cell has ended; the words say what follows."""
        ...

    def tick(self) -> None:
        """Time has passed."""
        ...


@dataclass
class _Task:
    cell: Cell
    failures: int = 0  # since it last got on
    attempts: int = 0
    saved: int = 0  # step of its last checkpoint when it last failed
    not_before: float = 0.0


@dataclass
class Totals:
    """How a sweep ended."""

    finished: list[Cell] = field(default_factory=list)
    failed: list[Cell] = field(default_factory=list)
    stopped: list[Cell] = field(default_factory=list)


class Driver:
    """The work on some cells of a sweep."""

    def __init__(
        self,
        directory: SweepDirectory,
        executor: Executor,
        audience: Audience,
        retries: int,
        pause: float = TAKEN_PAUSE,
    ) -> None:
        self.directory, self.executor, self.audience = directory, executor, audience
        self.retries, self.pause = retries, pause
        self.totals = Totals()
        self._waiting: deque[_Task] = deque()
        self._running: dict[str, _Task] = {}

    def run(self, cells: Sequence[Cell], stop: Stop) -> Totals:
        """Work on cells until all are finished or given up, or a stop is wanted."""
        self._waiting = deque(_Task(cell, saved=saved_step(self.directory.run(cell))) for cell in cells)
        asked = False
        while self._waiting or self._running:
            if stop.wanted():
                if not asked:
                    self.executor.stop()
                    asked = True
                self.totals.stopped += [task.cell for task in self._waiting]
                self._waiting.clear()
            self._start()
            self._settle(asked)
            self.audience.tick()
            time.sleep(PAUSE)
        return self.totals

    def _start(self) -> None:
        for _ in range(len(self._waiting)):
            if not self.executor.free():
                return
            task = self._waiting.popleft()
            if time.monotonic() < task.not_before:
                self._waiting.append(task)
            else:
                self.audience.started(task.cell)
                task.attempts += 1
                self._running[task.cell.name] = task
                self.executor.start(task.cell)

    def _settle(self, stopping: bool) -> None:
        for cell, outcome in self.executor.ended():
            task = self._running.pop(cell.name)
            if outcome.kind == "finished":
                self.totals.finished.append(cell)
                state = cell_state(self.directory, cell)
                words = "" if state.score is None else f"score {state.score:.2f}"
            elif stopping:
                self.totals.stopped.append(cell)
                words = "goes on when the sweep is started again"
            elif outcome.kind != "failed":  # another process is at work on it, or has stopped this one
                self._again(task, self.pause)
                words = "will be tried again"
            else:
                words = self._failed(task, outcome.why)
            self.audience.ended(cell, outcome, words)

    def _again(self, task: _Task, pause: float) -> None:
        task.not_before = time.monotonic() + pause
        self._waiting.append(task)

    def _failed(self, task: _Task, why: str) -> str:
        """Try a cell again, or give it up if it has failed too often without getting on."""
        saved = saved_step(self.directory.run(task.cell))
        task.failures = 1 if saved > task.saved else task.failures + 1
        task.saved = saved
        if task.failures <= self.retries:
            self._again(task, 0.0)
            return f"trying again, {self.retries - task.failures + 1} of {self.retries} retries left"
        self.totals.failed.append(task.cell)
        self.directory.give_up(task.cell, task.attempts, why)
        return f"given up after {task.attempts} attempt{'s' * (task.attempts > 1)}"
