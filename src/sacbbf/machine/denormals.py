"""Denormals, the numbers too small to be held in full precision, flushed to zero.

The optimiser's average gradient of a weight that gets none shrinks by a tenth in every update. After some six hundred
it is below 1e-38, where the processor computes many times slower, and rounding keeps it there for good. Flushed to
zero it costs nothing; `docs/performance.md` has the figures.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def denormals_are_flushed() -> bool:
    """Whether this thread flushes denormals to zero."""
    return sys.float_info.min / 2.0 == 0.0


@contextmanager
def flush_denormals() -> Iterator[None]:
    """Flush denormals to zero meanwhile, where the processor can.

    It holds for this thread and for those that it starts: PyTorch's own are started by the first large operation.
    """
    before = denormals_are_flushed()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
