"""Encoders: observation -> latent, for images, grids and vectors. No losses, no heads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from sacbbf.agents.registry import Registry
from sacbbf.errors import UsageError
from sacbbf.networks.layers import Conv2d, Linear, SameConv2d, max_pool_same


class Encoder(nn.Module):
    """Observation -> latent."""

    out_shape: tuple[int, ...]  # of a latent: (C, H, W) or (D,)


class ResidualBlock(nn.Module):
    """relu, conv3x3, relu, conv3x3, add."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv0 = Conv2d(channels, channels, kernel_size=3, padding=1)
        self.conv1 = Conv2d(channels, channels, kernel_size=3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, C, H, W) to the same shape."""
        return x + self.conv1(F.relu(self.conv0(F.relu(x))))  # type: ignore[no-any-return]


class ImpalaStage(nn.Module):
    """conv3x3, max-pool to half the size, two residual blocks."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = Conv2d(in_channels, out_channels, kernel_size=3, padding=1)
        self.block0 = ResidualBlock(out_channels)
        self.block1 = ResidualBlock(out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, C, H, W) to (N, C', ceil(H / 2), ceil(W / 2))."""
        return self.block1(self.block0(max_pool_same(self.conv(x))))  # type: ignore[no-any-return]


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
        return F.relu(self.stage2(self.stage1(self.stage0(x))))


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
            x = F.relu(conv(x))
        return x


class CentredNatureEncoder(Encoder):
    """The Nature CNN of mean-centred pictures, unpadded: 84x84 pixels become a map of 7x7.

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
        self.conv0 = Conv2d(in_shape[0], widths[0], kernel_size=8, stride=4)
        self.conv1 = Conv2d(widths[0], widths[1], kernel_size=4, stride=2)
        self.conv2 = Conv2d(widths[1], widths[2], kernel_size=3, stride=1)
        self.out_shape = (widths[2], *((max(side, self.smallest) - 36) // 8 + 1 for side in in_shape[1:]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, C, H, W) to (N, 32 * width_scale, (H - 36) // 8 + 1, (W - 36) // 8 + 1), H and W at least 52."""
        x = x - x.mean(dim=(1, 2, 3), keepdim=True)
        if any(self.short):
            x = F.pad(x, (0, self.short[1], 0, self.short[0]))
        for conv in (self.conv0, self.conv1, self.conv2):
            x = F.relu(conv(x))
        return x


class GridEncoder(Encoder):
    """For small grids such as 10x10xC: conv3x3 to 16 channels, then conv3x3 with stride 2 to 8, times `width_scale`.

    The latent stays a map of the grid at half its resolution. A dense latent is cheaper to predict, but agents learned
    far less from it (docs/performance.md).
    """

    def __init__(self, in_shape: Sequence[int], width_scale: float) -> None:
        super().__init__()
        channels, out = scaled(16, width_scale), scaled(8, width_scale)
        self.conv0 = Conv2d(in_shape[0], channels, kernel_size=3, padding=1)
        self.conv1 = Conv2d(channels, out, kernel_size=3, stride=2, padding=1)
        self.out_shape = (out, -(-in_shape[1] // 2), -(-in_shape[2] // 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, C, H, W) to (N, 8 * width_scale, ceil(H / 2), ceil(W / 2))."""
        return F.relu(self.conv1(F.relu(self.conv0(x))))


class MlpEncoder(Encoder):
    """For vectors: two layers of 64 units times `width_scale`, relu after each."""

    def __init__(self, in_shape: Sequence[int], width_scale: float) -> None:
        super().__init__()
        width = scaled(64, width_scale)
        self.linear0 = Linear(in_shape[0], width)
        self.linear1 = Linear(width, width)
        self.out_shape = (width,)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, D) to (N, 64 * width_scale)."""
        return F.relu(self.linear1(F.relu(self.linear0(x))))


@dataclass(frozen=True)
class EncoderKind:
    """An encoder by name: what builds it, and the number of dimensions of what it reads."""

    build: Callable[[Sequence[int], float], nn.Module]  # from the shape of an observation and the width scale
    dims: int  # 3: images and grids (C, H, W); 1: vectors (D,)


ENCODERS = Registry(
    "network.encoder",
    {
        "impala": EncoderKind(ImpalaEncoder, 3),
        "nature": EncoderKind(NatureEncoder, 3),
        "centred-nature": EncoderKind(CentredNatureEncoder, 3),
        "grid": EncoderKind(GridEncoder, 3),
        "mlp": EncoderKind(MlpEncoder, 1),
    },
)


def register_encoder(name: str, build: Callable[[Sequence[int], float], nn.Module], dims: int = 3) -> None:
    """Make an encoder of one's own known as `network.encoder = name`, in this process.

    `build` gets an observation's shape and the width scale, and returns a module with an attribute `out_shape`, the
    latent's shape: (C, H, W) or (D,). It initialises itself, as PyTorch's layers do.
    """
    if dims not in (1, 3):
        raise UsageError(f"dims = {dims}: must be 3 for images and grids or 1 for vectors")
    ENCODERS.register(name, EncoderKind(build, dims))


def scaled(width: int, scale: float) -> int:
    """Channels of a layer at the given width scale, at least one."""
    return max(1, round(width * scale))


def make_encoder(name: str, in_shape: Sequence[int], width_scale: float) -> Encoder:
    """Build the named encoder for observations of `in_shape`, (C, H, W) or (D,)."""
    kind = ENCODERS[name]
    if len(in_shape) != kind.dims:
        what = "vectors (D,)" if kind.dims == 1 else "images or grids (C, H, W)"
        raise UsageError(f"network.encoder = {name!r} takes {what}, but observations have shape {tuple(in_shape)}")
    return kind.build(in_shape, width_scale)  # type: ignore[return-value]
