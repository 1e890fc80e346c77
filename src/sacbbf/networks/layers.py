"""Layers that the networks are made of: PyTorch's, with the release's initialisation and Flax's padding."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Linear(nn.Linear):
    """A linear layer whose weight starts Xavier-uniform and whose bias starts at zero (release)."""

    def reset_parameters(self) -> None:
        """Draw the weight, zero the bias."""
        xavier(self)


class Conv2d(nn.Conv2d):
    """A convolution whose weight starts Xavier-uniform and whose bias starts at zero (release)."""

    def reset_parameters(self) -> None:
        """Draw the weight, zero the bias."""
        xavier(self)


class SameConv2d(Conv2d):
    """Convolution whose output has ceil(size / stride) pixels, the odd padding pixel at the bottom and right."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, C, H, W) to (N, C', ceil(H / stride), ceil(W / stride))."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        top, bottom = same_padding(x.shape[2], kernel, stride)
        left, right = same_padding(x.shape[3], kernel, stride)
        if top == bottom and left == right:
            return F.conv2d(x, self.weight, self.bias, self.stride, (top, left))
        return F.conv2d(F.pad(x, (left, right, top, bottom)), self.weight, self.bias, self.stride)


def xavier(layer: nn.Linear | nn.Conv2d) -> None:
    """Initialise a layer as the release does, from PyTorch's global generator."""
    nn.init.xavier_uniform_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Pixels to pad (before, after) so that the output has ceil(size / stride) pixels; the odd one goes after."""
    out = -(-size // stride)
    total = max((out - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def max_pool_same(x: torch.Tensor) -> torch.Tensor:
    """3x3 max-pool with stride 2 to ceil(size / 2) pixels, padded with -inf.

    An even side is padded by one pixel at its end only, an odd one by one at either end. The first is what
    `ceil_mode` does; sides that differ in parity need an explicit pad.
    """
    odd_h, odd_w = x.shape[2] % 2, x.shape[3] % 2
    if odd_h != odd_w:
        return F.max_pool2d(F.pad(x, (odd_w, 1, odd_h, 1), value=float("-inf")), 3, 2)
    return F.max_pool2d(x, 3, 2, padding=1) if odd_h else F.max_pool2d(x, 3, 2, ceil_mode=True)


def to_rows(latent: torch.Tensor) -> torch.Tensor:
    """Flatten latents (N, C, H, W) in (height, width, channel) order, as Flax does; vectors (N, D) stay."""
    return latent.permute(0, 2, 3, 1).flatten(1) if latent.dim() == 4 else latent


def to_maps(rows: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """View rows (N, H * W * C) as maps (N, C, H, W) in channels-last layout: `to_rows` the other way round."""
    channels, height, width = shape
    return rows.view(-1, height, width, channels).permute(0, 3, 1, 2)


def renormalize(latent: torch.Tensor) -> torch.Tensor:
    """Rescale each sample to [0, 1] over all its entries: (z - min) / (max - min + 1e-5), any shape (N, ...)."""
    dims = tuple(range(1, latent.dim()))
    low, high = latent.amin(dims, keepdim=True), latent.amax(dims, keepdim=True)  # ties share the gradient, as in JAX
    return (latent - low) * (high - low + 1e-5).reciprocal()  # one division a sample; its gradient is cheaper too
