"""What a sweep will cost: updates of each cell, hours and disk, from the speed of this machine, measured now."""

from __future__ import annotations

import statistics
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import partial

import torch

from sacbbf.agents.presets import BASELINES
from sacbbf.bench.clock import seconds
from sacbbf.bench.speed import Subject, Workload
from sacbbf.replay.state import row_bytes
from sacbbf.run.settings import RunConfig
from sacbbf.sweep.spec import Cell, Spec, configuration, environment_spec, updates_of
from sacbbf.sweep.twins import is_second

REPEATS = 3  # updates that are timed, after one that is not
PASSES = 20  # forward passes that are timed
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


@dataclass(frozen=True)
class _Speed:
    update: float  # seconds
    act: float  # seconds
    parameters: int
    row: int  # bytes of one step in the replay


class Estimator:
    """Costs of a sweep's cells; each kind of update is timed once."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self._speeds: dict[Hashable, _Speed] = {}

    def cost(self, cell: Cell) -> Cost:
        """Return what a cell costs."""
        config = configuration(self.spec, cell)
        if config.agent in BASELINES or is_second(self.spec, cell):
            return Cost(0, 0.0, 0, 0)
        updates = updates_of(config)
        speed = self._speed(config)
        state = CHECKPOINTS * COPIES * 4 * speed.parameters + speed.row * config.steps
        return Cost(
            updates=updates,
            seconds=updates * speed.update + config.steps * speed.act,
            state_bytes=state,
            kept_bytes=4 * speed.parameters + RECORDS * config.steps,
        )

    def _speed(self, config: RunConfig) -> _Speed:
        # Of settings, those of networks and losses decide what an update costs; the number of actions hardly matters.
        load = workload(config)
        key = (config.agent, config.settings.network, config.settings.loss.spr_weight > 0, load.frame_shape)
        if key not in self._speeds:
            self._speeds[key] = time_update(config, load)
        return self._speeds[key]


def workload(config: RunConfig) -> Workload:
    """Return what a run feeds its learner."""
    spec = environment_spec(config.env, config.environment)
    return Workload(
        config.env, config.env, spec.frame_shape, spec.frame_dtype.name, config.stack, spec.num_actions, spec.kind
    )


def time_update(config: RunConfig, load: Workload) -> _Speed:
    """Time updates and forward passes of a run's learner."""
    device = torch.device(config.device)
    before = torch.get_num_threads()
    if config.threads:
        torch.set_num_threads(config.threads)
    try:
        once = replace(config.settings, schedule=replace(config.settings.schedule, replay_ratio=1))
        subject = Subject(once, load, device, steps=500)
        subject.update()
        subject.act()
        update = statistics.median(seconds(subject.update, device) for _ in range(REPEATS))
        act = seconds(partial(subject.act, PASSES), device) / PASSES
    finally:
        torch.set_num_threads(before)
    parameters = sum(parameter.numel() for parameter in subject.learner.online.parameters())
    return _Speed(update, act, parameters, row_bytes(subject.replay))
