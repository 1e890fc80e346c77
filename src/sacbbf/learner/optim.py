"""The optimiser by name, and the target network's moving average."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from sacbbf.agents.config import OptimiserConfig
from sacbbf.agents.registry import Registry
from sacbbf.errors import UsageError

Groups = list[dict[str, Any]]  # PyTorch's parameter groups: "params" and "weight_decay"
Build = Callable[[Groups, OptimiserConfig], Optimizer]

FUSED = ("cpu", "cuda")  # devices on which AdamW's step is one kernel for all parameters


class LightAdamW(torch.optim.AdamW):
    """PyTorch's AdamW, without the wrappers that keep torch.compile out of it.

    Updates compile without their optimiser, so there is nothing to keep out, and the wrappers import the whole
    compiler: longer than all else that a run does before its first step. The numbers and the state are the same.
    """

    add_param_group = inspect.unwrap(Optimizer.add_param_group)
    zero_grad = inspect.unwrap(Optimizer.zero_grad)
    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))


def adamw(groups: Groups, config: OptimiserConfig) -> Optimizer:
    """AdamW as the release has it."""
    return LightAdamW(
        groups,
        lr=config.learning_rate,
        betas=(config.adam_beta1, config.adam_beta2),
        eps=config.adam_eps,
        fused=all(parameter.device.type in FUSED for group in groups for parameter in group["params"]),
    )


OPTIMISERS: Registry[Build] = Registry("optimiser.name", {"adamw": adamw})


def register_optimiser(name: str, build: Build | type[Optimizer]) -> None:
    """Make an optimiser of one's own known as `optimiser.name = name`.

    A class of `torch.optim`'s kind gets the parameter groups and `lr`; a function gets the groups and the optimiser's
    settings and returns the optimiser. There are two groups: only tensors of more than one dimension are decayed. A
    checkpoint keeps the optimiser's state and the numbers of its groups.
    """
    OPTIMISERS.register(name, _FromClass(build) if isinstance(build, type) else build)


class _FromClass:
    """Builds an optimiser of a class from the groups and the learning rate."""

    def __init__(self, kind: type[Optimizer]) -> None:
        self.kind = kind

    def __call__(self, groups: Groups, config: OptimiserConfig) -> Optimizer:
        optimiser = self.kind(groups, lr=config.learning_rate)  # type: ignore[call-arg]
        if config.weight_decay > 0 and "weight_decay" not in optimiser.defaults:  # PyTorch would not say so
            raise UsageError(
                f"optimiser.weight_decay = {config.weight_decay:g}: {self.kind.__name__} has no weight decay; must be 0"
            )
        return optimiser

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _FromClass) and self.kind is other.kind

    def __hash__(self) -> int:
        return hash(self.kind)


def make_optimiser(config: OptimiserConfig, network: nn.Module) -> Optimizer:
    """Build the optimiser of a network's parameters; those with one dimension (biases, norms) are not decayed."""
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    groups = [
        {"params": [each for each in parameters if each.dim() > 1], "weight_decay": config.weight_decay},
        {"params": [each for each in parameters if each.dim() <= 1], "weight_decay": 0.0},
    ]
    optimiser = OPTIMISERS[config.name](groups, config)
    if not isinstance(optimiser, Optimizer):
        raise UsageError(f"optimiser.name = {config.name!r} built {type(optimiser).__name__}: must be an Optimizer")
    return optimiser


class MovingAverage:
    """The target network on its way to the online one; both change in place only."""

    def __init__(self, target: nn.Module, online: nn.Module, tau: float) -> None:
        self.targets: list[torch.Tensor] = list(target.parameters())  # listed once: small updates notice
        self.onlines: list[torch.Tensor] = list(online.parameters())
        self.buffers = list(zip(target.buffers(), online.buffers(), strict=True))
        self.tau = tau

    @torch.no_grad()
    def move(self) -> None:
        """Move every parameter by the share `tau` of its way; buffers, such as a norm's statistics, are copied."""
        torch._foreach_lerp_(self.targets, self.onlines, self.tau)
        for target, online in self.buffers:
            target.copy_(online)
