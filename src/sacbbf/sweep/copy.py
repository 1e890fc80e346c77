"""A run that is made from a copy of another: its folder appears only when all of it is there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sacbbf.disk.reading import copy_file


@contextmanager
def copied_run(source: Path, target: Path) -> Iterator[Path]:
    """Copy a run, hand the copy out to be changed, and give it its name at the end; after an error nothing is left."""
    part = target.with_name(f".{target.name}.{os.getpid()}")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copytree(source, part, copy_function=_copy, ignore=_linked_folders)
        yield part
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _linked_folders(folder: str, names: list[str]) -> set[str]:
    """Folders that are links: what they lead to is not the run's own."""
    return {name for name in names if (path := Path(folder, name)).is_symlink() and path.is_dir()}


def _copy(source: str, target: str) -> None:
    copy_file(Path(source), Path(target))
