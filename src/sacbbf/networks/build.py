"""Networks from their configuration: which kind, with which fresh parameters, in which layout."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from sacbbf.config import NetworkConfig
from sacbbf.networks.agent_network import AgentNetwork
from sacbbf.networks.noisy import NoisyLinear
from sacbbf.networks.small_map import SmallMap, Taps
from sacbbf.networks.twin_network import TwinNetwork

Network = AgentNetwork | TwinNetwork


def lay_out(config: NetworkConfig, obs_shape: Sequence[int], num_actions: int, *, self_prediction: bool) -> Network:
    """Return the kind of network that a configuration asks for, its parameters not drawn yet."""
    if config.twin_q:
        return TwinNetwork(config, obs_shape, num_actions)
    return AgentNetwork(config, obs_shape, num_actions, self_prediction)


def initialise(network: nn.Module, generator: torch.Generator) -> None:
    """Draw fresh parameters in place: Xavier-uniform weights, zero biases; noisy layers have their own way."""
    for module in network.modules():
        if isinstance(module, NoisyLinear):
            module.initialise(generator)
            continue
        for parameter in module.parameters(recurse=False):
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter, generator=generator)
            else:
                nn.init.zeros_(parameter)


def build_network(
    config: NetworkConfig,
    obs_shape: Sequence[int],
    num_actions: int,
    *,
    self_prediction: bool,
    device: torch.device,
    generator: torch.Generator,
) -> Network:
    """Build and initialise a network on `device` for observations (C, H, W) or (D,).

    It is laid out on the meta device first, so that nothing but `generator` ever draws a parameter.
    """
    with torch.device("meta"):
        network = lay_out(config, obs_shape, num_actions, self_prediction=self_prediction).to(torch.float32)
    network.to_empty(device=device)
    for module in network.modules():
        if isinstance(module, SmallMap | Taps):
            module.lay_down()
    for parameter in network.parameters():
        if parameter.dim() == 4:  # convolutions are fastest in this layout, on CPU and GPU alike
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    initialise(network, generator)
    return network
