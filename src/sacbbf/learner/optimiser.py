"""AdamW as the agents use it, and the target network's moving average."""

from __future__ import annotations

import torch

from sacbbf.config import OptimiserConfig
from sacbbf.networks import Network


def make_optimiser(config: OptimiserConfig, network: Network) -> torch.optim.AdamW:
    """AdamW that decays tensors with more than one dimension only."""
    matrices = [parameter for parameter in network.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in network.parameters() if parameter.dim() <= 1]
    return torch.optim.AdamW(
        [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
        lr=config.learning_rate,
        betas=(config.adam_beta1, config.adam_beta2),
        eps=config.adam_eps,
        fused=matrices[0].device.type in ("cpu", "cuda"),
    )


class MovingAverage:
    """The target network's parameters, on their way to the online ones; both networks change in place only."""

    def __init__(self, target: Network, online: Network, tau: float) -> None:
        self.targets: list[torch.Tensor] = list(target.parameters())  # listed once: small updates notice
        self.onlines: list[torch.Tensor] = list(online.parameters())
        self.tau = tau

    @torch.no_grad()
    def move(self) -> None:
        """Move every target parameter by the share `tau` of its way."""
        torch._foreach_lerp_(self.targets, self.onlines, self.tau)
