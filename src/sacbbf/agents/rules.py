"""Which settings go together. Every message names setting, value and what it must be."""

from __future__ import annotations

from sacbbf.agents.config import AgentConfig, LossConfig
from sacbbf.agents.ranges import check_settings
from sacbbf.errors import UsageError


def check_agent(config: AgentConfig) -> None:
    """Raise UsageError for a setting out of its range or a combination that makes no sense."""
    check_settings(config)
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
        (
            loss.policy_gradient != "sampled" and not loss.variance_reduction and not network.twin_q,
            f"loss.variance_reduction = False: with loss.policy_gradient = {loss.policy_gradient!r}, which samples no "
            "action, must be True",
        ),
        (
            loss.returns == "raw" and loss.return_share != LossConfig.return_share,
            f"loss.return_share = {loss.return_share:g}: scales returns, but loss.returns = 'raw'; must be 'scaled'",
        ),
        (network.noisy and network.policy, noisy_policy),
        (
            network.noisy and network.projection != "linear",
            f"network.projection = {network.projection!r}: with network.noisy, which has layers of its own, must be "
            "'linear'",
        ),
        (
            not network.policy and network.policy_head != "linear",
            f"network.policy_head = {network.policy_head!r} makes a policy, {without}; leave it at 'linear'",
        ),
        (
            not network.policy and schedule.temperature != "annealed",
            f"schedule.temperature = {schedule.temperature!r} weighs a policy's entropy, {without}; must be 'annealed'",
        ),
        (
            schedule.temperature == "target" and schedule.beta_end != 0,
            f"schedule.beta_end = {schedule.beta_end:g}: with schedule.temperature = 'target', which learns beta, must "
            "be 0; schedule.entropy_end says how the run ends",
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
        "loss.auxiliary": (loss.auxiliary, "none"),
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
