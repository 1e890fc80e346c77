"""Compiles the C source beside it when it is first needed, and keeps the result for later processes.

Only on Linux, and only where there is a C compiler or an earlier result; `library` says None elsewhere, and if the
environment has SACBBF_NATIVE=0. Everything that asks for it has a way without. The library has no OpenMP of its own: it
uses PyTorch's, whose threads would otherwise be in its way while they wait for their next work.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import torch  # brings OpenMP into the process

from sacbbf import processor

SWITCH = "SACBBF_NATIVE"  # an environment variable; 0: do without
SOURCE = Path(__file__).with_name("functions.c")
COMPILERS = ("cc", "gcc")
# Sums and products are not contracted: their last bits would depend on the compiler's choice.
FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fPIC", "-fopenmp")
TYPES = {"p": ctypes.c_void_p, "l": ctypes.c_int64, "i": ctypes.c_int}  # pointers and numbers
ARGUMENTS = {
    "pictures": "pllpppliiiiii",
    "rescale": "ppppplli",
    "rescale_gradient": "pppppppllii",
    "cosine": "ppppplli",
    "cosine_gradient": "ppppppplli",
}
SECONDS = 60.0  # that a compiler may take


def takes(rows: torch.Tensor) -> bool:
    """Whether there are functions for a tensor of rows: floats in this computer's memory, one after the other."""
    plain = type(rows) is torch.Tensor and rows.device.type == "cpu" and rows.dtype == torch.float32
    return plain and rows.is_contiguous() and library() is not None  # traced tensors have no memory to read


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled functions, or None where they cannot be had."""
    if not sys.platform.startswith("linux") or os.environ.get(SWITCH) == "0":
        return None
    kept = place()
    if kept is not None and (found := _load(kept)) is not None:
        return found
    with tempfile.TemporaryDirectory() as folder:
        built = _build(Path(folder))
        found = None if built is None else _load(built)  # stays loaded when its file is gone
        if built is not None and found is not None and kept is not None:
            _keep(built, kept)
    return found


def place() -> Path | None:
    """Where the result for this source and this processor is kept: the user's cache folder, if there is one."""
    parts = (SOURCE.read_text(), *FLAGS, processor.name(), processor.features())
    name = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a user without a home
        return None
    return folder / "sacbbf" / f"functions-{name}.so"


def _build(folder: Path) -> Path | None:
    """Compile within a folder; None if there is no compiler, or it fails."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        return None
    unlinked, built = folder / "functions.o", folder / "functions.so"
    for arguments in ((*FLAGS, "-c", SOURCE, "-o", unlinked), ("-shared", unlinked, "-o", built)):
        try:
            done = subprocess.run([compiler, *map(str, arguments)], capture_output=True, timeout=SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode != 0:
            return None
    return built


def _load(path: Path) -> ctypes.CDLL | None:
    try:
        found = ctypes.CDLL(str(path), mode=os.RTLD_NOW)  # at once: a symbol that is missing is an error here
        for name, arguments in ARGUMENTS.items():
            function = getattr(found, name)
            function.argtypes, function.restype = [TYPES[kind] for kind in arguments], None
    except (OSError, AttributeError):
        return None
    return found


def _keep(built: Path, kept: Path) -> None:
    """Copy a result to where later processes look for it, whole or not at all."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            copy = Path(shutil.copy(built, folder))
            copy.replace(kept)
    except OSError:
        pass  # the next process compiles again
