"""How the C library hands memory back: by default it returns large freed blocks at once, and every update faults
their pages in again. Keeping them costs nothing that an update does not use anyway."""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's names, from malloc.h
LARGEST_ON_HEAP = 32 << 20  # bytes; glibc takes no more
KEEP = 1 << 30  # bytes of freed memory that stay with the process


def keep_freed_pages() -> bool:
    """Ask glibc to keep freed pages for reuse; returns whether it did (elsewhere there is nothing to ask)."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST_ON_HEAP)) and bool(mallopt(M_TRIM_THRESHOLD, KEEP))
