"""Measuring: repeated timings with their spread, the machine's own peak, and peak memory."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional as F


@dataclass(frozen=True)
class Spread:
    """Median of repeated measurements, with their quartiles."""

    median: float
    low: float
    high: float
    count: int

    def show(self, scale: float = 1.0, digits: int = 2) -> str:
        """Return `median (low to high)` times `scale`."""
        return f"{self.median * scale:,.{digits}f} ({self.low * scale:,.{digits}f} to {self.high * scale:,.{digits}f})"


def spread(values: Sequence[float]) -> Spread:
    """Return median and quartiles of at least one value."""
    if len(values) < 2:
        return Spread(values[0], values[0], values[0], 1)
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high, len(values))


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """Return the wall time of one call, waiting for the device."""
    synchronise(device)
    start = time.perf_counter()
    work()
    synchronise(device)
    return time.perf_counter() - start


def synchronise(device: torch.device) -> None:
    """Wait until everything queued on the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


class PartsTimer:
    """Adds up the time spent in each named part of an update; pass it to a learner as its timer.

    Parts follow one another, so the timer is its own context.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.totals: dict[str, float] = defaultdict(float)
        self.part, self.start = "", 0.0

    def __call__(self, part: str) -> PartsTimer:
        """Return a context whose duration counts for `part`."""
        self.part = part
        return self

    def __enter__(self) -> None:
        synchronise(self.device)
        self.start = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        synchronise(self.device)
        self.totals[self.part] += time.perf_counter() - self.start

    def take(self) -> dict[str, float]:
        """Return seconds by part since the last call, and start afresh."""
        taken = dict(self.totals)
        self.totals.clear()
        return taken


class Peak:
    """The machine's own arithmetic rate, the best of a large fp32 convolution and matrix product, in FLOP/s."""

    def __init__(self, device: torch.device, span: float = 0.3) -> None:
        """Measure each operation over at least `span` seconds."""
        self.device, self.span = device, span
        on_cpu = device.type == "cpu"
        size = 2048 if on_cpu else 8192
        self.a = torch.randn(size, size, device=device)
        self.b = torch.randn(size, size, device=device)
        self.product = torch.empty(size, size, device=device)
        batch, channels, side = (32 if on_cpu else 256), 128, 42
        layout = torch.channels_last
        self.images = torch.randn(batch, channels, side, side, device=device).contiguous(memory_format=layout)
        self.kernel = torch.randn(channels, channels, 3, 3, device=device).contiguous(memory_format=layout)
        self.matmul_flops = 2.0 * size**3
        self.conv_flops = 2.0 * batch * side * side * channels * channels * 9

    @torch.inference_mode()
    def measure(self) -> float:
        """Return the better of the rates that convolution and matrix product sustain, each over its span."""
        matmul = self._sustained(lambda: torch.mm(self.a, self.b, out=self.product))
        conv = self._sustained(lambda: F.conv2d(self.images, self.kernel, padding=1))
        return max(self.matmul_flops / matmul, self.conv_flops / conv)

    def _sustained(self, work: Callable[[], object]) -> float:
        """Return the mean seconds of a call over at least the span: single calls catch or miss a neighbour's pause."""
        taken: list[float] = []
        while sum(taken) < self.span:
            taken.append(seconds(work, self.device))
        return sum(taken) / len(taken)


def peak_memory_bytes() -> int:
    """Return the most memory that this process has held so far.

    On Linux from /proc: what getrusage says there begins with the memory of the process that started this one.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        pass
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024
