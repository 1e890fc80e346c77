"""A tuning from its beginning, or from where it was stopped, to its result."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from functools import partial

from rich.console import Console

from sacbbf.disk.files import write_atomically
from sacbbf.disk.lease import Lease
from sacbbf.disk.reading import STUDY, open_file
from sacbbf.errors import UsageError
from sacbbf.run.records import write_json
from sacbbf.run.settings import to_toml
from sacbbf.run.stop import Stop, ending_cleanly
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.drive import Driver
from sacbbf.sweep.executor import Executor
from sacbbf.sweep.spec import Spec
from sacbbf.sweep.workers import Workers, make_executor
from sacbbf.tune.budget import Budget, Clock, measured_pace
from sacbbf.tune.compare import read_comparison, unfinished
from sacbbf.tune.findings import Findings, Spent, last_words, to_summary
from sacbbf.tune.page import page
from sacbbf.tune.progress import TuneProgress
from sacbbf.tune.search import Search
from sacbbf.tune.space import default_of
from sacbbf.tune.study import Study, Trial, best_of
from sacbbf.tune.tuning import EVALUATIONS, Tuning, TuningDirectory

# What is behind the names of files that SQLite opens: it would wait for a pipe, and follow a link.
SQLITE = ("", "-journal", "-wal", "-shm")


@dataclass(frozen=True)
class Limits:
    """When a tuning ends, and who works on it."""

    trials: int | None
    hours: float | None
    workers: Workers


class Tuner:
    """One process's work on a tuning."""

    def __init__(self, tuning: Tuning, directory: TuningDirectory, limits: Limits, console: Console) -> None:
        self.tuning, self.directory, self.limits, self.console = tuning, directory, limits, console
        self.stop = Stop()
        config = tuning.configuration({})
        self.default = {axis.name: default_of(axis.name, config) for axis in tuning.space}
        self.at_a_time = limits.workers.workers or 1

    def run(self) -> Findings | None:
        """Search, compare, and write what was found; None if it was interrupted."""
        self.directory.begin(self.tuning)
        say = partial(self.console.print, markup=False)
        with ending_cleanly(self.stop), Lease.acquire(self.directory.path, on_wait=say) as lease:
            self.study = self._open_study()
            try:
                found = self._carry_out()
            finally:
                self.study.close()
            lease.drop()
        return found

    def _open_study(self) -> Study:
        every = -(-self.tuning.steps // EVALUATIONS)
        for name in SQLITE:
            with contextlib.suppress(FileNotFoundError):
                open_file(self.directory.study.with_name(self.directory.study.name + name), STUDY).close()
        return Study(self.directory.study, self.tuning.space, self.default, warmup=2 * every)

    def _carry_out(self) -> Findings | None:
        self.budget = self._budget()
        with TuneProgress(self.console, self.budget, self.study) as progress:
            self._search(progress)
            best = None if self._interrupted() else self._best_trial()
            if best is not None and best.number:
                self._compare(best, progress)
        if best is None or self._interrupted():
            return None
        found = self._findings(best)
        self._write(found)
        return found

    def _interrupted(self) -> bool:
        return self.stop.interrupted

    def _budget(self) -> Budget:
        clock = Clock(self.directory.clock)
        budget = Budget(self.tuning, self.limits.trials, self.limits.hours, self.at_a_time, clock)
        trials = self.study.trials()
        variants = [self.tuning.variant(one.number, one.settings) for one in trials]
        for cell in self.tuning.search(variants).cells():
            budget.note(self.directory.search.run(cell))
        if self.limits.hours is not None and not budget.runs:
            budget.planned = measured_pace(self.tuning)
        return budget

    def _search(self, progress: TuneProgress) -> None:
        spec = self.tuning.search([self.tuning.variant(0, {})])
        executor = self._executor(self.directory.search, spec)
        try:
            retries = self.limits.workers.retries
            Search(self.tuning, self.directory, self.study, executor, self.budget, progress, retries).run(self.stop)
        finally:
            executor.close()

    def _executor(self, directory: SweepDirectory, spec: Spec) -> Executor:
        return make_executor(directory, spec, self.limits.workers, self.at_a_time, self.tuning.names_modules)

    def _best_trial(self) -> Trial:
        """Return the best trial; without the default's score there is nothing to compare it with."""
        trials = self.study.trials()
        best = best_of(trials)
        if best is None or trials[0].score is None:
            raise UsageError(
                f"hours = {self.limits.hours}: ran out before the first trial, the default, was finished; must be more"
            )
        return best

    def _compare(self, best: Trial, progress: TuneProgress) -> None:
        """Train the default and the best trial on fresh seeds, as far as the hours go."""
        directory, spec = self.directory.comparison, self._comparison(best)
        # A tuning that went on may have compared another trial before.
        earlier = directory.read().variants if directory.manifest.exists() else ()
        directory.begin(self.tuning.comparison([*earlier, *(one for one in spec.variants if one not in earlier)]))
        self.stop.deadline = time.monotonic() + self.budget.left
        executor = self._executor(directory, spec)
        try:
            left = unfinished(self.directory, spec)
            progress.compare(len(left))
            Driver(directory, executor, progress, self.limits.workers.retries).run(left, self.stop)
        finally:
            executor.close()

    def _comparison(self, best: Trial) -> Spec:
        return self.tuning.comparison([self.tuning.variant(0, {}), self.tuning.variant(best.number, best.settings)])

    def _findings(self, best: Trial) -> Findings:
        hours = self.budget.clock.used / 3600
        return Findings(
            tuning=self.tuning,
            trials=tuple(self.study.trials()),
            default=self.default,
            importance=self.study.importance(),
            comparison=read_comparison(self.directory, self._comparison(best)) if best.number else None,
            spent=Spent(self.limits.trials, self.limits.hours, round(hours, 3), self.at_a_time),
        )

    def _write(self, found: Findings) -> None:
        """Write the configuration, the page and the summary, which comes last: it says that all is there."""
        toml = "".join(f"# {line}\n" for line in last_words(found)) + to_toml(
            self.tuning.configuration(found.best.settings)
        )
        write_atomically(self.directory.best, toml.encode())
        write_atomically(self.directory.page, page(found, self.directory.best, toml).encode())
        write_json(self.directory.summary, to_summary(found))
