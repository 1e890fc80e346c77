"""3x3 convolutions, and their gradients: those of many channels have a faster one for the weights on AMD's CPUs.

oneDNN's gradient of the weights runs at a third to two thirds of its convolutions' rate there, whatever the layout.
From 64 channels on, products of matrices picture by picture are faster: what the kernel's three columns see at each
place, with the gradient there, once for each of its rows; as many pictures side by side as there are threads
(docs/performance.md). Fewer channels stay with oneDNN, and so do Intel's CPUs, where it is near its convolutions' rate.

Without gradients a relu, or the sum with what lies in memory already, is part of oneDNN's convolution: a pass over
large pictures less, to the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from sacbbf.networks.precision import plainly_on_cpu
from sacbbf.processor import by_amd

MANY = 64  # channels, of input and output
FUSED = hasattr(torch.ops.mkldnn, "_convolution_pointwise_")  # whether PyTorch was built with oneDNN
ONE = [1, 1]


def input_gradient(grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Gradient of the input (N, C, H, W), from the one at the output (N, C', H, W)."""
    return _gradients(grad, x, weight, (True, False, False))[0]


def weight_gradient(grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Gradient of the weight (C', C, 3, 3), from the one at the output (N, C', H, W)."""
    if not by_picture(x, weight):
        return _gradients(grad, x, weight, (False, True, False))[1]
    count, channels, height, width = x.shape
    abreast = min(torch.get_num_threads(), count)  # pictures at a time: a product each, with one thread
    padded = F.pad(x.permute(0, 2, 3, 1), (0, 0, 1, 1, 1, 1))  # (N, H + 2, W + 2, C)
    picture, row, place, _ = padded.stride()
    seen = x.new_empty(abreast, height + 2, width, 3 * channels)  # used again and again: it stays in the cache
    lines = seen.view(abreast, (height + 2) * width, -1)
    by_row = [lines[:, top * width :][:, : height * width].transpose(1, 2) for top in range(3)]  # (., 3 C, H * W) each
    totals = x.new_zeros(3, abreast, 3 * channels, weight.shape[0])
    places = grad.permute(0, 2, 3, 1).reshape(count, height * width, -1)
    for some, at in zip(padded.split(abreast), places.split(abreast), strict=True):  # type: ignore[no-untyped-call]
        number = len(some)
        seen[:number].copy_(some.as_strided((number, *seen.shape[1:]), (picture, row, place, 1)))
        for total, below in zip(totals.unbind(0), by_row, strict=True):
            torch.baddbmm(total[:number], below[:number], at, out=total[:number])
    return totals.sum(1).view(3, 3, channels, -1).permute(3, 2, 0, 1)


def by_picture(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether the weight's gradient is computed picture by picture."""
    return min(weight.shape[:2]) >= MANY and plainly_on_cpu(x.device) and by_amd()


def _gradients(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, wanted: tuple[bool, bool, bool]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    result: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = torch.ops.aten.convolution_backward.default(
        grad, x, weight, None, ONE, ONE, ONE, False, [0, 0], 1, wanted
    )
    return result


def fuses(x: torch.Tensor) -> bool:
    """Whether `relu_of` and `add_onto` may be used for pictures: in full precision on a CPU, without gradients."""
    return FUSED and not torch.is_grad_enabled() and x.dtype == torch.float32 and plainly_on_cpu(x.device)


def relu_of(x: torch.Tensor, layer: StridedConv | Conv3x3) -> torch.Tensor:
    """The relu of a layer's answer (N, C', H', W') to pictures (N, C, H, W)."""
    x, weight, stride = columns_as_channels(x, layer.weight, layer.stride)
    return relu_conv(x, weight, layer.bias, stride, layer.padding)


def relu_conv(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int | str] = (0, 0),
) -> torch.Tensor:
    """The relu of a convolution (N, C', H', W') of pictures (N, C, H, W), by weight (C', C, h, w) and bias (C',)."""
    convolve = torch.ops.mkldnn._convolution_pointwise.default
    return convolve(x, weight, bias, padding, stride, ONE, 1, "relu", [], "")  # type: ignore[no-any-return]


def add_onto(
    sum_: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, relu: bool = False
) -> torch.Tensor:
    """Add the 3x3 convolution of pictures (N, C, H, W) to `sum_` (N, C', H, W) in place; then its relu, if asked."""
    convolve = torch.ops.mkldnn._convolution_pointwise_.binary
    after = "relu" if relu else None
    return convolve(sum_, x, weight, bias, ONE, ONE, ONE, 1, "add", 1.0, after, [], None)  # type: ignore[no-any-return]


class _Convolution(torch.autograd.Function):
    """A 3x3 convolution (N, C, H, W) -> (N, C', H, W) with bias (C',)."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return F.conv2d(x, weight, bias, padding=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad_x = input_gradient(grad, x, weight) if ctx.needs_input_grad[0] else None
        return grad_x, weight_gradient(grad, x, weight), grad.sum((0, 2, 3))


def columns_as_channels(
    x: torch.Tensor, weight: torch.Tensor, stride: tuple[int, ...]
) -> tuple[torch.Tensor, torch.Tensor, tuple[int, ...]]:
    """Pictures (N, C, H, W), a weight (C', C, h, w) and strides (s, s) such that a picture's columns need no stride.

    For layers without padding; what has no stride stays. The columns of a stride, which lie side by side in memory, are
    read as channels: (N, s C, H, W / s), (C', s C, h, w / s) and (s, 1) are other views of the same. The answer is the
    same, its gradients are faster. All stay where a side is no multiple of the stride, or pictures are not
    channels-last.
    """
    by = stride[1]
    places, taps = x.permute(0, 2, 3, 1), weight.permute(0, 2, 3, 1)
    fit = by > 1 and x.shape[3] % by == weight.shape[3] % by == 0
    if not fit or not plainly_on_cpu(x.device) or not places.is_contiguous() or not taps.is_contiguous():
        return x, weight, stride
    wide, narrow = (rows.view(*rows.shape[:2], rows.shape[2] // by, -1) for rows in (places, taps))
    return wide.permute(0, 3, 1, 2), narrow.permute(0, 3, 1, 2), (stride[0], 1)


class StridedConv(nn.Conv2d):
    """Convolution with a stride and a bias, without padding."""

    bias: torch.Tensor

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, C, H, W) to (N, C', (H - kernel) // stride + 1, (W - kernel) // stride + 1)."""
        return self.with_bias(x, self.bias)

    def with_bias(self, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """What `forward` returns, with this bias (C',) or none instead of the layer's."""
        x, weight, stride = columns_as_channels(x, self.weight, self.stride)
        return F.conv2d(x, weight, bias, stride)


class Conv3x3(nn.Conv2d):
    """3x3 convolution with a bias that keeps the image's size."""

    bias: torch.Tensor

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels, kernel_size=3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, C, H, W) to (N, C', H, W)."""
        if torch.is_grad_enabled() and self.weight.requires_grad and by_picture(x, self.weight):
            return _Convolution.apply(x, self.weight, self.bias)  # type: ignore[no-any-return, no-untyped-call]
        return super().forward(x)
