"""The latent's rescaling and the transition model that predicts the next latent from an action."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from sacbbf.networks.encoders import conv3x3


class _Renormalize(torch.autograd.Function):
    """(z - min) / (max - min + 1e-5) over each row, with its gradient in a few passes.

    Entries that tie for the minimum or maximum share its gradient evenly, as JAX and PyTorch's own `amin` do:
    after a relu the minimum is usually zero, and most entries tie for it.
    """

    @staticmethod
    def forward(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        low, high = torch.aminmax(rows, dim=1, keepdim=True)  # (N, 1) each
        scale = (high - low + 1e-5).reciprocal_()
        return (rows - low).mul_(scale), low, high, scale

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[torch.Tensor], output: tuple[torch.Tensor, ...]) -> None:
        scaled, low, high, scale = output
        ctx.mark_non_differentiable(low, high, scale)
        ctx.save_for_backward(*inputs, scaled, low, high, scale)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, *unused: torch.Tensor) -> torch.Tensor:
        rows, scaled, low, high, scale = ctx.saved_tensors
        total = grad.sum(dim=1, keepdim=True)
        along = torch.linalg.vecdot(grad, scaled).unsqueeze(1)
        at_low, at_high = rows == low, rows == high
        grad_low = (along - total) * scale / at_low.sum(dim=1, keepdim=True)
        grad_high = -along * scale / at_high.sum(dim=1, keepdim=True)
        result: torch.Tensor = (grad * scale).addcmul_(at_low, grad_low).addcmul_(at_high, grad_high)
        return result


def renormalize(latent: torch.Tensor) -> torch.Tensor:
    """Rescale each sample to [0, 1] over all its entries: (z - min) / (max - min + 1e-5), any shape (N, ...)."""
    if latent.dim() == 2:
        return _Renormalize.apply(latent)[0]  # type: ignore[no-any-return, no-untyped-call]
    rows = latent.permute(0, 2, 3, 1)  # contiguous where the latent is channels-last
    scaled = _Renormalize.apply(rows.flatten(1))[0].view(rows.shape)  # type: ignore[no-untyped-call]
    return scaled.permute(0, 3, 1, 2)  # type: ignore[no-any-return]


def one_hot(action: torch.Tensor, num_actions: int, dtype: torch.dtype) -> torch.Tensor:
    """One-hot rows (N, A) of actions (N,). Unlike PyTorch's own it reads no value back, which a GPU would wait for."""
    return (action[:, None] == torch.arange(num_actions, device=action.device)).to(dtype)


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
        planes = one_hot(action, self.num_actions, latent.dtype)[:, :, None, None]
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
        x = torch.cat([latent, one_hot(action, self.num_actions, latent.dtype)], dim=1)
        return F.relu(self.linear1(F.relu(self.linear0(x))))


def make_transition(latent_shape: Sequence[int], num_actions: int) -> ConvTransition | MlpTransition:
    """Build the transition model that fits the latent's shape, (C, H, W) or (D,)."""
    cls = ConvTransition if len(latent_shape) == 3 else MlpTransition
    return cls(latent_shape, num_actions)
