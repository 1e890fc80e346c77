"""From stored observations to network inputs: random shift, conversion to float, random intensity."""

from __future__ import annotations

import torch

from sacbbf.learner.noise import Noise

PAD = 4  # pixels of edge replication on each side (DrQ)
INTENSITY = 0.05  # standard deviation of the brightness factor, before clipping at two of them (DrQ)


def to_float(states: torch.Tensor) -> torch.Tensor:
    """Network input from stored states (N, ...): uint8 becomes [0, 1], bool 0 or 1, floats stay.

    Images come out in channels-last layout, which convolutions are fastest in.
    """
    if states.dim() == 4:
        floats = states.to(torch.float32, memory_format=torch.channels_last)
    else:
        floats = states.to(torch.float32)
    return floats.div_(255.0) if states.dtype == torch.uint8 else floats


def random_shift(images: torch.Tensor, offsets: torch.Tensor, pad: int = PAD) -> torch.Tensor:
    """Crop images (N, C, H, W), padded by edge replication, at offsets (N, 2) in 0 .. 2 * pad, (row, column).

    Works on any dtype, so that uint8 frames are shifted before they grow to float.
    """
    count, _, height, width = images.shape
    device = images.device
    rows = torch.arange(-pad, height + pad, device=device).clamp_(0, height - 1)
    columns = torch.arange(-pad, width + pad, device=device).clamp_(0, width - 1)
    padded = images.index_select(2, rows).index_select(3, columns)
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)  # (N, C, 2 pad + 1, 2 pad + 1, H, W), a view
    return windows[torch.arange(count, device=device), :, offsets[:, 0], offsets[:, 1]]


def random_intensity(images: torch.Tensor, normal: torch.Tensor) -> torch.Tensor:
    """Multiply each image (N, C, H, W), in place, by 1 + 0.05 * clip(normal (N,), -2, 2)."""
    factor = 1.0 + INTENSITY * normal.clamp(-2.0, 2.0)
    return images.mul_(factor[:, None, None, None])


def augment(images: torch.Tensor, noise: Noise, crop_extra: int = 1) -> torch.Tensor:
    """Augmented network inputs (N, C, H, W) float from stored images; all frames of a state share the draw."""
    offsets = noise.integers(2 * PAD + crop_extra, (images.shape[0], 2))
    normal = noise.normal((images.shape[0],))
    return random_intensity(to_float(random_shift(images, offsets)), normal)
