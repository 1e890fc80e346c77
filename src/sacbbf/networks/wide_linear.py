"""Linear layers, and their gradients: large ones have faster products on AMD's CPUs.

MKL divides one large product among their threads less well than several, or than oneDNN does (docs/performance.md). So
the output is computed in blocks of units, and both gradients as 1x1 convolutions, with what is largest as the image:
the weight for the input's gradient, the input for the weight's. Small layers and few rows stay with PyTorch, and so do
machines with more threads than there are blocks, and Intel's CPUs, where MKL is faster.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from sacbbf.networks.precision import plainly_on_cpu
from sacbbf.processor import by_amd

LARGE = 2**22  # entries of a weight
ROWS = 32  # rows of an input
BLOCKS = 4  # of the units, which they divide


def in_blocks(rows: torch.Tensor, units: int, inputs: int) -> bool:
    """Whether products of a layer's weight (units, inputs) with rows (..., inputs) or (..., units) go in blocks."""
    if units * inputs < LARGE or units % BLOCKS or not (plainly_on_cpu(rows.device) and by_amd()):
        return False  # before the rows are counted: an exported network has any number of them
    return rows.numel() >= ROWS * rows.shape[-1] and 1 < torch.get_num_threads() <= BLOCKS


def output(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Output (N, D') of rows (N, D), with weight (D', D) and bias (D',), in `out` if given."""
    if not in_blocks(x, *weight.shape):
        return torch.addmm(bias, x, weight.t(), out=out)
    blocks = weight.view(BLOCKS, -1, weight.shape[1]).transpose(1, 2)  # (blocks, D, D' / blocks)
    parts = torch.baddbmm(bias.view(BLOCKS, 1, -1), x.expand(BLOCKS, -1, -1), blocks).transpose(0, 1)
    return parts.flatten(1) if out is None else out.view(parts.shape).copy_(parts).flatten(1)


def input_gradient(
    grad: torch.Tensor, weight: torch.Tensor, out: torch.Tensor | None = None, onto: torch.Tensor | None = None
) -> torch.Tensor:
    """Gradient of the input (N, D), from the one at the output (N, D'): in `out` if given, or added to `onto`."""
    if not in_blocks(grad, *weight.shape):
        if onto is None:
            return torch.mm(grad, weight, out=out)
        return torch.addmm(onto, grad, weight, out=onto)  # not `addmm_`, which PyTorch's counter does not see
    found = _product(grad, weight)
    if onto is not None:
        return onto.add_(found)
    return found if out is None else out.copy_(found)


def weight_gradient(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Gradient of the weight (D', D), from the one at the output (N, D') and the input (N, D)."""
    if not in_blocks(x, grad.shape[1], x.shape[1]):
        return torch.mm(grad.t(), x)
    return _product(grad.t(), x)


def _product(small: torch.Tensor, large: torch.Tensor) -> torch.Tensor:
    """small (I, J) times large (J, K), as a convolution of one image of J channels and K pixels."""
    image, kernel = large.reshape(1, len(large), 1, -1), small.reshape(*small.shape, 1, 1)
    return F.conv2d(image, kernel).reshape(len(small), -1)


class _WideLinear(torch.autograd.Function):
    """(N, D) -> (N, D'), with weight (D', D) and bias (D',)."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return output(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad_x = input_gradient(grad, weight) if ctx.needs_input_grad[0] else None
        return grad_x, weight_gradient(grad, x), grad.sum(0)


class WideLinear(nn.Linear):
    """A linear layer with a bias, of any size."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (..., D) to (..., D')."""
        if not in_blocks(x, *self.weight.shape):
            return F.linear(x, self.weight, self.bias)
        rows = _WideLinear.apply(x.flatten(0, -2), self.weight, self.bias)  # type: ignore[no-untyped-call]
        return rows.view(*x.shape[:-1], -1)  # type: ignore[no-any-return]
