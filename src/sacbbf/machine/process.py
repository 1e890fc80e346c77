"""A process that does nothing but compute: what it may settle for itself, unlike a library in somebody's program."""

from __future__ import annotations

from sacbbf.machine.allocator import keep_freed_pages
from sacbbf.machine.collector import spare_imports


def settle() -> None:
    """Keep freed memory, and leave what was imported to itself; call it once PyTorch is imported."""
    keep_freed_pages()
    spare_imports()
