"""Networks from their configuration: which kind, with which fresh parameters, on which device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from sacbbf.agents.config import NetworkConfig
from sacbbf.networks.network import AgentNetwork
from sacbbf.networks.twin_network import TwinNetwork

Network = AgentNetwork | TwinNetwork


def lay_out(config: NetworkConfig, obs_shape: Sequence[int], num_actions: int, *, self_prediction: bool) -> Network:
    """Return the kind of network that a configuration asks for, on the CPU; its modules initialise themselves."""
    network: Network
    if config.twin_q:
        network = TwinNetwork(config, obs_shape, num_actions)
    else:
        network = AgentNetwork(config, obs_shape, num_actions, self_prediction)
    # Float32 whatever the default, and channels-last, the fastest layout of a convolution's weights on CPU and GPU.
    return network.to(dtype=torch.float32, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def build_network(
    config: NetworkConfig,
    obs_shape: Sequence[int],
    num_actions: int,
    *,
    self_prediction: bool,
    device: torch.device,
    generator: torch.Generator,
) -> Network:
    """Build a network on `device` for observations (C, H, W) or (D,), its parameters drawn from `generator` (CPU)."""
    with drawing_from(generator):
        network = lay_out(config, obs_shape, num_actions, self_prediction=self_prediction)
    return network.to(device)


@contextmanager
def drawing_from(generator: torch.Generator) -> Iterator[None]:
    """Let PyTorch's global generator, which modules initialise themselves from, follow a generator of the run."""
    seed = int(torch.randint(2**63 - 1, (), generator=generator))
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(seed)
        yield
