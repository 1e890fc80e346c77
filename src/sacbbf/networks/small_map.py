"""3x3 convolutions of a small map as matrices for the whole map, and of constant planes for one of any size.

Many of a matrix's entries are zero, and a product with it is still faster than a convolution of so few pixels. Which
weight stands in which entry depends on the map's size alone, so it is laid down once: a matrix is then one look-up, and
the gradient of its weights another.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


class Taps(nn.Module):
    """Which taps of a padded 3x3 convolution read from within a map, at each place of it."""

    inside: torch.Tensor  # (HW, 9) 1.0 where a tap reads from within the map

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        self.shape = (height, width)
        self.register_buffer("inside", torch.empty(height * width, 9), persistent=False)
        self.lay_down()

    def lay_down(self) -> None:
        """Fill the table; it is no parameter, and empty after a move from the meta device."""
        self.inside.copy_(read_at(*self.shape, self.inside.device)[1])

    def planes(self, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """What a convolution (C, A, 3, 3) with a bias (C,) makes of A constant planes, one at a time: (A, HW * C)."""
        taps = weight.permute(1, 2, 3, 0).flatten(1, 2)  # (A, 9, C)
        answer = torch.bmm(self.inside.expand(taps.shape[0], -1, -1), taps).to(bias.dtype)
        return answer.add_(bias).flatten(1)  # a sum of its own: baddbmm would write the bias out for each place first


def read_at(height: int, width: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """The place that each tap of a padded 3x3 convolution reads, for each that is written (HW, 9); if it is inside."""
    to, tap = torch.arange(height * width, device=device)[:, None], torch.arange(9, device=device)
    row, column = to // width + tap // 3 - 1, to % width + tap % 3 - 1
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    return (row * width + column) * inside, inside


class SmallMap(nn.Module):
    """Where the weights of a convolution from C to C channels stand in its matrix, for maps (C, H, W)."""

    entries: torch.Tensor  # (HW * C * HW * C,) the weight in each entry of a matrix, counted from 1; 0: none
    places: torch.Tensor  # (HW * C * C * 9,) the entry of each weight for each place that is written
    present: torch.Tensor  # (HW, C * C * 9) 1.0 where a weight reads from within the map

    def __init__(self, channels: int, height: int, width: int) -> None:
        super().__init__()
        self.shape = (channels, height, width)
        weights, count = channels * channels * 9, height * width
        self.register_buffer("entries", torch.empty((count * channels) ** 2, dtype=torch.int64), persistent=False)
        self.register_buffer("places", torch.empty(count * weights, dtype=torch.int64), persistent=False)
        self.register_buffer("present", torch.empty(count, weights), persistent=False)
        self.lay_down()

    def lay_down(self) -> None:
        """Fill the tables; they are no parameters, and empty after a move from the meta device."""
        channels, height, width = self.shape
        count = height * width
        device = self.entries.device
        read, inside = read_at(height, width, device)
        to, channel = torch.arange(count, device=device), torch.arange(channels, device=device)
        out, into = channel[:, None, None], channel[:, None]
        places = ((to[:, None, None, None] * channels + out) * count + read[:, None, None]) * channels + into
        present = inside[:, None, None].expand_as(places)  # (HW, C out, C in, 9)
        numbers = torch.arange(1, channels * channels * 9 + 1, device=places.device).expand(count, -1).flatten()
        beyond = torch.where(present, places, self.entries.numel()).flatten()  # what is outside goes to a spare entry
        entries = self.entries.new_zeros(self.entries.numel() + 1).scatter_(0, beyond, numbers)
        self.entries.copy_(entries[:-1])
        self.places.copy_(places.flatten())
        self.present.copy_(present.flatten(1))

    def matrices(self, weights: torch.Tensor) -> torch.Tensor:
        """Matrices (M, HW * C out, HW * C in) of M convolutions (M, C, C, 3, 3), for channels-last rows."""
        found: torch.Tensor = _Matrices.apply(weights, self.entries, self.places, self.present)  # type: ignore[no-untyped-call]
        return found


class _Matrices(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, weights: torch.Tensor, entries: torch.Tensor, places: torch.Tensor, present: torch.Tensor
    ) -> torch.Tensor:
        ctx.save_for_backward(places, present)
        ctx.shape = weights.shape
        side = present.shape[0] * weights.shape[1]
        return F.pad(weights.flatten(1), (1, 0)).index_select(1, entries).view(-1, side, side)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        places, present = ctx.saved_tensors
        found = grad.flatten(1).index_select(1, places).view(-1, *present.shape)
        return found.mul_(present).sum(dim=1).view(ctx.shape), None, None, None
