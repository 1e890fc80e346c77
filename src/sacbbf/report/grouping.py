"""Which runs are the same agent: its name, its size, and the settings in which it differs from the preset.

Runs with different settings are never pooled. Settings that no score depends on (seed, hardware, what is recorded
and kept) do not tell agents apart.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from sacbbf.agents.presets import BASELINES, SIZES, AgentName, Kind, SizeName, preset
from sacbbf.envs import games
from sacbbf.envs.make import EnvSettings
from sacbbf.envs.trust import modules_of
from sacbbf.errors import UsageError
from sacbbf.run.settings import RunConfig, differences, resolve

HARDWARE = ("device", "threads", "settings.compute.compile", "settings.compute.frames")
RECORDING = (
    "log_every", "diagnose_every", "checkpoint.", "eval.every", "eval.parallel", "eval.baselines",
    "environment.imports",
)  # fmt: skip
WORDS = ("env", "agent", "size", "steps", "seed", "device")  # that a command gives before any other setting
ANY_GAME = "Pong"
FRAMES = 4  # in a state, of pictures
NAMED = 3  # changes spelled out in a name


@cache
def _preset(env: str, agent: AgentName, size: SizeName, steps: int, environment: EnvSettings) -> RunConfig | None:
    """Return the run that these words describe, on a CPU; None if the environment is not to be made here, or cannot.

    The environment is made as its settings say, which may change what is seen, and they themselves are left untouched.
    """
    game = games.find_game(env)
    if game is not None and game != ANY_GAME:  # all Atari games have the same preset: one emulator will do
        found = _preset(ANY_GAME, agent, size, steps, EnvSettings())
        return None if found is None else replace(found, env=game)
    if environment.kwargs or any(modules_of(env, environment)):
        return None  # a report runs no code that a run names
    try:
        found, _ = resolve(env, agent=agent, size=size, steps=steps, device="cpu", environment=environment)
        return replace(found, environment=EnvSettings())
    except (UsageError, ImportError):
        return None


def preset_of(config: RunConfig) -> RunConfig:
    """Return a run's preset: the same words, every other setting untouched."""
    found = _preset(config.env, config.agent, config.size, config.steps, config.environment)
    if found is None:  # what the environment would say is taken from the run itself
        kinds: dict[str, Kind] = {"mlp": "vector", "grid": "grid"}
        kind = kinds.get(config.settings.network.encoder, "image")
        settings = preset(config.size, kind, config.steps, None, config.agent)
        stack = FRAMES if kind == "image" else 1
        found = replace(config, settings=settings, environment=EnvSettings(), stack=stack, clip_rewards=False)
    return replace(found, seed=config.seed, device=config.device)


def changes(config: RunConfig) -> dict[str, Any]:
    """Return the settings that set a run's agent apart from its preset, by the names that flags have."""
    found = differences(preset_of(config), config)
    kept = {name: value for name, (_, value) in found.items() if not name.startswith((*HARDWARE, *RECORDING))}
    if config.agent in BASELINES:  # nothing is learned: only what is played matters
        return {name: value for name, value in kept.items() if name.startswith(("environment.", "eval."))}
    if config.steps != SIZES[config.size].steps:
        kept = {"steps": config.steps, **kept}
    return {name.removeprefix("settings."): value for name, value in kept.items()}


def shared_changes(configs: Sequence[RunConfig]) -> dict[str, Any]:
    """Return the changes that the learners of several agents have in common; nothing where there is but one agent.

    They tell no agent from another, so names leave them out.
    """
    found = [changes(config) for config in configs if config.agent not in BASELINES]
    several = {(_title(config), repr(changes(config))) for config in configs if config.agent not in BASELINES}
    if len(several) < 2:
        return {}
    first, *others = found
    return {name: value for name, value in first.items() if all((name, value) in one.items() for one in others)}


def shared_words(configs: Sequence[RunConfig]) -> str:
    """Return in words what `shared_changes` names; empty if there is nothing."""
    shared = ", ".join(f"{name}={_shown(value)}" for name, value in shared_changes(configs).items())
    return f"Settings that all agents with run directories share, and names leave out: {shared}." if shared else ""


def group_names(configs: Sequence[RunConfig]) -> list[str]:
    """Return the name of each run's agent; the paper's size goes without saying, and few changes are spelled out."""
    shared = shared_changes(configs)
    found = [
        (_title(config), {name: value for name, value in changes(config).items() if name not in shared})
        for config in configs
    ]
    short = [_name(title, changed, NAMED) for title, changed in found]
    meanings: dict[str, set[str]] = {}
    for name, (title, changed) in zip(short, found, strict=True):
        meanings.setdefault(name, set()).add(_name(title, changed, len(changed)))
    return [
        name if len(meanings[name]) == 1 else _name(title, changed, len(changed))
        for name, (title, changed) in zip(short, found, strict=True)
    ]


def full_name(config: RunConfig, silent: Collection[str] = ()) -> str:
    """Return the name of a run's agent with every change spelled out but the silent ones."""
    changed = {name: value for name, value in changes(config).items() if name not in silent}
    return _name(_title(config), changed, len(changed))


def _title(config: RunConfig) -> str:
    return config.agent if config.size == "paper" or config.agent in BASELINES else f"{config.agent} {config.size}"


def _name(title: str, changed: dict[str, Any], most: int) -> str:
    if not changed:
        return title
    words = [f"{name}={_shown(value)}" for name, value in list(changed.items())[:most]]
    if len(changed) > most:
        words.append(f"{len(changed) - most} more")
    return f"{title} ({', '.join(words)})"


def _shown(value: Any) -> Any:
    return " ".join(value) if isinstance(value, tuple) else value


def command(config: RunConfig) -> str:
    """Return the command that trains this run again."""
    words = ["sacbbf", "train", config.env]
    for name in WORDS[1:]:
        words += [f"--{name}", str(getattr(config, name))]
    for name, (_, value) in differences(preset_of(config), config).items():
        words += _flag(name.removeprefix("settings."), value)
    return shlex.join(words)


def _flag(name: str, value: Any) -> list[str]:
    part, dot, last = name.replace("_", "-").rpartition(".")
    if isinstance(value, bool):
        return [f"--{part}{dot}{'' if value else 'no-'}{last}"]
    flag = f"--{part}{dot}{last}"
    if isinstance(value, tuple):
        return [word for one in value for word in (flag, one)]
    return [flag, str(value)]
