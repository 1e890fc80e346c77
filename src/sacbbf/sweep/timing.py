"""How long an update and a forward pass of a run take here: measured, within bounds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch

from sacbbf.bench.clock import seconds
from sacbbf.bench.speed import Subject, Workload
from sacbbf.envs.base import EnvSpec
from sacbbf.replay.state import row_bytes
from sacbbf.run.settings import RunConfig
from sacbbf.sweep.speeds import Speed, load

REPEATS = 5  # updates that are timed, after one that is not
PASSES = 20  # forward passes that are timed
LIMIT = 5.0  # seconds after which no further update begins


def time_update(config: RunConfig, spec: EnvSpec) -> Speed:
    """Time updates and forward passes of a run's learner, as if it were not compiled, which takes minutes itself."""
    work = Workload(
        config.env, config.env, spec.frame_shape, spec.frame_dtype.name, config.stack, spec.num_actions, spec.kind
    )
    device = torch.device(config.device)
    before, busy = torch.get_num_threads(), load()
    if config.threads:
        torch.set_num_threads(config.threads)
    try:
        once = replace(
            config.settings,
            schedule=replace(config.settings.schedule, replay_ratio=1),
            compute=replace(config.settings.compute, compile=False),
        )
        subject = Subject(once, work, device, steps=500)
        update = bounded(partial(seconds, subject.update, device))
        subject.act()
        act = seconds(partial(subject.act, PASSES), device) / PASSES
    finally:
        torch.set_num_threads(before)
    parameters = sum(parameter.numel() for parameter in subject.learner.online.parameters())
    return Speed(update, act, parameters, row_bytes(subject.replay), time.time(), busy)


def bounded(timed: Callable[[], float], repeats: int = REPEATS, limit: float = LIMIT) -> float:
    """Return the median of some timings after a first one; where that has used the time up, it must do."""
    first = timed()
    found: list[float] = []
    while len(found) < repeats and first + sum(found) < limit:
        found.append(timed())
    return statistics.median(found or [first])
