"""What the settings may be: ranges, and combinations that make sense. Every message names setting, value and range."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, get_args, get_type_hints

from sacbbf.config import AgentConfig
from sacbbf.errors import UsageError

# Setting -> smallest and largest allowed value. Settings not listed here have a fixed set of values.
RANGES: dict[str, tuple[float, float]] = {
    "network.width_scale": (0.01, 64),
    "network.hidden_dim": (1, 65_536),
    "network.num_atoms": (1, 1_001),
    "network.v_max": (1e-3, 1e9),
    "loss.spr_weight": (0, 1e6),
    "loss.spr_steps": (0, 50),
    "optimiser.learning_rate": (0, 1),
    "optimiser.adam_beta1": (0, 0.999_999_9),
    "optimiser.adam_beta2": (0, 0.999_999_9),
    "optimiser.adam_eps": (1e-16, 1),
    "optimiser.weight_decay": (0, 1e3),
    "optimiser.tau": (0, 1),
    "schedule.replay_ratio": (1, 1_024),
    "schedule.warmup": (0, math.inf),
    "schedule.n_start": (1, 100),
    "schedule.n_end": (1, 100),
    "schedule.gamma_start": (1e-6, 0.999_999),
    "schedule.gamma_end": (1e-6, 0.999_999),
    "schedule.cycle": (0, math.inf),
    "schedule.beta_start": (0, 1e6),
    "schedule.beta_end": (0, 1e6),
    "schedule.beta_final_updates": (0, math.inf),
    "schedule.reset_every": (0, math.inf),
    "schedule.shrink": (0, 1),
    "replay.capacity": (64, 1e9),
    "replay.batch_size": (1, 65_536),
}


def check_agent(config: AgentConfig) -> None:
    """Raise UsageError for a setting out of its range or a combination that makes no sense."""
    for part in ("network", "loss", "optimiser", "schedule", "replay", "compute"):
        section = getattr(config, part)
        hints = get_type_hints(type(section))
        for field in fields(section):
            check_value(f"{part}.{field.name}", getattr(section, field.name), hints[field.name])
    check_value("behaviour", config.behaviour, get_type_hints(AgentConfig)["behaviour"])
    if not config.network.policy and config.loss.backup != "greedy":
        raise UsageError(
            f"loss.backup = {config.loss.backup!r} needs a policy, but network.policy = False: must be 'greedy'"
        )
    if config.loss.spr_weight > 0 and config.loss.spr_steps == 0:
        raise UsageError("loss.spr_steps = 0 with loss.spr_weight > 0: must be at least 1, or set loss.spr_weight to 0")


def check_value(name: str, value: Any, hint: Any) -> None:
    """Raise UsageError if a setting's value is not of its type, its choices, or its range."""
    choices = get_args(hint)
    if choices:
        if value not in choices:
            raise UsageError(f"{name} = {value!r}: must be one of {', '.join(map(str, choices))}")
        return
    if hint is bool:
        if not isinstance(value, bool):
            raise UsageError(f"{name} = {value!r}: must be true or false")
        return
    kinds = (int,) if hint is int else (int, float)
    low, high = RANGES[name]
    if not isinstance(value, kinds) or isinstance(value, bool) or not low <= value <= high:
        kind = "a whole number" if hint is int else "a number"
        bounds = f"at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
        raise UsageError(f"{name} = {value!r}: must be {kind} {bounds}")
