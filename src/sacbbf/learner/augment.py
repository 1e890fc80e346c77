"""From stored observations to network inputs: random shift, conversion to float, random intensity."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sacbbf.learner.noise import Noise

PAD = 4  # pixels of edge replication on each side (DrQ)
WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes
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

    Works on any dtype, so that uint8 frames are shifted before they grow to float, and leaves the result in
    channels-last layout. Crops are windows on the padded images, a pixel's channels one word where they fit one, so
    that whole rows are copied.
    """
    count, channels, height, width = images.shape
    tall, wide = height + 2 * pad, width + 2 * pad
    rows, columns = slice(pad, pad + height), slice(pad, pad + width)
    padded = images.new_empty(count, tall, wide, channels)
    word = WORDS.get(channels * images.element_size())
    pixels = padded if word is None else padded.view(word)
    for number, plane in enumerate(images.unbind(1)):  # much faster than one copy of the permuted images
        padded[:, rows, columns, number].copy_(plane)
    pixels[:, rows, :pad] = pixels[:, rows, pad : pad + 1]
    pixels[:, rows, -pad:] = pixels[:, rows, -pad - 1 : -pad]
    pixels[:, :pad] = pixels[:, pad : pad + 1]
    pixels[:, -pad:] = pixels[:, -pad - 1 : -pad]
    depth = pixels.shape[3]
    starts = count * tall * wide - (height - 1) * wide - (width - 1)  # pixels that a window may begin at
    windows = pixels.as_strided((starts, height, width, depth), (depth, wide * depth, depth, 1))
    corners = (torch.arange(count, device=images.device) * tall + offsets[:, 0]) * wide + offsets[:, 1]
    return windows[corners].view(images.dtype).view(count, height, width, channels).permute(0, 3, 1, 2)


def brightness(normal: torch.Tensor) -> torch.Tensor:
    """Factors (N,) of brightness from standard normal draws (N,): 1 + 0.05 * clip(normal, -2, 2)."""
    return 1.0 + INTENSITY * normal.clamp(-2.0, 2.0)


@dataclass(frozen=True, slots=True)
class Observations:
    """An update's observations; they become floats, four times as large as bytes, only where they are encoded."""

    states: torch.Tensor  # (rows, B, ...) as stored, perhaps shifted
    factors: torch.Tensor | None = None  # (rows, B) of brightness and scaling to [0, 1]

    def floats(self, first: int, last: int) -> torch.Tensor:
        """Network inputs ((last - first) * B, ...) of the rows from `first` to before `last`."""
        states = self.states[first:last].flatten(0, 1)
        if self.factors is None:
            return to_float(states)
        return states.to(torch.float32, copy=True).mul_(self.factors[first:last].flatten()[:, None, None, None])


def augment(states: torch.Tensor, noise: Noise, crop_extra: int = 1) -> Observations:
    """Shift and light each of the stored images (rows, B, C, H, W) by draws of its own; its frames share them."""
    rows, size = states.shape[:2]
    offsets = noise.integers(2 * PAD + crop_extra, (rows * size, 2))
    factors = brightness(noise.normal((rows * size,))).view(rows, size)
    shifted = torch.unflatten(random_shift(states.flatten(0, 1), offsets), 0, (rows, size))
    return Observations(shifted, factors / 255.0 if states.dtype == torch.uint8 else factors)
