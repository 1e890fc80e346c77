"""Resets: shrink and perturb the encoder and the transition model, draw everything else afresh."""

from __future__ import annotations

import torch

from sacbbf.networks.agent_network import RESET_SOFTLY, AgentNetwork


@torch.no_grad()
def reset_network(network: AgentNetwork, fresh: AgentNetwork, shrink: float) -> None:
    """Overwrite `network` in place: soft parts become shrink * old + (1 - shrink) * fresh, the rest fresh."""
    sources = dict(fresh.named_parameters())
    for name, parameter in network.named_parameters():
        keep = shrink if name.startswith(RESET_SOFTLY) else 0.0
        parameter.lerp_(sources[name], 1.0 - keep)
