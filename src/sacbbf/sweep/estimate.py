"""What a sweep will cost: updates of each cell, hours and disk, from this machine's speed, measured once and kept."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sacbbf.agents.presets import BASELINES
from sacbbf.errors import UsageError
from sacbbf.run.devices import resolve_device
from sacbbf.run.display import Display
from sacbbf.run.settings import RunConfig
from sacbbf.sweep.spec import Cell, Spec, configuration, environment_spec
from sacbbf.sweep.speeds import Speed, SpeedStore, kind_of
from sacbbf.sweep.table import about, duration
from sacbbf.sweep.twins import is_second

COPIES = 4  # of the parameters in a checkpoint: online, target, and two moments
CHECKPOINTS = 2  # kept by a run
RECORDS = 100  # bytes of records for each step, about


@dataclass(frozen=True)
class Cost:
    """What one cell costs on this machine."""

    updates: int
    seconds: float  # of updates and acting; evaluation comes on top
    state_bytes: int  # while it runs, replay uncompressed
    kept_bytes: int  # once it is finished


class Estimator:
    """Costs of a sweep's cells; each kind of update is timed once, and never again on the same machine."""

    def __init__(self, spec: Spec, store: SpeedStore | None = None, anew: bool = False) -> None:
        self.spec = timed_here(spec)
        self.store = SpeedStore() if store is None else store
        self.speeds: dict[str, Speed] = {} if anew else self.store.read()
        self.used: dict[str, Speed] = {}

    def prepare(self, cells: Sequence[Cell], display: Display) -> None:
        """Time what is not known yet, and keep it."""
        configs = [configuration(self.spec, cell) for cell in cells if self._trains(cell)]
        lacking = {kind: config for config in configs if (kind := kind_of(config)) not in self.speeds}
        if not lacking:
            return
        display.begin("timing updates", len(lacking))
        for kind, config in lacking.items():
            self.speeds[kind] = self._timed(config)
            display.advance(config.agent)
        self.store.add({kind: self.speeds[kind] for kind in lacking})

    def cost(self, cell: Cell) -> Cost:
        """Return what a cell costs."""
        if not self._trains(cell):
            return Cost(0, 0.0, 0, 0)
        config = configuration(self.spec, cell)
        kind = kind_of(config)
        if kind not in self.speeds:
            self.speeds[kind] = self._timed(config)
        speed = self.used[kind] = self.speeds[kind]
        return Cost(
            updates=config.updates,
            seconds=config.updates * speed.update + config.steps * speed.act,
            state_bytes=CHECKPOINTS * COPIES * 4 * speed.parameters + speed.row * config.steps,
            kept_bytes=4 * speed.parameters + RECORDS * config.steps,
        )

    def words(self) -> str:
        """Return how old the measurements are that costs follow from, and how busy the machine was."""
        if not self.used:
            return "nothing is trained"
        oldest = min(speed.at for speed in self.used.values())
        load = max(speed.load for speed in self.used.values())
        seconds = max(0.0, time.time() - oldest)
        age = "just now" if seconds < 60 else f"{duration(seconds)} ago"
        return f"speed measured {age} at a load of {load:.1f} on {os.cpu_count()} cores; --measure times it anew"

    def _trains(self, cell: Cell) -> bool:
        return cell.variant.agent not in BASELINES and not is_second(self.spec, cell)

    def _timed(self, config: RunConfig) -> Speed:
        from sacbbf.sweep.timing import time_update  # with PyTorch, which a stored measurement can do without

        return time_update(config, environment_spec(config.env, config.environment))


def timed_here(spec: Spec) -> Spec:
    """Return a sweep as it is timed on this machine, which may lack the device that its cells have elsewhere."""
    try:
        return replace(spec, device=resolve_device(spec.device))
    except UsageError:
        return replace(spec, device=resolve_device("auto"))


def estimate_lines(spec: Spec, workers: int | None, display: Display, anew: bool = False) -> list[str]:
    """Return every cell with its updates and time, and what all of them cost; `workers` at a time, None: not known."""
    estimator = Estimator(spec, anew=anew)
    cells = spec.cells()
    kinds = {cell.name.rpartition("/")[0]: cell for cell in cells}  # seeds are alike
    estimator.prepare(list(kinds.values()), display)
    by_kind = {name: estimator.cost(cell) for name, cell in kinds.items()}
    costs = [by_kind[cell.name.rpartition("/")[0]] for cell in cells]
    lines = [
        f"{cell.name}: {spec.steps_of(cell):,} steps, {cost.updates:,} updates, {duration(cost.seconds)}"
        for cell, cost in zip(cells, costs, strict=True)
    ]
    return [*lines, *total_lines(estimator.spec, costs, workers), estimator.words()]


def total_lines(timed: Spec, costs: Sequence[Cost], workers: int | None) -> list[str]:
    """Return in words what all cells cost together; `workers` at a time, None: as many as a cluster has room for."""
    work = sum(cost.seconds for cost in costs)
    kept, state = sum(cost.kept_bytes for cost in costs), max(cost.state_bytes for cost in costs)
    parts = {"environment": timed.envs, "agent": timed.variants, "seed": timed.seeds}
    shape = " x ".join(f"{len(found)} {name}{'s' * (len(found) != 1)}" for name, found in parts.items())
    shared, running = "", "for each that runs"
    if workers is not None:
        workers = min(workers, len(costs))
        state *= workers
        shared, running = f", {duration(work / workers)} with {workers}", f"while {workers} run"
    threads = f"{timed.threads} thread{'s' * (timed.threads != 1)}" if timed.threads else "the size's threads"
    return [
        f"{shape} = {len(costs)} cells: {', '.join(timed.envs)}",
        f"{sum(cost.updates for cost in costs):,} updates, {about(work)} of one worker on this machine "
        f"({timed.device}, {threads}){shared}; evaluation comes on top",
        f"disk: about {amount(kept)} when finished, and up to {amount(state)} more {running}",
    ]


def amount(size: int) -> str:
    """Return a number of bytes in words."""
    return f"{size / 1e9:,.2f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"
