"""What a run says before it begins: five lines; the rest of its settings stand in its configuration."""

from __future__ import annotations

from sacbbf.agents.presets import BASELINES
from sacbbf.run.certainty import counted
from sacbbf.run.records import RunDirectory
from sacbbf.run.settings import RunConfig


def heading(config: RunConfig) -> str:
    """Return what a run is, in a line."""
    return f"{config.agent} on {config.env}, {config.size} size, {config.steps:,} steps, seed {config.seed}"


def announcement(config: RunConfig, run: RunDirectory) -> list[str]:
    """Return what a new run will do, in five lines at most."""
    lines = [_evaluation(config), f"all settings: {run.config}"]
    if config.agent in BASELINES:
        return [heading(config), *lines]
    return [heading(config), _learning(config), _computing(config), *lines]


def _learning(config: RunConfig) -> str:
    schedule = config.settings.schedule
    plural = "s" * (schedule.replay_ratio != 1)
    return (
        f"learning: {config.updates:,} updates, {schedule.replay_ratio} update{plural} a step after "
        f"{schedule.warmup:,} steps of warm-up"
    )


def _computing(config: RunConfig) -> str:
    network, every = config.settings.network, config.checkpoint.every
    threads = f", {config.threads} thread{'s' * (config.threads != 1)}" if config.threads else ""
    saved = f"a checkpoint every {every:,} steps" if every else "a checkpoint when it is stopped"
    return f"networks: {network.encoder}, {network.hidden_dim} units, on {config.device}{threads}; {saved}"


def _evaluation(config: RunConfig) -> str:
    chosen = config.eval
    during = f"{counted(chosen.every_episodes)} every {chosen.every:,} steps, " if chosen.every else ""
    beside = "; random and blind play beside it" if chosen.baselines else ""
    return f"score: {during}{counted(chosen.episodes)} at the end{beside}"
