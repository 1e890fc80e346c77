"""Encoders: observation -> latent, for images, grids and vectors. No losses, no heads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from sacbbf.errors import UsageError
from sacbbf.networks.convolution import Conv3x3, StridedConv, add_onto, fuses, relu_conv, relu_of


class Encoder(nn.Module):
    """Observation -> latent."""

    out_shape: tuple[int, ...]  # of a latent: (C, H, W) or (D,)
    takes_blocks = False  # whether `forward` takes pictures less their mean in blocks of pixels too (in_blocks)


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Pixels to pad (before, after) so that the output has ceil(size / stride) pixels; the odd one goes after."""
    out = -(-size // stride)
    total = max((out - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


class SameConv2d(nn.Conv2d):
    """Convolution whose output has ceil(size / stride) pixels, the odd padding pixel at the bottom and right."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, C, H, W) to (N, C', ceil(H / stride), ceil(W / stride))."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        top, bottom = same_padding(x.shape[2], kernel, stride)
        left, right = same_padding(x.shape[3], kernel, stride)
        if top == bottom and left == right:
            return F.conv2d(x, self.weight, self.bias, self.stride, (top, left))
        x = F.pad(x, (left, right, top, bottom))
        return F.conv2d(x, self.weight, self.bias, self.stride)


def flatten(images: torch.Tensor) -> torch.Tensor:
    """Flatten images (N, C, H, W) in (height, width, channel) order, as Flax does; vectors (N, D) stay."""
    return images.permute(0, 2, 3, 1).flatten(1) if images.dim() == 4 else images


def images(rows: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """View rows (N, H * W * C) as images (N, C, H, W) in channels-last layout: `flatten` the other way round."""
    channels, height, width = shape
    return rows.view(-1, height, width, channels).permute(0, 3, 1, 2)


def max_pool_same(x: torch.Tensor) -> torch.Tensor:
    """3x3 max-pool with stride 2 to ceil(size / 2) pixels, padded with -inf.

    An even side is padded by one pixel at its end only, an odd one by one at either end. The first is what
    `ceil_mode` does; sides that differ in parity need an explicit pad.
    """
    odd_h, odd_w = x.shape[2] % 2, x.shape[3] % 2
    if odd_h != odd_w:
        x = F.pad(x, (odd_w, 1, odd_h, 1), value=float("-inf"))
        return F.max_pool2d(x, 3, 2)
    return F.max_pool2d(x, 3, 2, padding=1) if odd_h else F.max_pool2d(x, 3, 2, ceil_mode=True)


class ResidualBlock(nn.Module):
    """relu, conv3x3, relu, conv3x3, add."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv0 = Conv3x3(channels, channels)
        self.conv1 = Conv3x3(channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, C, H, W) to the same shape."""
        residual: torch.Tensor = self.conv1(F.relu_(self.conv0(F.relu(x))))
        return residual.add_(x)

    def onto(self, x: torch.Tensor) -> torch.Tensor:
        """What `forward` returns, to the same bits but in the place of x, where `fuses` says that it can be had."""
        return add_onto(x, relu_of(F.relu(x), self.conv0), self.conv1.weight, self.conv1.bias)


class ImpalaStage(nn.Module):
    """conv3x3, max-pool to half the size, two residual blocks."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = Conv3x3(in_channels, out_channels)
        self.block0 = ResidualBlock(out_channels)
        self.block1 = ResidualBlock(out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, C, H, W) to (N, C', ceil(H / 2), ceil(W / 2))."""
        x = max_pool_same(self.conv(x))
        for block in (self.block0, self.block1):
            x = block.onto(x) if fuses(x) else block(x)
        return x


class ImpalaEncoder(Encoder):
    """Three Impala stages of 16, 32 and 32 channels times `width_scale`, then relu."""

    def __init__(self, in_shape: Sequence[int], width_scale: float) -> None:
        super().__init__()
        widths = [scaled(width, width_scale) for width in (16, 32, 32)]
        self.stage0 = ImpalaStage(in_shape[0], widths[0])
        self.stage1 = ImpalaStage(widths[0], widths[1])
        self.stage2 = ImpalaStage(widths[1], widths[2])
        self.out_shape = (widths[2], -(-in_shape[1] // 8), -(-in_shape[2] // 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, C, H, W) to (N, 32 * width_scale, ceil(H / 8), ceil(W / 8))."""
        return F.relu_(self.stage2(self.stage1(self.stage0(x))))


class NatureEncoder(Encoder):
    """The Nature CNN with SAME padding: 8x8/4-32, 4x4/2-64, 3x3/1-64, channels times `width_scale`."""

    def __init__(self, in_shape: Sequence[int], width_scale: float) -> None:
        super().__init__()
        widths = [scaled(width, width_scale) for width in (32, 64, 64)]
        self.conv0 = SameConv2d(in_shape[0], widths[0], kernel_size=8, stride=4)
        self.conv1 = SameConv2d(widths[0], widths[1], kernel_size=4, stride=2)
        self.conv2 = SameConv2d(widths[1], widths[2], kernel_size=3, stride=1)
        self.out_shape = (widths[2], -(-in_shape[1] // 8), -(-in_shape[2] // 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, C, H, W) to (N, 64 * width_scale, ceil(H / 8), ceil(W / 8))."""
        for conv in (self.conv0, self.conv1, self.conv2):
            x = F.relu_(conv(x))
        return x


def in_blocks(weight: torch.Tensor, rows: int) -> torch.Tensor:
    """A layer's weight (C', C, h, w) for pictures whose blocks of `rows` x 4 pixels are channels (C, rows, 4).

    Both h and w are multiples of those: (C', 4 rows C, h / rows, w / 4), in channels-last layout.
    """
    count, channels, height, width = weight.shape
    blocks = weight.view(count, channels, height // rows, rows, width // 4, 4).permute(0, 2, 4, 1, 3, 5)
    return blocks.reshape(count, height // rows, width // 4, -1).permute(0, 3, 1, 2)


class CentredNatureEncoder(Encoder):
    """The Nature CNN of pictures less their mean, each over all its entries; 84x84 pixels become 7x7 places.

    Pictures of a game share most of their light, and a small network takes them for one until it has learned that the
    rest is what matters. This takes the common part away from the start. All that follows is cheaper than with
    `NatureEncoder`: no layer is padded, as in DQN, which makes 7x7 places and not 11x11, and the last two have half as
    many channels.
    """

    smallest = 52  # pixels of a side, of which three are left; smaller pictures are padded to it

    def __init__(self, in_shape: Sequence[int], width_scale: float) -> None:
        super().__init__()
        widths = [scaled(width, width_scale) for width in (32, 32, 32)]
        self.short = [max(self.smallest - side, 0) for side in in_shape[1:]]  # (rows, columns) to add
        self.conv0 = StridedConv(in_shape[0], widths[0], kernel_size=8, stride=4)
        self.conv1 = StridedConv(widths[0], widths[1], kernel_size=4, stride=2)
        self.conv2 = StridedConv(widths[1], widths[2], kernel_size=3, stride=1)
        self.out_shape = (widths[2], *((max(side, self.smallest) - 36) // 8 + 1 for side in in_shape[1:]))
        self.takes_blocks = not any(self.short) and all(side % 4 == 0 for side in in_shape[1:])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, C, H, W) to (N, 32 * width_scale, (H - 36) // 8 + 1, (W - 36) // 8 + 1), H and W at least 52.

        Or the same pictures less their mean, with blocks of r x 4 pixels as channels: (N, 4 r C, H / r, W / 4), where
        r is 1, 2 or 4 and in the order of `in_blocks`.
        """
        channels = self.conv0.in_channels
        x = self._answer(x) if x.shape[1] == channels else self._answer_to_blocks(x, x.shape[1] // (4 * channels))
        for conv in (self.conv1, self.conv2):
            x = relu_of(x, conv) if fuses(x) else F.relu_(conv(x))
        return x

    def _answer(self, x: torch.Tensor) -> torch.Tensor:
        """The first layer's answer to pictures; taking the mean away makes no copy of them.

        conv(x - light) = conv(x) - light conv(1).
        """
        light = flatten(x).mean(dim=1)  # (N,)
        if any(self.short):
            rows, columns = self.short
            x, light = F.pad(x - light[:, None, None, None], (0, columns, 0, rows)), torch.zeros_like(light)
        answer = self.conv0.with_bias(x, None)  # (N, C', H', W')
        plus = torch.addr(self.conv0.bias, light, self.conv0.weight.sum((1, 2, 3)), alpha=-1)
        return F.relu_(answer.add_(plus[:, :, None, None].to(answer.dtype)))

    def _answer_to_blocks(self, x: torch.Tensor, rows: int) -> torch.Tensor:
        weight, bias, stride = in_blocks(self.conv0.weight, rows), self.conv0.bias, (4 // rows, 1)
        return relu_conv(x, weight, bias, stride) if fuses(x) else F.relu_(F.conv2d(x, weight, bias, stride))


class GridEncoder(Encoder):
    """For small grids such as 10x10xC: conv3x3 to 16 channels, then conv3x3 with stride 2 to 8, times `width_scale`.

    The latent stays a map of the grid at half its resolution. A dense latent is cheaper to predict, but agents learned
    far less from it (docs/performance.md).
    """

    def __init__(self, in_shape: Sequence[int], width_scale: float) -> None:
        super().__init__()
        channels, out = scaled(16, width_scale), scaled(8, width_scale)
        self.conv0 = Conv3x3(in_shape[0], channels)
        self.conv1 = nn.Conv2d(channels, out, kernel_size=3, stride=2, padding=1)
        self.out_shape = (out, -(-in_shape[1] // 2), -(-in_shape[2] // 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, C, H, W) to (N, 8 * width_scale, ceil(H / 2), ceil(W / 2))."""
        return F.relu_(self.conv1(F.relu_(self.conv0(x))))


class MlpEncoder(Encoder):
    """For vectors: two layers of 64 units times `width_scale`, relu after each."""

    def __init__(self, in_shape: Sequence[int], width_scale: float) -> None:
        super().__init__()
        width = scaled(64, width_scale)
        self.linear0 = nn.Linear(in_shape[0], width)
        self.linear1 = nn.Linear(width, width)
        self.out_shape = (width,)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, D) to (N, 64 * width_scale)."""
        return F.relu_(self.linear1(F.relu_(self.linear0(x))))


@dataclass(frozen=True)
class EncoderKind:
    """An encoder by name: what builds it, and the number of dimensions of what it reads."""

    build: Callable[[Sequence[int], float], Encoder]  # from the shape of an observation and the width scale
    dims: int  # 3: images and grids (C, H, W); 1: vectors (D,)


ENCODERS: dict[str, EncoderKind] = {
    "impala": EncoderKind(ImpalaEncoder, 3),
    "nature": EncoderKind(NatureEncoder, 3),
    "centred-nature": EncoderKind(CentredNatureEncoder, 3),
    "grid": EncoderKind(GridEncoder, 3),
    "mlp": EncoderKind(MlpEncoder, 1),
}


def register_encoder(name: str, build: Callable[[Sequence[int], float], Encoder], dims: int = 3) -> None:
    """Make an encoder of one's own known as `network.encoder = name`, in this process.

    `build` gets an observation's shape and the width scale, and returns a module with an attribute `out_shape`, the
    latent's shape: (C, H, W) or (D,). Latents must not be negative, as after a relu: they are rescaled to [0, 1].
    """
    if dims not in (1, 3):
        raise UsageError(f"dims = {dims}: must be 3 for images and grids or 1 for vectors")
    if name in ENCODERS and ENCODERS[name] != EncoderKind(build, dims):
        raise UsageError(f"name = {name!r}: there is another encoder of this name")
    ENCODERS[name] = EncoderKind(build, dims)


def scaled(width: int, scale: float) -> int:
    """Channels of a layer at the given width scale, at least one."""
    return max(1, round(width * scale))


def make_encoder(name: str, in_shape: Sequence[int], width_scale: float) -> Encoder:
    """Build the named encoder for observations of `in_shape`, (C, H, W) or (D,)."""
    if name not in ENCODERS:
        raise UsageError(f"network.encoder = {name!r}: must be one of {', '.join(ENCODERS)}, or registered first")
    kind = ENCODERS[name]
    if len(in_shape) != kind.dims:
        what = "vectors (D,)" if kind.dims == 1 else "images or grids (C, H, W)"
        raise UsageError(f"network.encoder = {name!r} takes {what}, but observations have shape {tuple(in_shape)}")
    return kind.build(in_shape, width_scale)
