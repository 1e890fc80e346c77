"""Augmented pictures in one pass: shifted, less their mean, multiplied, in blocks of pixels as channels."""

from __future__ import annotations

import torch

from sacbbf.native import library

COLUMNS = 4  # of a block
LARGEST = 1 << 18  # bytes of a picture: one lies on a thread's stack while it is worked on


def can_block(images: torch.Tensor, rows: int) -> bool:
    """Whether `centred_blocks` takes images (N, C, H, W): bytes in this computer's memory, each plane in one piece."""
    if type(images) is not torch.Tensor or images.device.type != "cpu" or images.dtype != torch.uint8:
        return False  # traced tensors have no memory to read
    height, width = images.shape[2:]
    whole = images.stride(3) == 1 and images.stride(2) == width and images[0].numel() <= LARGEST
    return whole and height % rows == 0 and width % COLUMNS == 0 and library.library() is not None


def centred_blocks(
    images: torch.Tensor, offsets: torch.Tensor, factors: torch.Tensor, rows: int, pad: int
) -> torch.Tensor:
    """Crop images (N, C, H, W), padded by edge replication, take away each one's mean, and multiply by factors (N,).

    Crops begin at offsets (N, 2) in 0 .. 2 * pad, (row, column); others are taken for the nearest of these. Blocks of
    `rows` x 4 pixels become channels, in the order (C, rows, 4): (N, 4 rows C, H / rows, W / 4), float32, in
    channels-last layout. `can_block` must hold.
    """
    count, planes, height, width = images.shape
    functions = library.library()
    assert functions is not None, "can_block was not asked"
    if offsets.shape != (count, 2) or offsets.dtype != torch.int64:
        raise ValueError(f"offsets: got {offsets.dtype} of shape {tuple(offsets.shape)}, must be int64 of ({count}, 2)")
    if factors.shape != (count,):
        raise ValueError(f"factors: got shape {tuple(factors.shape)}, must be ({count},)")
    offsets, factors = offsets.contiguous(), factors.to(torch.float32).contiguous()
    out = torch.empty(count, height // rows, width // COLUMNS, planes * rows * COLUMNS)
    functions.pictures(
        images.data_ptr(),
        images.stride(0),
        images.stride(1),
        offsets.data_ptr(),
        factors.data_ptr(),
        out.data_ptr(),
        count,
        planes,
        height,
        width,
        pad,
        rows,
        torch.get_num_threads(),
    )
    return out.permute(0, 3, 1, 2)
