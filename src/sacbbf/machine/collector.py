"""What the garbage collector searches: not what was imported, which stays to the end."""

from __future__ import annotations

import gc


def spare_imports() -> None:
    """Leave all that there is now to itself, once; what comes later is searched as ever.

    PyTorch brings several hundred thousand objects, and every full search went through them: half a second before
    a run's first step.
    """
    if not gc.get_freeze_count():
        gc.freeze()
