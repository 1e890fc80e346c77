"""A tuning on the terminal: a bar with what is best so far where there is a terminal, a line for each end where not."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sacbbf.sweep.outcome import Outcome
from sacbbf.sweep.spec import Cell
from sacbbf.tune.budget import Budget
from sacbbf.tune.findings import value_words
from sacbbf.tune.study import Study, Trial, best_of


class TuneProgress:
    """Shows trials, then the runs of the final comparison."""

    def __init__(self, console: Console, budget: Budget, study: Study) -> None:
        self.console, self.budget, self.study = console, budget, study
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[count]}"),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=console,
            disable=console.quiet or not console.is_terminal,
        )
        self._task = self._progress.add_task("trials", total=budget.trials, note="", count="")
        self._words = ""

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
        self.budget.clock.keep()

    def trial_begun(self, trial: Trial) -> None:
        """A trial begins, or goes on."""
        words = ", ".join(f"{name}={value_words(value)}" for name, value in trial.settings.items())
        self._say(f"trial {trial.number} begins: {words or 'the default'}")
        self._look()

    def trial_ended(self, trial: Trial, words: str) -> None:
        """A trial has ended."""
        self._say(f"trial {trial.number} {words}")
        self._look()

    def compare(self, runs: int) -> None:
        """The final comparison begins, with so many runs left of it."""
        self._progress.remove_task(self._task)
        self._task = self._progress.add_task("comparison on fresh seeds", total=runs, note="", count=f"0/{runs}")
        self._words = ""
        self._say(f"final comparison on fresh seeds: {runs} runs are left of it")

    def started(self, cell: Cell) -> None:
        """A run of the comparison begins."""

    def ended(self, cell: Cell, outcome: Outcome, words: str) -> None:
        """A run of the comparison has ended."""
        if outcome.kind == "finished":
            self._count(int(self._progress.tasks[0].completed) + 1)
        why = f" ({outcome.why})" if outcome.why else ""
        self._say(f"{cell.variant.name}, fresh seed {cell.seed}: {outcome.kind}{why} {words}".rstrip())

    def tick(self) -> None:
        """Time has passed."""
        self.budget.clock.tick()
        hours = self.budget.clock.used / 3600
        limit = "" if self.budget.hours is None else f" of {self.budget.hours:g}"
        self._progress.update(self._task, note=f"{self._words}{hours:.2f}{limit} hours")

    def _look(self) -> None:
        trials = self.study.trials()
        best, first = best_of(trials), trials[0]
        scores = [] if best is None else [f"best {best.score:.2f} (trial {best.number})"]
        scores += [] if first.score is None else [f"default {first.score:.2f}"]
        self._words = "".join(f"{part}; " for part in scores)
        self._count(sum(trial.state != "at work" for trial in trials))

    def _count(self, done: int) -> None:
        total = self._progress.tasks[0].total
        words = f"{done}" if total is None else f"{done}/{total:.0f}"
        self._progress.update(self._task, completed=done, count=words)

    def _say(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)
