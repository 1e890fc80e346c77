"""Encoding the states of grids that learn and those that do not in one pass, with the gradient of the former alone.

An update encodes s_t with gradient and s_{t+n} without. For grids a layer takes as long to call as to compute, so both
go through it together; the encoder and the latent's rescaling are one function, whose gradient is written out and knows
only the first states.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from sacbbf.networks.encoders import GridEncoder, flatten, images
from sacbbf.networks.renormalize import extremes, rescale, rescale_gradient

ONE, TWO, NONE = [1, 1], [2, 2], [0, 0]


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
        weight0, weight1, scaled, grids, hidden, rows, low, high, scale = ctx.saved_tensors
        grad = rescale_gradient(grad, scaled, scale, *extremes(rows, low, high, scale))
        grad1 = images(_through_relu(grad, rows), ctx.shape)
        back, *grads1 = _gradients(grad1, hidden, weight1, TWO, into_input=True)
        _, *grads0 = _gradients(_through_relu(back, hidden), grids, weight0, ONE, into_input=False)
        return None, *grads0, *grads1, None


def _through_relu(grad: torch.Tensor, answer: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.threshold_backward.default(grad, answer, 0)  # type: ignore[no-any-return]


def _gradients(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, stride: list[int], *, into_input: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of a padded 3x3 convolution's input (if wanted), weight and bias, from the one at its output."""
    found: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = torch.ops.aten.convolution_backward.default(
        grad, x, weight, [weight.shape[0]], stride, ONE, ONE, False, NONE, 1, (into_input, True, True)
    )
    return found
