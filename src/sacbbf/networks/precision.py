"""How a pass is computed: in reduced precision (autocast) or not, for functions whose gradients are written out.

PyTorch casts the inputs of single operations then, and only on their way forward. Such a function has its inputs cast
as a whole instead, and computes both ways in what it was given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

Answer = TypeVar("Answer")  # a tensor or several

DEVICES = ("cpu", "cuda", "mps")  # that know autocast


def reduced(device: torch.device) -> torch.dtype | None:
    """Return the precision that passes on a device are reduced to at present, if they are."""
    kind = device.type
    return torch.get_autocast_dtype(kind) if kind in DEVICES and torch.is_autocast_enabled(kind) else None


def plainly_on_cpu(device: torch.device) -> bool:
    """Whether passes on a device run on a CPU, in full precision, neither compiled nor exported."""
    return device.type == "cpu" and reduced(device) is None and not torch.compiler.is_compiling()


def in_one_precision(function: Callable[..., Answer], *tensors: torch.Tensor) -> Answer:
    """Call a function of tensors, which are cast first where precision is reduced, and no operation of it casts any."""
    device = tensors[0].device
    dtype = reduced(device)
    if dtype is None:
        return function(*tensors)
    with torch.autocast(device.type, enabled=False):
        return function(*(tensor.to(dtype) for tensor in tensors))
