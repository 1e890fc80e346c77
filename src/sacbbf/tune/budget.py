"""What a tuning may take: trials, hours, and what a run costs by those that are finished.

Hours are of work, over all sessions of a tuning: a stop between them does not count.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

from sacbbf.agents.presets import SIZES
from sacbbf.errors import UsageError
from sacbbf.run.records import write_json
from sacbbf.run.settings import Settings
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.estimate import Estimator
from sacbbf.sweep.spec import Spec, configuration, updates_of
from sacbbf.tune.tuning import Tuning

MARGIN = 1.25  # on what is expected of a run's time
KEEP_EVERY = 10.0  # seconds between notes of the time
USUAL_TRIALS = 12  # that steps are planned for where no number is given
STARTUP = 6.0  # seconds that a process takes before it trains
LEAST_STEPS = 1_000  # that are planned; fewer tell little
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
            self.before = self.kept = float(json.loads(self.path.read_bytes())["seconds"])
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{self.path} cannot be read: {error}") from error

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
    planned: float | None = None  # seconds per update as measured beforehand
    seconds: float = 0.0  # of finished runs
    updates: int = 0

    @property
    def left(self) -> float:
        """Seconds left."""
        return math.inf if self.hours is None else 3600 * self.hours - self.clock.used

    @property
    def pace(self) -> float | None:
        """Seconds per update of a whole run, start and evaluation included; None if that is not known yet."""
        return self.seconds / self.updates if self.updates else self.planned

    def note(self, result: dict[str, object]) -> None:
        """Take in the result of a finished run."""
        self.seconds += float(str(result["wall_seconds"])) + STARTUP
        self.updates += int(str(result["updates"]))

    def comparison(self, best: Settings | None) -> float:
        """Return the seconds that the final comparison takes if these settings are the best: the default costs too."""
        updates = self.run_updates({}) + self.run_updates(self._dearest() if best is None else best)
        rounds = math.ceil(2 * self.tuning.fresh_seeds / self.workers)
        return MARGIN * (self.pace or 0.0) * rounds * updates / 2

    def may_begin(self, begun: int) -> bool:
        """Whether another trial may begin: it must be able to finish, and the comparison after it."""
        if self.trials is not None and begun >= self.trials:
            return False
        trial = MARGIN * (self.pace or 0.0) * self.tuning.seeds * self.run_updates(self._dearest())
        return trial + self.comparison(None) <= self.left

    def search_over(self, best: Settings) -> bool:
        """Whether trials at work must end now, so that the comparison can still take place."""
        return self.left < self.comparison(best)

    def run_updates(self, settings: Settings) -> int:
        """Return the updates of a run."""
        spec = self.tuning.search([self.tuning.variant(0, settings)])
        return updates_of(configuration(spec, spec.cells()[0]))

    def _dearest(self) -> Settings:
        """The settings of the longest trial that may come."""
        ratios = [axis for axis in self.tuning.space if axis.name == RATIO]
        return {RATIO: max(map(int, ratios[0].ends))} if ratios else {}


def finished_runs(directory: SweepDirectory, spec: Spec) -> list[dict[str, object]]:
    """Return the results of a sweep's finished runs."""
    results = [directory.run(cell).read_result() for cell in spec.cells()]
    return [result for result in results if result is not None and result.get("finished")]


def measured_pace(tuning: Tuning) -> float:
    """Return the seconds that an update, and the acting for it, take on this machine now."""
    spec = tuning.search([tuning.variant(0, {})])
    cost = Estimator(spec).cost(spec.cells()[0])
    return cost.seconds / max(1, cost.updates)


def planned_steps(tuning: Tuning, trials: int | None, hours: float, workers: int) -> int:
    """Return the steps of a run with which all trials and the comparison fit into the hours, at most the size's.

    Pruning is not counted on; a tenth of the time is left for what is not foreseen.
    """
    count = USUAL_TRIALS if trials is None else trials
    runs = count * tuning.seeds + 2 * tuning.fresh_seeds
    each = 0.9 * 3600 * hours * workers / runs - STARTUP
    full, config = SIZES[tuning.size].steps, tuning.configuration({})
    own = config.settings.schedule.replay_ratio
    ratios = next((list(map(int, axis.ends)) for axis in tuning.space if axis.name == RATIO), [own])
    dearer = statistics.fmean(ratios) / own
    per_step = MARGIN * dearer * measured_pace(tuning) * updates_of(config) / full
    steps = int(each / per_step / 100) * 100
    if steps < LEAST_STEPS:
        raise UsageError(
            f"hours = {hours:g}: {count} trials of {tuning.seeds} seeds and the comparison of 2 x {tuning.fresh_seeds} "
            f"runs, {workers} at a time, leave less than {LEAST_STEPS:,} steps for each; must be more hours, fewer "
            "trials or seeds, or a number of --steps"
        )
    return min(full, steps)
