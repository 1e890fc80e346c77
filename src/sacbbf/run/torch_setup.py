"""How PyTorch computes while a run, or an agent of one, is at work: threads, precision, denormals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

import sacbbf.kernels  # noqa: F401 - what `compute.kernels` may use
from sacbbf.machine.denormals import flush_denormals
from sacbbf.run.settings import RunConfig


@contextmanager
def torch_set_up(config: RunConfig) -> Iterator[None]:
    """Let PyTorch compute as a configuration says meanwhile; 0 threads: as many as it uses anyway."""
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    tf32 = torch.backends.cudnn.allow_tf32
    chosen = config.settings.compute.precision
    exact = chosen == "float32" or (chosen == "auto" and not config.device.startswith("cuda"))
    try:
        torch.set_num_threads(config.threads or threads)
        torch.set_float32_matmul_precision("highest" if exact else "high")
        torch.backends.cudnn.allow_tf32 = not exact
        with flush_denormals():
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)
        torch.backends.cudnn.allow_tf32 = tf32
