"""Numbers too small to be held in full precision, taken for zero.

The optimiser's average gradient of a weight that gets none shrinks by a tenth in every update. After some six hundred
it is below 1e-38, where the processor computes many times slower, and rounding keeps it there for good. Taken for zero
it costs nothing; `docs/performance.md` has the figures.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def flushed() -> bool:
    """Whether this thread takes subnormal numbers for zero."""
    return sys.float_info.min / 2.0 == 0.0


@contextmanager
def flushing() -> Iterator[None]:
    """Take subnormal numbers for zero meanwhile, where the processor can.

    It holds for this thread and for those that it starts: PyTorch's own are started by the first large operation.
    """
    before = flushed()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
