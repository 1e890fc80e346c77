"""AdamW as the agents use it, and the target network's moving average."""

from __future__ import annotations

from typing import Any

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
def descend(optimiser: torch.optim.AdamW) -> None:
    """One step of AdamW, bit for bit its own: from the second one on its kernel alone, where it is a fused one.

    What PyTorch does around the kernel takes a small network longer than the kernel.
    """
    groups = [(group, _kernel_arguments(optimiser, group)) for group in optimiser.param_groups]
    if not all(tensors for _, tensors in groups):
        optimiser.step()
        return
    for group, (grads, means, squares, steps) in groups:
        torch._foreach_add_(steps, 1)
        torch._fused_adamw_(
            group["params"], grads, means, squares, [], steps,
            lr=group["lr"], beta1=group["betas"][0], beta2=group["betas"][1], eps=group["eps"],
            weight_decay=group["weight_decay"], amsgrad=False, maximize=False,
        )  # fmt: skip


def _kernel_arguments(optimiser: torch.optim.AdamW, group: dict[str, Any]) -> tuple[list[torch.Tensor], ...]:
    """Gradients, moments and step counts of a group; nothing where one is missing, or there is no fused kernel."""
    states: list[dict[str, torch.Tensor]] = [optimiser.state.get(parameter, {}) for parameter in group["params"]]
    grads = [parameter.grad for parameter in group["params"]]
    if not (group["fused"] and all(states) and all(grad is not None for grad in grads)):
        return ()
    return grads, *([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq", "step"))


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
