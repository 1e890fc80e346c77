"""Another number of steps for a run: what follows it, what stays, and how learning goes on after the end."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from sacbbf.agents.config import AgentConfig, flatten
from sacbbf.agents.presets import BASELINES, Kind, preset
from sacbbf.errors import UsageError
from sacbbf.run.settings import Horizon, RunConfig


def extended(config: RunConfig, steps: int) -> RunConfig:
    """Return a run of `steps` in all, more than it had; its schedules end where they would have, and stay there."""
    if config.agent in BASELINES:
        raise UsageError(f"steps = {steps}: the baseline {config.agent} does not learn, so there is nothing to extend")
    if steps <= config.steps:
        raise UsageError(f"steps = {steps}: must be above the {config.steps:,} that this run has already")
    return replace(config, steps=steps, horizon=Horizon(config.horizon.start, config.schedule_steps))


def new_cycle(config: RunConfig, done: int, steps: int, kind: Kind) -> RunConfig:
    """Return a run that goes on for `steps` after the `done` it has had, with its schedules made anew for these."""
    anew, _ = rescaled(config, kind, steps)
    schedule = replace(anew.settings.schedule, warmup=config.settings.schedule.warmup)  # the replay is filled
    settings = replace(anew.settings, schedule=schedule)
    return replace(anew, steps=done + steps, horizon=Horizon(done, steps), settings=settings)


def fine_tuning(config: RunConfig, steps: int, kind: Kind) -> RunConfig:
    """Return a run of `steps` from the weights of one with this configuration: its settings, but without resets.

    A reset would draw most of those weights afresh.
    """
    anew, _ = rescaled(config, kind, steps)
    return replace(anew, settings=without_resets(anew.settings))


def like_its_start(config: RunConfig, start: RunConfig) -> RunConfig:
    """Return a run as it can start from another's weights: the same networks and states, and no resets of them."""
    settings = without_resets(replace(config.settings, network=start.settings.network))
    return replace(config, stack=start.stack, settings=settings)


def without_resets(settings: AgentConfig) -> AgentConfig:
    """Return an agent's settings without resets."""
    return replace(settings, schedule=replace(settings.schedule, reset_every=0))


def rescaled(config: RunConfig, kind: Kind, steps: int) -> tuple[RunConfig, tuple[str, ...]]:
    """Return a run made for another number of steps, and the names of settings that would follow it but do not.

    A setting that is its preset's follows the number of steps as the preset does; one that was chosen stays.
    """
    old, new = (preset(config.size, kind, number, None, config.agent) for number in (config.schedule_steps, steps))
    settings, own = _follow(config.settings, old, new), flatten(config.settings)
    before, after = flatten(old), flatten(new)
    kept = tuple(name for name in own if before[name] != after[name] and own[name] != before[name])
    return replace(config, steps=steps, horizon=Horizon(), settings=settings), kept


def _follow(config: Any, old: Any, new: Any) -> Any:
    """Return a configuration in which each value that is the old preset's has become the new one's."""
    values = {}
    for entry in fields(config):
        value, before, after = (getattr(table, entry.name) for table in (config, old, new))
        values[entry.name] = (
            _follow(value, before, after) if is_dataclass(value) else after if value == before else value
        )
    return replace(config, **values)
