"""Resets: shrink and perturb the encoder and the transition model, draw everything else afresh."""

from __future__ import annotations

import torch

from sacbbf.networks import Network
from sacbbf.networks.network import RESET_SOFTLY, RETURN_SCALE


@torch.no_grad()
def reset_network(network: Network, fresh: Network, shrink: float) -> None:
    """Overwrite `network` in place: soft parts become shrink * old + (1 - shrink) * fresh, the rest fresh.

    Buffers of soft parts, such as a norm's statistics, and the scale of returns stay; the others become fresh.
    """
    sources = dict(fresh.named_parameters())
    for name, parameter in network.named_parameters():
        keep = shrink if name.startswith(RESET_SOFTLY) else 0.0
        parameter.lerp_(sources[name], 1.0 - keep)
    buffers = dict(fresh.named_buffers())
    for name, buffer in network.named_buffers():
        if not name.startswith((*RESET_SOFTLY, RETURN_SCALE)):
            buffer.copy_(buffers[name])
