"""The latent's rescaling and the transition model that predicts the next latent from an action."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F

from sacbbf.networks.encoders import conv3x3


def renormalize(latent: torch.Tensor) -> torch.Tensor:
    """Rescale each sample to [0, 1] over all its entries: (z - min) / (max - min + 1e-5), any shape (N, ...)."""
    dims = tuple(range(1, latent.dim()))
    low = latent.amin(dims, keepdim=True)
    high = latent.amax(dims, keepdim=True)
    return (latent - low) / (high - low + 1e-5)


class ConvTransition(nn.Module):
    """Next latent image from a latent image and an action: the one-hot action joins as constant planes."""

    def __init__(self, latent_shape: Sequence[int], num_actions: int) -> None:
        super().__init__()
        channels = latent_shape[0]
        self.num_actions = num_actions
        self.conv0 = conv3x3(channels + num_actions, channels)
        self.conv1 = conv3x3(channels, channels)

    def forward(self, latent: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Map (N, C, H, W) and (N,) int64 to (N, C, H, W)."""
        planes = F.one_hot(action, self.num_actions).to(latent.dtype)[:, :, None, None]
        planes = planes.expand(-1, -1, *latent.shape[2:])  # (N, A, H, W)
        x = torch.cat([latent, planes], dim=1)
        return F.relu(self.conv1(F.relu(self.conv0(x))))


class MlpTransition(nn.Module):
    """Next latent vector from a latent vector and a one-hot action."""

    def __init__(self, latent_shape: Sequence[int], num_actions: int) -> None:
        super().__init__()
        width = latent_shape[0]
        self.num_actions = num_actions
        self.linear0 = nn.Linear(width + num_actions, width)
        self.linear1 = nn.Linear(width, width)

    def forward(self, latent: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Map (N, D) and (N,) int64 to (N, D)."""
        x = torch.cat([latent, F.one_hot(action, self.num_actions).to(latent.dtype)], dim=1)
        return F.relu(self.linear1(F.relu(self.linear0(x))))


def make_transition(latent_shape: Sequence[int], num_actions: int) -> ConvTransition | MlpTransition:
    """Build the transition model that fits the latent's shape, (C, H, W) or (D,)."""
    cls = ConvTransition if len(latent_shape) == 3 else MlpTransition
    return cls(latent_shape, num_actions)
