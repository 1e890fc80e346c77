"""What this machine computes on: its devices, and whether torch.compile has what it needs.

PyTorch is slow to import, so only where it is asked for a GPU.
"""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

from sacbbf.errors import UsageError


def resolve_device(device: str) -> str:
    """Return the device meant by `device`; `auto` is CUDA where there is one, else the CPU."""
    if device == "auto":
        return "cuda" if has_cuda() else "cpu"
    kind = device.split(":")[0]
    if kind not in ("cpu", "cuda", "mps"):
        raise UsageError(f"device = {device!r}: must be auto, cpu, cuda, cuda:N or mps")
    if kind == "cuda" and not has_cuda():
        raise UsageError(f"device = {device!r}: PyTorch sees no CUDA device here; use cpu")
    if kind == "mps" and not _has_metal():
        raise UsageError(f"device = {device!r}: PyTorch sees no Metal device here; use cpu")
    return device


def has_cuda() -> bool:
    """Whether PyTorch can compute on a CUDA device here."""
    import torch

    return torch.cuda.is_available()


def gpu_count() -> int:
    """Return how many CUDA devices PyTorch sees."""
    import torch

    return torch.cuda.device_count()


def _has_metal() -> bool:
    import torch

    return torch.backends.mps.is_available()


def can_compile(device: str) -> bool:
    """Whether torch.compile has what it needs here."""
    try:
        check_compiler(device)
    except UsageError:
        return False
    return True


def check_compiler(device: str) -> None:
    """Raise UsageError where torch.compile lacks what it compiles with: a C++ compiler, on CUDA Triton."""
    if device.startswith("cuda"):
        if find_spec("triton") is None:
            raise UsageError(
                "compute.compile = True: needs Triton on CUDA, which is not installed; it must be False here"
            )
        return
    compiler = os.environ.get("CXX", "g++")  # as PyTorch looks for it
    if shutil.which(compiler) is None:
        raise UsageError(
            f"compute.compile = True: needs a C++ compiler, and {compiler} is not here; install one or name it by the "
            "environment variable CXX, else it must be False"
        )
