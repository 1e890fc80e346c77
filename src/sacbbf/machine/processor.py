"""The processor that this runs on."""

from __future__ import annotations

import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")  # Linux's


def name() -> str:
    """Return the processor's model name, or what is known of it."""
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        lines = []
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(models, "") or platform.processor() or "unknown"
