"""What a tuning may take: trials, hours, and what a run costs by those that are finished.

Hours are of work, over all sessions of a tuning: a stop between them does not count.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sacbbf.agents.presets import SIZES
from sacbbf.disk.reading import RESULT, Unreadable, read_json
from sacbbf.errors import UsageError
from sacbbf.run.devices import resolve_device
from sacbbf.run.records import RunDirectory, read_lines, write_json
from sacbbf.run.result_kinds import is_count, is_number
from sacbbf.run.settings import Settings
from sacbbf.sweep.estimate import Estimator
from sacbbf.tune.tuning import Tuning, finished

MARGIN = 1.25  # on what is expected of a run's time
LONGEST = 1e10  # seconds of work on a tuning that are plausible: three hundred years
KEEP_EVERY = 10.0  # seconds between notes of the time
USUAL_TRIALS = 12  # that steps are planned for where no number is given
STARTUP = 6.0  # seconds that a process takes before its run begins
ASIDE = 15.0  # seconds of a run beside its training, start and evaluations, as long as none is finished
LEAST_STEPS = 2_000  # that are planned; fewer tell little
LOOKS = 5  # at the speed of this machine
WHAT = "a tuning's clock"
RATIO = "schedule.replay_ratio"


@dataclass
class Clock:
    """Seconds of work on a tuning, by this process and those before it."""

    path: Path
    before: float = 0.0
    started: float = field(default_factory=lambda: time.monotonic())
    kept: float = 0.0

    def __post_init__(self) -> None:
        try:
            seconds: Any = read_json(self.path, RESULT, WHAT).get("seconds")
        except FileNotFoundError:
            return
        if not is_number(seconds) or not 0 <= seconds <= LONGEST:
            raise Unreadable(self.path, f"it is not {WHAT}: seconds = {seconds!r}")
        self.before = self.kept = float(seconds)

    @property
    def used(self) -> float:
        """Seconds so far."""
        return self.before + time.monotonic() - self.started

    def tick(self) -> None:
        """Note the time now and then, for the case that this process is killed."""
        if self.used - self.kept >= KEEP_EVERY:
            self.keep()

    def keep(self) -> None:
        """Note the time."""
        self.kept = self.used
        write_json(self.path, {"seconds": round(self.kept, 1)})


@dataclass
class Budget:
    """Decides whether another trial may begin, and when the search ends."""

    tuning: Tuning
    trials: int | None
    hours: float | None
    workers: int
    clock: Clock
    planned: float = 0.0  # seconds per update as measured beforehand
    runs: int = 0  # that are finished
    aside: float = 0.0  # their seconds beside training
    training: float = 0.0  # their seconds of training
    updates: int = 0

    @property
    def left(self) -> float:
        """Seconds left."""
        return math.inf if self.hours is None else 3600 * self.hours - self.clock.used

    def note(self, run: RunDirectory) -> None:
        """Take in what a finished run took."""
        result = finished(run)
        if result is None:
            return
        training = training_seconds(run.record("speed"))
        self.runs += 1
        self.training += training
        self.aside += max(0.0, float(result["wall_seconds"]) - training) + STARTUP
        self.updates += int(result["updates"])

    def run_seconds(self, settings: Settings) -> float:
        """Return the seconds that a run is expected to take, with a margin."""
        pace = self.training / self.updates if self.updates else self.planned
        aside = self.aside / self.runs if self.runs else ASIDE
        return MARGIN * (aside + pace * self.tuning.configuration(settings).updates)

    def comparison_seconds(self, best: Settings) -> float:
        """Return the seconds that the final comparison takes if these settings are the best."""
        rounds = math.ceil(2 * self.tuning.fresh_seeds / self.workers)
        return rounds * (self.run_seconds({}) + self.run_seconds(best)) / 2

    def may_begin(self, begun: int, best: Settings) -> bool:
        """Whether another trial may begin: even the dearest must be able to finish, and a comparison after it."""
        if self.trials is not None and begun >= self.trials:
            return False
        if self.hours is None:
            return True
        trial = self.tuning.seeds * self.run_seconds(self._dearest())
        return trial + self.comparison_seconds(best) <= self.left

    def search_over(self, best: Settings) -> bool:
        """Whether trials at work must end now, so that the comparison can still take place."""
        return self.hours is not None and self.left < self.comparison_seconds(best)

    def _dearest(self) -> Settings:
        """The settings of the longest trial that may come."""
        ratios = [axis for axis in self.tuning.space if axis.name == RATIO]
        return {RATIO: max(map(int, ratios[0].ends))} if ratios else {}


def training_seconds(speeds: Path) -> float:
    """Return the seconds that a run has trained, by its record of speeds; stretches too short to tell are left out."""
    seconds, before = 0.0, 0
    for line in read_lines(speeds):
        step: Any = line.get("step")
        speed: Any = line.get("steps_per_second")
        if speed in (None, 0):
            continue
        if not is_count(step) or not is_number(speed) or speed <= 0:
            raise Unreadable(speeds, f"it holds no speeds: step = {step!r}, steps_per_second = {speed!r}")
        seconds += (step - before) / speed
        before = step
    return seconds


def measured_pace(tuning: Tuning) -> float:
    """Return the seconds that an update, with the acting for it, takes on this machine now: a median of several."""
    try:
        device = resolve_device(tuning.device)
    except UsageError:  # only other nodes have it
        device = resolve_device("auto")
    spec = replace(tuning.search([tuning.variant(0, {})]), device=device)
    costs = [Estimator(spec, anew=True).cost(spec.cells()[0]) for _ in range(LOOKS)]
    return statistics.median(cost.seconds for cost in costs) / max(1, costs[0].updates)


def planned_steps(tuning: Tuning, trials: int | None, hours: float, workers: int, pace: float) -> int:
    """Return the steps of a run with which all trials and the comparison fit into the hours, at most the size's.

    Pruning is not counted on; a tenth of the time is left for what is not foreseen. Where the hours are few there are
    at least LEAST_STEPS, and fewer trials.
    """
    runs = (USUAL_TRIALS if trials is None else trials) * tuning.seeds + 2 * tuning.fresh_seeds
    each = 0.9 * 3600 * hours * workers / runs - ASIDE
    full, config = SIZES[tuning.size].steps, tuning.configuration({})
    own = config.settings.schedule.replay_ratio
    ratios = next((list(map(int, axis.ends)) for axis in tuning.space if axis.name == RATIO), [own])
    per_step = MARGIN * statistics.fmean(ratios) / own * pace * config.updates / full
    return min(full, max(LEAST_STEPS, int(each / per_step / 100) * 100))


def check_hours(budget: Budget) -> None:
    """Raise UsageError where not even the default and a comparison would fit into the hours."""
    need = budget.tuning.seeds * budget.run_seconds({}) + budget.comparison_seconds({})
    if need > budget.left:
        raise UsageError(
            f"hours = {budget.hours:g}: the default ({budget.tuning.seeds} runs) and the comparison "
            f"({2 * budget.tuning.fresh_seeds} runs), {budget.workers} at a time, take about {need / 3600:.2g} hours; "
            "must be more, or give fewer --steps, --seeds or --fresh-seeds"
        )
