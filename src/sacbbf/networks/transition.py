"""The transition model of SPR: latents of the next k steps from a latent and actions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F

from sacbbf.networks.layers import Conv2d, Linear, renormalize


class TransitionModel(nn.Module):
    """Two layers, relu after each, on the latent joined by the one-hot action, over and over.

    Layers are 3x3 convolutions for latents (C, H, W), which the action joins as constant planes, and linear for (D,).
    """

    def __init__(self, latent_shape: Sequence[int], num_actions: int, renormalize: bool) -> None:
        super().__init__()
        self.num_actions = num_actions
        self.renormalize = renormalize
        self.spatial = len(latent_shape) == 3
        self.latent_entries = math.prod(latent_shape)
        width = latent_shape[0]
        if self.spatial:
            self.conv0 = Conv2d(width + num_actions, width, kernel_size=3, padding=1)
            self.conv1 = Conv2d(width, width, kernel_size=3, padding=1)
        else:
            self.linear0 = Linear(width + num_actions, width)
            self.linear1 = Linear(width, width)

    def forward(self, latent: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Latents of the next k steps, (k, N, ...), from a latent (N, ...) and actions (k, N)."""
        latents = []
        for action in self.spread_out(actions, latent):
            latent = self.step(latent, action)
            latents.append(latent)
        return torch.stack(latents)

    def spread_out(self, actions: torch.Tensor, latent: torch.Tensor) -> torch.Tensor:
        """One-hot actions as a latent is joined by them: constant planes (k, N, A, H, W), or (k, N, A)."""
        one_hot = F.one_hot(actions, self.num_actions).to(latent.dtype)  # (k, N, A)
        if not self.spatial:
            return one_hot
        planes = one_hot[:, :, None, None, :].expand(-1, -1, *latent.shape[2:], -1)  # (k, N, H, W, A)
        return planes.contiguous().movedim(-1, 2)  # channels-last, as latents are

    def step(self, latent: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """The next latent (N, C, H, W) or (N, D), rescaled to [0, 1], from a latent and actions as `spread_out`."""
        layer0, layer1 = (self.conv0, self.conv1) if self.spatial else (self.linear0, self.linear1)
        latent = F.relu(layer0(torch.cat((latent, action), dim=1)))
        latent = F.relu(layer1(latent))
        return renormalize(latent) if self.renormalize else latent
