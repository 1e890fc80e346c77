"""Small tensors that never change, made once for each device.

A plain number in an operation, or a range counted anew, costs PyTorch more time than the arithmetic of a small update's
operation: the number becomes a tensor of another type first. Compiled code has no such cost, and gets them plain.
"""

from __future__ import annotations

from functools import cache

import torch


def number(value: float, device: torch.device) -> torch.Tensor | float:
    """Return a float32 scalar to add to or multiply with tensors of a device."""
    return value if torch.compiler.is_compiling() else _kept_number(value, device)


def counting(count: int, device: torch.device) -> torch.Tensor:
    """Return 0 .. count - 1, int64; not to be changed in place."""
    return torch.arange(count, device=device) if torch.compiler.is_compiling() else _kept_counting(count, device)


@cache
@torch.inference_mode(False)
def _kept_number(value: float, device: torch.device) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float32, device=device)


@cache
@torch.inference_mode(False)
def _kept_counting(count: int, device: torch.device) -> torch.Tensor:
    return torch.arange(count, device=device)
