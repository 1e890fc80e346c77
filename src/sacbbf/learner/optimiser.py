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


@torch.no_grad()
def move_towards(target: Network, online: Network, tau: float) -> None:
    """Move every target parameter by the share `tau` of its way to the online one."""
    targets: list[torch.Tensor] = list(target.parameters())
    onlines: list[torch.Tensor] = list(online.parameters())
    torch._foreach_lerp_(targets, onlines, tau)
