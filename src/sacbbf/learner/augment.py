"""From stored observations to network inputs: random shift, conversion to float, random intensity."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sacbbf.learner.noise import Noise
from sacbbf.native.pictures import can_block, centred_blocks

PAD = 4  # pixels of edge replication on each side (DrQ)
WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes
BLOCK_ROWS = 4  # of pixels in a block
INTENSITY = 0.05  # standard deviation of the brightness factor, before clipping at two of them (DrQ)


@dataclass(frozen=True, slots=True)
class Inputs:
    """A batch's states as networks take them: s_t (B, ...), and those after it, row by row (rows * B, ...)."""

    now: torch.Tensor
    later: torch.Tensor

    @classmethod
    def of(cls, states: torch.Tensor, size: int) -> Inputs:
        """Of all states in one tensor ((1 + rows) * B, ...), `size` being B."""
        return cls(states[:size], states[size:])

    def row(self, number: int) -> torch.Tensor:
        """States (B, ...) of a row; the first one after s_t is number 1."""
        size = self.now.shape[0]
        return self.later[(number - 1) * size : number * size]


def to_float(states: torch.Tensor) -> torch.Tensor:
    """Network input from stored states (N, ...): uint8 becomes [0, 1], bool 0 or 1, floats stay.

    Images come out in channels-last layout, which convolutions are fastest in.
    """
    if states.dim() == 4:
        floats = states.to(torch.float32, memory_format=torch.channels_last)
    else:
        floats = states.to(torch.float32)
    return floats.div_(255.0) if states.dtype == torch.uint8 else floats


def grids_to_float(grids: torch.Tensor) -> torch.Tensor:
    """Network input from many stored grids (N, C, H, W) of bools: 0 or 1, in channels-last layout, as `to_float`.

    Bytes are brought into that layout before they grow to floats; exported networks know no such view.
    """
    return grids.view(torch.uint8).permute(0, 2, 3, 1).contiguous().to(torch.float32).permute(0, 3, 1, 2)


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
    if can_merge(images):
        pixels[:, rows, columns] = merge(images).view(pixels.dtype).view(count, height, width, -1)
    else:
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


def can_merge(images: torch.Tensor) -> bool:
    """Whether `merge` takes images (N, C, H, W): bytes in this computer's memory, each channel's all together."""
    here = type(images) is torch.Tensor and images.device.type == "cpu"  # traced tensors have no memory to read
    return here and images.dtype == torch.uint8 and 2 <= images.shape[1] <= 4 and images[:, 0].is_contiguous()


def merge(images: torch.Tensor) -> torch.Tensor:
    """Bytes of images (N, C, H, W) interleaved: (N * H, W, C). By OpenCV, which knows an instruction for it."""
    import cv2  # not needed elsewhere for learning, and slow to import

    planes = [plane.reshape(-1, images.shape[3]).numpy() for plane in images.unbind(1)]
    return torch.from_numpy(cv2.merge(planes))


def brightness(normal: torch.Tensor) -> torch.Tensor:
    """Factors (N,) of brightness from standard normal draws (N,): 1 + 0.05 * clip(normal, -2, 2)."""
    return 1.0 + INTENSITY * normal.clamp(-2.0, 2.0)


def draw(images: torch.Tensor, noise: Noise, crop_extra: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Where each of N images is cropped, (N, 2), and what multiplies it, (N,): brightness and scaling to [0, 1]."""
    offsets = noise.integers(2 * PAD + crop_extra, (images.shape[0], 2))
    factors = brightness(noise.normal((images.shape[0],)))
    return offsets, factors / 255.0 if images.dtype == torch.uint8 else factors


def augment(images: torch.Tensor, noise: Noise, crop_extra: int = 1) -> torch.Tensor:
    """Augmented network inputs (N, C, H, W) float from stored images; all frames of a state share the draw."""
    offsets, factors = draw(images, noise, crop_extra)
    return random_shift(images, offsets).to(torch.float32).mul_(factors[:, None, None, None])


def can_augment_in_blocks(images: torch.Tensor) -> bool:
    """Whether `augment_in_blocks` takes images (N, C, H, W)."""
    return can_block(images, BLOCK_ROWS)


def augment_in_blocks(images: torch.Tensor, size: int, noise: Noise, crop_extra: int = 1) -> Inputs:
    """What `augment` returns, less each image's mean and in blocks of pixels, of which the first `size` are s_t.

    Layers are fastest on blocks of four rows, their gradients on single rows; so s_t, which needs gradients, has those.
    """
    offsets, factors = draw(images, noise, crop_extra)
    parts = ((slice(None, size), 1), (slice(size, None), BLOCK_ROWS))
    return Inputs(*(centred_blocks(images[at], offsets[at], factors[at], rows, PAD) for at, rows in parts))
