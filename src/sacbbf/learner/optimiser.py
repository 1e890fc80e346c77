"""AdamW as the agents use it, and the target network's moving average."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
from torch.optim.adamw import adamw

from sacbbf.config import OptimiserConfig
from sacbbf.constants import number
from sacbbf.networks import Network

FUSED = ("cpu", "cuda")  # devices on which a step is one kernel for all parameters


class Group(NamedTuple):
    """Parameters that are decayed alike, and AdamW's moments of each."""

    parameters: list[torch.Tensor]
    means: list[torch.Tensor]
    squares: list[torch.Tensor]
    decay: float


class Descent:
    """AdamW that decays tensors with more than one dimension only: PyTorch's kernel without what it does around it.

    That takes a small network longer than the kernel. All parameters share one count of steps; one that no gradient
    reached has a gradient of zero.
    """

    def __init__(self, config: OptimiserConfig, network: Network) -> None:
        self.config = config
        self.parameters: list[torch.Tensor] = [each for each in network.parameters() if each.requires_grad]
        matrices = [parameter for parameter in self.parameters if parameter.dim() > 1]
        vectors = [parameter for parameter in self.parameters if parameter.dim() <= 1]
        self.groups = [_group(matrices, config.weight_decay), _group(vectors, 0.0)]
        device = self.parameters[0].device
        self.fused = device.type in FUSED
        self.count = torch.zeros((), dtype=torch.float32, device=device if self.fused else "cpu")  # steps so far

    @torch.no_grad()
    def restart(self) -> None:
        """Forget moments and count, in place."""
        torch._foreach_zero_([self.count, *(moment for pair in self.moments().values() for moment in pair)])

    def moments(self) -> dict[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """First and second moment of each parameter, to be read and written in place."""
        return {
            parameter: (mean, square)
            for group in self.groups
            for parameter, mean, square in zip(group.parameters, group.means, group.squares, strict=True)
        }

    def forget_gradients(self) -> None:
        """Leave every parameter without a gradient."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter against its gradient."""
        self.count.add_(number(1.0, self.count.device))
        kernel: Any = torch._fused_adamw_ if self.fused else partial(adamw, foreach=False)
        for group in self.groups:
            if self.fused:
                counts = [self.count] * len(group.parameters)
            else:
                counts = [self.count - 1.0 for _ in group.parameters]  # it counts by itself
            kernel(*self._tensors(group), counts, **self._numbers(group))

    def _tensors(self, group: Group) -> tuple[list[torch.Tensor], ...]:
        grads = [torch.zeros_like(each) if each.grad is None else each.grad for each in group.parameters]
        return group.parameters, grads, group.means, group.squares, []

    def _numbers(self, group: Group) -> dict[str, Any]:
        config = self.config
        return {
            "lr": config.learning_rate,
            "beta1": config.adam_beta1,
            "beta2": config.adam_beta2,
            "eps": config.adam_eps,
            "weight_decay": group.decay,
            "amsgrad": False,
            "maximize": False,
        }


def _group(parameters: list[torch.Tensor], decay: float) -> Group:
    means, squares = ([torch.zeros_like(parameter) for parameter in parameters] for _ in range(2))
    return Group(parameters, means, squares, decay)


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
