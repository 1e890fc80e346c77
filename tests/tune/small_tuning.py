"""Tunings whose runs are made up: an executor that writes what runs would leave, as a function of their settings."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from sacbbf.run.records import RunDirectory
from sacbbf.sweep.outcome import Outcome
from sacbbf.tune.budget import Budget, Clock
from sacbbf.tune.search import Search
from sacbbf.tune.space import Choice, Range, default_of
from sacbbf.tune.study import Study
from sacbbf.tune.tuning import Tuning, TuningDirectory

STEPS = 1_000
RATE = "optimiser.learning_rate"
SPACE = (Range(RATE, 1e-4, 1e-2, log=True), Choice("schedule.n_end", (1, 3, 5)))
UPDATE = 0.01  # seconds


def small_tuning(**fields) -> Tuning:
    """Two settings of CartPole, two seeds for a trial and three for the comparison."""
    tuning = Tuning("CartPole-v1", "sac-bbf", "tiny-paper", STEPS, SPACE, 2, 3, {"schedule.warmup": 100}, "cpu")
    return replace(tuning, **fields)


def default_values(tuning) -> dict[str, object]:
    """The default's value of every tuned setting."""
    config = tuning.configuration({})
    return {axis.name: default_of(axis.name, config) for axis in tuning.space}


def begun(path, tuning) -> TuningDirectory:
    """A tuning that was stored and not run."""
    directory = TuningDirectory(path)
    directory.begin(tuning)
    return directory


def opened(directory, tuning) -> Study:
    """Its study, in which trials may be pruned from the first evaluation on."""
    return Study(directory.study, tuning.space, default_values(tuning), warmup=0)


def by_rate(cell) -> float:
    """A score that is best, 100, at a learning rate of 0.003; seeds differ a little."""
    rate = cell.variant.settings.get(RATE, 3e-4)
    return 100 - 40 * abs(math.log10(rate / 3e-3)) + (cell.seed % 100) / 10


class MadeUp:
    """Runs that reach a fifth more of their score at each look, `places` at a time; some fail or take more looks."""

    queues = False

    def __init__(self, directory, score=by_rate, places=1, fails=lambda cell: False, looks=lambda cell: 5):
        self.directory, self.score, self.places, self.fails, self.looks = directory, score, places, fails, looks
        self.at_work, self.started, self.stopped, self.asked = {}, [], [], 0

    def free(self):
        return len(self.at_work) < self.places

    def start(self, cell):
        assert cell in self.directory.read().cells()
        self.started.append(cell)
        self.at_work[cell.name] = [cell, 0]

    def ended(self):
        over = []
        for cell, looks in list(self.at_work.values()):
            if cell in self.stopped:
                over.append((cell, Outcome("stopped", "interrupt")))
            elif self.fails(cell):
                over.append((cell, Outcome("failed", "no luck")))
            elif looks == self.looks(cell) - 1:
                self.finish(cell)
                over.append((cell, Outcome("finished")))
            else:
                self.evaluate(cell, min(looks + 1, 4))
                self.at_work[cell.name][1] += 1
        for cell, _ in over:
            del self.at_work[cell.name]
        return over

    def evaluate(self, cell, number):
        run = self.directory.run(cell)
        run.path.mkdir(parents=True, exist_ok=True)
        line = {"step": number * STEPS // 5, "mean": self.score(cell) * number / 5}
        with run.record("evaluations").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def finish(self, cell):
        write_result(self.directory.run(cell), self.score(cell), cell.variant.settings.get("schedule.replay_ratio", 1))

    def stop(self, cell=None):
        self.asked += 1
        self.stopped += [one for one, _ in self.at_work.values() if cell in (None, one)]

    def close(self):
        """Nothing is left."""


def write_result(run: RunDirectory, score, ratio=1):
    """Store a finished run; an update took a hundredth of a second."""
    run.path.mkdir(parents=True, exist_ok=True)
    updates = (STEPS - 100) * ratio
    result = {"finished": True, "score": score, "wall_seconds": UPDATE * updates, "updates": updates}
    speeds = [{"step": step, "steps_per_second": STEPS / (UPDATE * updates)} for step in (STEPS // 2, STEPS)]
    run.record("speed").write_text("".join(json.dumps(line) + "\n" for line in speeds))
    run.result.write_text(json.dumps(result | {"steps": STEPS}))


class Listener:
    """Notes what it is told of trials."""

    def __init__(self):
        self.begun, self.ended_trials, self.ticks = [], {}, 0
        self.on_tick = lambda number: None

    def trial_begun(self, trial):
        self.begun.append(trial.number)

    def trial_ended(self, trial, words):
        self.ended_trials[trial.number] = words

    def tick(self):
        self.ticks += 1
        self.on_tick(self.ticks)


def searching(directory, tuning, study, executor, trials=None, hours=None, retries=0, planned=0.0):
    """A search over made-up runs with its listener and budget."""
    budget = Budget(tuning, trials, hours, executor.places, Clock(directory.clock), planned)
    listener = Listener()
    return Search(tuning, directory, study, executor, budget, listener, retries, pause=0.0), listener, budget
