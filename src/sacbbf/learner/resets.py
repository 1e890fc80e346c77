"""Resets: shrink and perturb the encoder and the transition model, draw everything else afresh."""

from __future__ import annotations

import torch

from sacbbf.networks import Network
from sacbbf.networks.agent_network import RESET_SOFTLY


@torch.no_grad()
def reset_network(network: Network, fresh: Network, shrink: float) -> None:
    """Overwrite `network` in place: soft parts become shrink * old + (1 - shrink) * fresh, the rest fresh."""
    sources = dict(fresh.named_parameters())
    for name, parameter in network.named_parameters():
        keep = shrink if name.startswith(RESET_SOFTLY) else 0.0
        parameter.lerp_(sources[name], 1.0 - keep)
