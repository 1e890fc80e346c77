"""How memory is handed out: an update frees and takes the same large blocks over and over.

By default the C library gives freed blocks back to the system at once, and every update faults their pages in
again. Here they stay with the process, in huge pages where the system has them; `docs/performance.md` has the figures.
"""

from __future__ import annotations

import ctypes
import os

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's numbers, from malloc.h
LARGEST_ON_HEAP = 1 << 30  # bytes; larger blocks are mapped and unmapped as before
NEVER = -1


def prefer_huge_pages() -> None:
    """Let PyTorch ask for huge pages; it reads this once, at its first allocation, so call it before importing."""
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def keep_freed_pages() -> bool:
    """Ask glibc to keep freed pages for reuse; returns whether it did (elsewhere there is nothing to ask)."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST_ON_HEAP)) and bool(mallopt(M_TRIM_THRESHOLD, NEVER))
