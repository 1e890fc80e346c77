"""The processor that this runs on: its name and its maker."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")  # Linux's


def name() -> str:
    """Return the processor's model name, or what is known of it."""
    return _fact("model name") or platform.processor() or "unknown"


@cache
def by_amd() -> bool:
    """Whether AMD made it: MKL and oneDNN, which are Intel's, leave more of its arithmetic unused."""
    return _fact("vendor_id") == "AuthenticAMD"


def features() -> str:
    """Return what its instructions include, as the system lists it; nothing where it does not."""
    return _fact("flags") or _fact("Features")


def _fact(key: str) -> str:
    """The first processor's entry of that key, or nothing."""
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "")
