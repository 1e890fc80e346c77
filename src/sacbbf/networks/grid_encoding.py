"""Encoding the states of grids that learn and those that do not in one pass, with the gradient of the former alone.

An update encodes s_t with gradient and s_{t+n} without. For grids a layer takes as long to call as to compute, so both
go through it together; the encoder and the latent's rescaling are one function, whose gradient is written out and knows
only the first states. The strided convolution's gradient at its input is a product of two of its rows with a matrix
for two of the input's, which is faster than oneDNN's as long as the rows are short.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from sacbbf.networks.encoders import GridEncoder, flatten, images
from sacbbf.networks.renormalize import rescale, rescale_gradient

ONE, TWO, NONE = [1, 1], [2, 2], [0, 0]
SHORT_ROWS = 512  # entries of two of a grid's rows up to which a matrix is faster


def encode_grids(encoder: GridEncoder, grids: torch.Tensor, learning: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rescaled latents of grids (N, C, H, W) as rows: (learning, D) of the first ones, and (N - learning, D).

    Only the first have a gradient.
    """
    conv0, conv1 = encoder.conv0, encoder.conv1
    found: tuple[torch.Tensor, torch.Tensor] = _Encoding.apply(  # type: ignore[no-untyped-call]
        grids, conv0.weight, conv0.bias, conv1.weight, conv1.bias, learning
    )
    return found


class _Encoding(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        grids: torch.Tensor,
        weight0: torch.Tensor,
        bias0: torch.Tensor,
        weight1: torch.Tensor,
        bias1: torch.Tensor,
        learning: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = F.conv2d(grids, weight0, bias0, padding=1).relu_()
        raw = F.conv2d(hidden, weight1, bias1, stride=2, padding=1).relu_()
        rows = flatten(raw)
        scaled, *bounds = rescale(rows)
        first, others = scaled[:learning], scaled[learning:]
        kept = (tensor[:learning] for tensor in (grids, hidden, rows, *bounds))
        ctx.save_for_backward(weight0, weight1, first, *kept)
        ctx.shape = tuple(raw.shape[1:])
        ctx.mark_non_differentiable(others)
        ctx.set_materialize_grads(False)
        return first, others

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor, unused: None) -> tuple[torch.Tensor | None, ...]:
        weight0, weight1, scaled, grids, hidden, rows, *bounds = ctx.saved_tensors
        grad = rescale_gradient(grad, rows, scaled, *bounds)
        grad1 = _through_relu(grad, rows)  # (N, D)
        maps = images(grad1, ctx.shape)
        grad0 = _through_relu(input_gradient(grad1, hidden, weight1), hidden)
        grads0 = _gradients(grad0, grids, weight0, ONE, 1), grad0.sum((0, 2, 3))
        grads1 = _gradients(maps, hidden, weight1, TWO, 1), maps.sum((0, 2, 3))
        return None, *grads0, *grads1, None


def _through_relu(grad: torch.Tensor, answer: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.threshold_backward.default(grad, answer, 0)  # type: ignore[no-any-return]


def _gradients(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, stride: list[int], which: int
) -> torch.Tensor:
    """The gradient of a padded 3x3 convolution's input (`which` = 0) or weight (1), from the one at its output."""
    wanted = (which == 0, which == 1, False)
    return torch.ops.aten.convolution_backward.default(  # type: ignore[no-any-return]
        grad, x, weight, None, stride, ONE, ONE, False, NONE, 1, wanted
    )[which]


def input_gradient(grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Gradient of the input (N, C, H, W) of a 3x3 convolution with stride 2, from rows (N, D') of that at its output.

    The weight is (C', C, 3, 3), and the output has ceil(H / 2) rows of ceil(W / 2) places.
    """
    count, channels, height, width = x.shape
    out, down, across = weight.shape[0], -(-height // 2), -(-width // 2)
    if 2 * width * channels > SHORT_ROWS:
        return _gradients(images(grad, (out, down, across)), x, weight, TWO, 0)
    row = across * out  # entries of an output's row
    padded = F.pad(grad, (0, row))  # a row of zeros below the last
    pairs = padded.as_strided((down, count, 2 * row), (row, padded.shape[1], 1))  # each row with the one below it
    entries = _entries(width, channels, out, grad.device)
    matrix = F.pad(weight.flatten(), (1, 0)).index_select(0, entries).view(2 * row, -1)
    found = grad.new_empty(count, down, 2 * width * channels)
    torch.bmm(pairs, matrix.expand(down, -1, -1), out=found.transpose(0, 1))
    return found.view(count, 2 * down, width, channels)[:, :height].permute(0, 3, 1, 2)


@cache
@torch.inference_mode(False)
def _entries(width: int, channels: int, out: int, device: torch.device) -> torch.Tensor:
    """Which weight, counted from 1, stands in each entry of a matrix from two rows of the output to two of the input.

    0: none. Both are in channels-last order. The input's row i of the two (0 or 1) is read by the output's row j with
    the kernel's row i - 2 j + 1, and likewise for columns.
    """
    across = -(-width // 2)
    sizes = (2, across, out, 2, width, channels)
    j, column, unit, i, place, channel = torch.meshgrid(
        *(torch.arange(size, device=device) for size in sizes), indexing="ij"
    )
    down, right = i - 2 * j + 1, place - 2 * column + 1
    number = ((unit * channels + channel) * 3 + down) * 3 + right + 1
    return torch.where((down >= 0) & (right >= 0) & (right <= 2), number, 0).flatten()
