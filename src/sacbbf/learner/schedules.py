"""What changes during a run, as pure functions of counted updates and steps."""

from __future__ import annotations

import math

from sacbbf.agents.behaviour import Behaviour
from sacbbf.agents.config import ActingConfig, ScheduleConfig


def n_step(schedule: ScheduleConfig, updates_since_reset: int) -> int:
    """n of the n-step return: exponential from n_start to n_end over the cycle, rounded (BBF)."""
    ratio = schedule.n_end / schedule.n_start
    return round(schedule.n_start * math.pow(ratio, _progress(updates_since_reset, schedule.cycle)))


def discount(schedule: ScheduleConfig, updates_since_reset: int) -> float:
    """Gamma: 1 - gamma falls exponentially from 1 - gamma_start to 1 - gamma_end over the cycle (BBF)."""
    start, end = 1.0 - schedule.gamma_start, 1.0 - schedule.gamma_end
    return 1.0 - start * math.pow(end / start, _progress(updates_since_reset, schedule.cycle))


def entropy_weight(schedule: ScheduleConfig, step: int, total_steps: int) -> float:
    """Beta at an environment step: linear from step 0, at its end value for the last `beta_final_updates`."""
    span = total_steps - schedule.beta_final_updates / schedule.replay_ratio
    progress = min(max(step / span, 0.0), 1.0) if span > 0 else 1.0
    return schedule.beta_start + (schedule.beta_end - schedule.beta_start) * progress


def wanted_entropy(schedule: ScheduleConfig, step: int, total_steps: int) -> float:
    """Mean entropy of the policy, as a share of log A, that a learned beta aims at: linear over the run."""
    return schedule.entropy_start + (schedule.entropy_end - schedule.entropy_start) * _progress(step, total_steps)


def epsilon(acting: ActingConfig, step: int, warmup: int) -> float:
    """Share of random actions at an environment step: linear after the warm-up, then constant."""
    progress = _progress(max(0, step - warmup), acting.epsilon_decay)
    return acting.epsilon_start + (acting.epsilon_end - acting.epsilon_start) * progress


def reset_steps(schedule: ScheduleConfig, total_steps: int, behaviour: Behaviour) -> list[int]:
    """Environment steps at which the networks are reset, as long as more than one interval is left.

    Compared in whole updates: a division would let rounding decide whether exactly one interval is left.
    """
    every, ratio = schedule.reset_every, schedule.replay_ratio
    if every == 0:
        return []
    count = max(0, -(-total_steps * ratio // every) - 2)  # resets number i with (i + 1) * every < all updates
    return [round(number * every / ratio) + behaviour.reset_drift * (number + 1) for number in range(1, count + 1)]


def _progress(count: int, span: int) -> float:
    return min(count / span, 1.0) if span > 0 else 1.0
