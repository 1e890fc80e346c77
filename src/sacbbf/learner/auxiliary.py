"""Auxiliary losses by name: terms of one's own beside TD, SPR and policy loss."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from sacbbf.agents.registry import Registry
from sacbbf.errors import UsageError
from sacbbf.learner.terms import Terms
from sacbbf.networks import AgentNetwork, Network
from sacbbf.types import Batch

Loss = Callable[[Terms, Batch], torch.Tensor]  # an update's tensors, with gradients, to one value per sample (B,)

AUXILIARY_LOSSES: Registry[Callable[[AgentNetwork], Loss]] = Registry("loss.auxiliary", {})


def register_auxiliary_loss(name: str, build: Callable[[AgentNetwork], Loss]) -> None:
    """Make a loss of one's own known as `loss.auxiliary = name`, weighed by `loss.auxiliary_weight`.

    `build` gets the network and returns a function of an update's terms and batch, or a module whose `forward` is one.
    A module's parameters are trained and its parameters and buffers are checkpointed and reset with the network's
    heads; it becomes a part of the network, so it must not keep the network as one of its own. The loss has one value
    per sample, (B,); its mean is recorded as `loss/auxiliary`. SAC-Discrete has none.
    """
    AUXILIARY_LOSSES.register(name, build)


class _Function(nn.Module):
    """A plain function as a module without parameters."""

    def __init__(self, function: Loss) -> None:
        super().__init__()
        self.function = function

    def forward(self, terms: Terms, batch: Batch) -> torch.Tensor:
        """Return one value per sample (B,)."""
        return self.function(terms, batch)


def attach(name: str, network: Network) -> None:
    """Build the named loss as the network's part `auxiliary`."""
    if not isinstance(network, AgentNetwork):
        raise UsageError(f"loss.auxiliary = {name!r}: with network.twin_q (SAC-Discrete) must be 'none'")
    built = AUXILIARY_LOSSES[name](network)
    network.auxiliary = built if isinstance(built, nn.Module) else _Function(built)
