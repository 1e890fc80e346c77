"""The search: trials begin, their runs are watched and pruned, until trials or hours are used up.

A trial's seeds are trained one after the other, several trials at a time, so that one without promise ends before its
second seed. What a trial is lies in the study, how far its runs have come in their directories: a search that was
killed takes up the trials that were at work, and their runs go on from their checkpoints.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sacbbf.disk.lease import Busy, Lease
from sacbbf.disk.reading import Unreadable
from sacbbf.errors import RunFailed
from sacbbf.run.records import read_lines
from sacbbf.run.result_kinds import is_count, is_number
from sacbbf.run.settings import Settings
from sacbbf.run.stop import Stop
from sacbbf.sweep.executor import Executor
from sacbbf.sweep.outcome import Outcome
from sacbbf.sweep.spec import Cell
from sacbbf.tune.budget import Budget
from sacbbf.tune.study import Study, Trial, best_of
from sacbbf.tune.tuning import Tuning, TuningDirectory, finished

PAUSE = 0.5  # seconds between looks at the runs
TAKEN_PAUSE = 10.0  # seconds before a run that another process was at work on is looked at again


class Audience(Protocol):
    """Is told what happens to trials."""

    def trial_begun(self, trial: Trial) -> None:
        """A trial begins, or goes on."""
        ...

    def trial_ended(self, trial: Trial, words: str) -> None:
        """A trial has ended; the words say how."""
        ...

    def tick(self) -> None:
        """Time has passed."""
        ...


@dataclass
class _Work:
    """A trial at work: the runs that are left of it, the first one in training or next."""

    trial: Trial
    cells: list[Cell]
    scores: list[float] = field(default_factory=list)
    running: bool = False
    pruned: bool = False  # the end of its run is awaited
    failures: int = 0
    not_before: float = 0.0


class Search:
    """The work on a tuning's trials."""

    def __init__(
        self,
        tuning: Tuning,
        directory: TuningDirectory,
        study: Study,
        executor: Executor,
        budget: Budget,
        audience: Audience,
        retries: int,
        pause: float = TAKEN_PAUSE,
    ) -> None:
        self.tuning, self.directory, self.study = tuning, directory, study
        self.executor, self.budget, self.audience = executor, budget, audience
        self.retries, self.pause = retries, pause
        self._works: list[_Work] = []
        self._halted = False

    def run(self, stop: Stop) -> None:
        """Work on trials until there is no room for another, or a stop is wanted."""
        self._works = [self._work(trial) for trial in self.study.trials() if trial.state == "at work"]
        while True:
            if not self._halted and (stop.wanted() or self._time_is_up()):
                self.executor.stop()
                self._halted = True
            if not self._halted:
                self._start()
            if not any(work.running for work in self._works) and (self._halted or not self._works):
                return
            self._settle()
            self._watch()
            self.audience.tick()
            time.sleep(PAUSE)

    def _time_is_up(self) -> bool:
        return self.budget.search_over(self._best_settings())

    def _may_begin(self) -> bool:
        """Whether there is room for another trial; the default was given it before anything was written."""
        begun = len(self.study.trials())
        return begun == 0 or self.budget.may_begin(begun, self._best_settings())

    def _best_settings(self) -> Settings:
        best = best_of(self.study.trials())
        return best.settings if best else {}

    def _work(self, trial: Trial) -> _Work:
        """Return a trial as work: the sweep of trials has it from now on."""
        variants = [self.tuning.variant(one.number, one.settings) for one in self.study.trials()]
        spec = self.tuning.search(variants)
        self.directory.search.begin(spec)
        own = self.tuning.variant(trial.number, trial.settings)
        work = _Work(trial, [cell for cell in spec.cells() if cell.variant == own])
        self.audience.trial_begun(trial)
        return work

    def _start(self) -> None:
        """Give every free worker a run: of the trials at work first, then of new ones."""
        for work in self._works:
            if not work.running and time.monotonic() >= work.not_before and self.executor.free():
                self._run_next(work)
        while self.executor.free() and self._may_begin():
            self._works.append(self._work(self.study.ask()))
            self._run_next(self._works[-1])

    def _run_next(self, work: _Work) -> None:
        self.executor.start(work.cells[0])
        work.running = True

    def _settle(self) -> None:
        for cell, outcome in self.executor.ended():
            work = next(one for one in self._works if one.cells[0] == cell)
            work.running = False
            self._report_evaluations(work)
            if work.pruned:  # however its run has ended: a process that had just begun may be killed by the signal
                self._prune(work)
            elif outcome.kind == "finished":
                self._finished(work)
            elif outcome.kind == "failed" and not self._halted:
                self._failed(work, outcome)
            elif not self._halted:  # another process is at work on it, or has stopped it
                work.not_before = time.monotonic() + self.pause

    def _finished(self, work: _Work) -> None:
        """Take in the score of a run, and of the trial if that was its last."""
        run = self.directory.search.run(work.cells.pop(0))
        self.budget.note(run)
        work.scores.append((finished(run) or {})["score"])
        work.failures = 0
        score = statistics.fmean(work.scores)
        hopeless = self.study.report(work.trial, self._step(work, 0), score)
        if not work.cells:
            self.study.finish(work.trial, score)
            self._end(work, f"score {score:.2f}")
        elif hopeless:
            self._prune(work)

    def _watch(self) -> None:
        """Report the evaluations of runs in training, and stop those of trials without promise."""
        for work in self._works:
            if work.running and not work.pruned and self._report_evaluations(work):
                work.pruned = True
                self.executor.stop(work.cells[0])

    def _report_evaluations(self, work: _Work) -> bool:
        """Report what a run has reached, averaged with the seeds before it; True if the trial is to be pruned."""
        path = self.directory.search.run(work.cells[0]).record("evaluations")
        reached = [
            self.study.report(work.trial, self._step(work, step), statistics.fmean([*work.scores, mean]))
            for step, mean in _evaluations(path)
        ]
        return any(reached)

    def _step(self, work: _Work, step: int) -> int:
        """Return the steps of a trial, over all its seeds so far."""
        return len(work.scores) * self.tuning.steps + step

    def _prune(self, work: _Work) -> None:
        self.study.prune(work.trial)
        if work.cells:
            drop_state(self.directory, work.cells[0])
        self._end(work, "pruned: below the median of the trials before it")

    def _failed(self, work: _Work, outcome: Outcome) -> None:
        """Try a run again, or give its trial up if that has failed too often; without the default nothing goes on."""
        work.failures += 1
        if work.failures <= self.retries:
            return
        if not work.trial.number:  # it stays at work, and is tried again when the tuning is started again
            log = self.directory.search.log(work.cells[0])
            raise RunFailed(f"the default could not be trained: {outcome.why}; {log} has its last words")
        self.study.fail(work.trial, outcome.why)
        self._end(work, f"failed: {outcome.why}")

    def _end(self, work: _Work, words: str) -> None:
        self._works.remove(work)
        self.audience.trial_ended(work.trial, words)


def _evaluations(path: Path) -> Iterator[tuple[int, float]]:
    """Steps and scores of a run's evaluations during training."""
    for line in read_lines(path):
        step: Any = line.get("step")
        mean: Any = line.get("mean")
        if not is_count(step) or not is_number(mean):
            raise Unreadable(path, f"it holds no evaluations: step = {step!r}, mean = {mean!r}")
        yield step, mean


def drop_state(directory: TuningDirectory, cell: Cell) -> None:
    """Remove the checkpoints of a run that nobody goes on with; its records stay."""
    try:
        with Lease.acquire(directory.search.run(cell).path) as lease:
            lease.drop()
    except Busy:  # the process that was lost with its run still seems to be alive
        return
