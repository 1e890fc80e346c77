"""What the settings may be: ranges, and combinations that make sense. Every message names setting, value and range."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, get_args, get_type_hints

from sacbbf.agents.config import AgentConfig
from sacbbf.errors import UsageError

# Setting -> smallest and largest allowed value. Settings not listed here have a fixed set of values.
RANGES: dict[str, tuple[float, float]] = {
    "network.width_scale": (0.01, 64),
    "network.hidden_dim": (1, 65_536),
    "network.num_atoms": (1, 1_001),
    "network.v_max": (1e-3, 1e9),
    "loss.spr_weight": (0, 1e6),
    "loss.spr_steps": (0, 50),
    "loss.target_entropy": (0, 1),
    "loss.auxiliary_weight": (0, 1e6),
    "optimiser.learning_rate": (0, 1),
    "optimiser.adam_beta1": (0, 0.999_999_9),
    "optimiser.adam_beta2": (0, 0.999_999_9),
    "optimiser.adam_eps": (1e-16, 1),
    "optimiser.weight_decay": (0, 1e3),
    "optimiser.tau": (0, 1),
    "optimiser.target_every": (1, math.inf),
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
    "schedule.entropy_start": (0, 1),
    "schedule.entropy_end": (0, 1),
    "schedule.entropy_rate": (0, 1),
    "schedule.reset_every": (0, math.inf),
    "schedule.shrink": (0, 1),
    "acting.epsilon_start": (0, 1),
    "acting.epsilon_end": (0, 1),
    "acting.epsilon_decay": (0, math.inf),
    "acting.epsilon_eval": (0, 1),
    "replay.capacity": (64, 1e9),
    "replay.batch_size": (1, 65_536),
}


def check_agent(config: AgentConfig) -> None:
    """Raise UsageError for a setting out of its range or a combination that makes no sense."""
    for part in ("network", "loss", "optimiser", "schedule", "acting", "replay", "compute"):
        section = getattr(config, part)
        hints = get_type_hints(type(section))
        for field in fields(section):
            check_value(f"{part}.{field.name}", getattr(section, field.name), hints[field.name])
    check_value("behaviour", config.behaviour, get_type_hints(AgentConfig)["behaviour"])
    for problem, reason in _contradictions(config):
        if problem:
            raise UsageError(reason)


def _contradictions(config: AgentConfig) -> list[tuple[bool, str]]:
    """Combinations that make no sense: whether the configuration has them, and what to say of it."""
    network, loss, schedule = config.network, config.loss, config.schedule
    without = "but network.policy = False: this agent has no policy"
    noisy_policy = "network.noisy = True explores for agents without a policy: set it, or network.policy, to False"
    return [
        (
            not network.policy and loss.backup != "greedy",
            f"loss.backup = {loss.backup!r} needs a policy, {without}; must be 'greedy'",
        ),
        (
            not network.policy and loss.policy_gradient != "sampled",
            f"loss.policy_gradient = {loss.policy_gradient!r} trains a policy, {without}; leave it at 'sampled'",
        ),
        (
            not network.policy and not loss.variance_reduction,
            f"loss.variance_reduction = False concerns the policy's gradient, {without}; leave it at True",
        ),
        (
            not network.policy and (schedule.beta_start > 0 or schedule.beta_end > 0),
            f"schedule.beta_start = {schedule.beta_start:g} and beta_end = {schedule.beta_end:g} weigh a policy's "
            f"entropy, {without}; must be 0",
        ),
        (
            network.num_atoms == 1 and loss.backup == "expected" and not network.twin_q,
            "loss.backup = 'expected' averages return distributions, but network.num_atoms = 1 makes Q a scalar: "
            "must be 'sampled' or 'greedy', or take more atoms",
        ),
        (
            loss.spr_weight > 0 and loss.spr_steps == 0,
            "loss.spr_steps = 0 with loss.spr_weight > 0: must be at least 1, or set loss.spr_weight to 0",
        ),
        (network.noisy and network.policy, noisy_policy),
        (
            not network.policy and schedule.temperature != "annealed",
            f"schedule.temperature = {schedule.temperature!r} weighs a policy's entropy, {without}; must be 'annealed'",
        ),
        *_twin_contradictions(config),
    ]


def _twin_contradictions(config: AgentConfig) -> list[tuple[bool, str]]:
    network, loss, schedule = config.network, config.loss, config.schedule
    wanted = {
        "network.policy": (network.policy, True),
        "network.num_atoms": (network.num_atoms, 1),
        "network.dueling": (network.dueling, False),
        "network.renormalize": (network.renormalize, False),
        "loss.spr_weight": (loss.spr_weight, 0.0),
        "loss.backup": (loss.backup, "expected"),
        "loss.policy_gradient": (loss.policy_gradient, "expected"),
        "loss.variance_reduction": (loss.variance_reduction, True),
        "replay.prioritised": (config.replay.prioritised, False),
        "schedule.temperature": (schedule.temperature, "annealed"),
        "schedule.beta_start": (schedule.beta_start, 0.0),
        "schedule.beta_end": (schedule.beta_end, 0.0),
        "schedule.reset_every": (schedule.reset_every, 0),
        "behaviour": (config.behaviour, "paper"),
    }
    return [
        (
            network.twin_q and value != needed,
            f"{name} = {value!r}: with network.twin_q (SAC-Discrete) must be {needed!r}",
        )
        for name, (value, needed) in wanted.items()
    ]


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
    if hint is str:  # a name that others may add to; whoever uses it knows which there are
        if not isinstance(value, str) or not value:
            raise UsageError(f"{name} = {value!r}: must be a name")
        return
    kinds = (int,) if hint is int else (int, float)
    low, high = RANGES[name]
    if not isinstance(value, kinds) or isinstance(value, bool) or not low <= value <= high:
        kind = "a whole number" if hint is int else "a number"
        bounds = f"at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
        raise UsageError(f"{name} = {value!r}: must be {kind} {bounds}")
