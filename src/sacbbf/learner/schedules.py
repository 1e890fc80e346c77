"""What changes during a run, as pure functions of counted updates and steps."""

from __future__ import annotations

import math
from dataclasses import replace

from sacbbf.behaviour import Behaviour
from sacbbf.config import ScheduleConfig

REFERENCE_STEPS = 100_000  # the budget that the published schedules are for


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


def reset_steps(schedule: ScheduleConfig, total_steps: int, behaviour: Behaviour) -> list[int]:
    """Environment steps at which the networks are reset, as long as more than one interval is left.

    Compared in whole updates: a division would let rounding decide whether exactly one interval is left.
    """
    every, ratio = schedule.reset_every, schedule.replay_ratio
    if every == 0:
        return []
    count = max(0, -(-total_steps * ratio // every) - 2)  # resets number i with (i + 1) * every < all updates
    return [round(number * every / ratio) + behaviour.reset_drift * (number + 1) for number in range(1, count + 1)]


def for_budget(schedule: ScheduleConfig, total_steps: int) -> ScheduleConfig:
    """Scale a schedule that is meant for 100,000 steps to another budget."""
    scale = total_steps / REFERENCE_STEPS
    return replace(
        schedule,
        warmup=round(schedule.warmup * scale),
        cycle=round(schedule.cycle * scale),
        # Upwards: an interval rounded down would leave room for one more reset near the end.
        reset_every=-(-schedule.reset_every * total_steps // REFERENCE_STEPS),
        beta_final_updates=round(schedule.beta_final_updates * scale),
    )


def _progress(count: int, span: int) -> float:
    return min(count / span, 1.0) if span > 0 else 1.0
