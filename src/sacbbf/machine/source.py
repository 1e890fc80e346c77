"""The commit of the code that is running, where it runs from a git checkout."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path


@cache
def commit_of(file: Path) -> str | None:
    """Return the commit of the checkout that tracks a file, with `-dirty` where tracked files were changed.

    None for a file that no checkout tracks, such as one of an installed package, and where there is no git.
    """
    if not _git(file, "ls-files", "--error-unmatch", file.name):
        return None
    return _git(file, "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*")


def _git(file: Path, *words: str) -> str | None:
    """What git prints of the folder that a file is in; None if it fails."""
    try:
        done = subprocess.run(["git", "-C", str(file.parent), *words], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
