"""Beta, the weight of the policy's entropy bonus: annealed as in the paper, or learned."""

from __future__ import annotations

import math

import torch

from sacbbf.agents.config import ScheduleConfig
from sacbbf.learner.losses import largest_entropy
from sacbbf.learner.schedules import entropy_weight, wanted_entropy

LOWEST, HIGHEST = math.log(1e-8), math.log(1e8)  # log beta; a bound on where a wrong reward can drive it


class Temperature:
    """Beta at a step of the run. What is learned of it stays on the device: following it waits for nothing."""

    def __init__(self, schedule: ScheduleConfig, total_steps: int, num_actions: int, device: torch.device) -> None:
        self.schedule = schedule
        self.total_steps = total_steps
        self.largest_entropy = math.log(num_actions)  # nats; 0 if there is but one action
        self.learned = schedule.temperature == "target" and num_actions > 1
        start = math.log(schedule.beta_start) if schedule.beta_start > 0 else LOWEST
        self.log_beta = torch.tensor(start, dtype=torch.float32, device=device)  # (), moved only if learned

    def beta(self, step: int) -> float | torch.Tensor:
        """Weight of the entropy bonus at an environment step."""
        return self.log_beta.exp() if self.learned else entropy_weight(self.schedule, step, self.total_steps)

    @torch.no_grad()
    def follow(self, entropy: torch.Tensor, step: int, mask: torch.Tensor | None = None) -> None:
        """Raise beta where a batch's entropies (B,), in nats, lie below the mean that is wanted, else lower it.

        With masks (B, A) of the legal actions, what is wanted is a share of the mean of the largest entropies that each
        state allows; a batch whose states allow but one action each moves nothing.
        """
        if not self.learned:
            return
        wanted = wanted_entropy(self.schedule, step, self.total_steps)
        if mask is None:
            lacking = wanted - entropy.mean() / self.largest_entropy
        else:
            largest = largest_entropy(mask).mean()
            lacking = torch.where(largest > 0, wanted - entropy.mean() / largest, 0.0)
        self.log_beta.add_(self.schedule.entropy_rate * lacking).clamp_(LOWEST, HIGHEST)
