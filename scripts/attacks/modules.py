"""Modules that must not be imported: each leaves a mark if it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from attacks.changes import Change, in_text
from attacks.readers import READERS

EVIL = "MARK"  # what a module leaves that was imported
SHADOWS = ("tomli_w", "torch", "evil", "numpy", "rich", "tyro", "gymnasium", "safetensors", "matplotlib", "cv2")


def hostile() -> Iterator[tuple[str, tuple[str, ...], Change]]:
    """Configurations that name a module which lies in the working directory, in the run, or both."""
    named = (
        ('env = "MinAtar/Breakout-v1"', 'env = "evil:X-v0"'),
        ('env = "MinAtar/Breakout-v1"', 'env = "run.evil:X-v0"'),
        ("imports = []", 'imports = ["evil"]'),
        ("wrappers = []", 'wrappers = ["evil:X"]'),
    )
    for old, new in named:
        for reader in ("evaluate", "play", "export", "report", "page", "diff", "watch", "init", "finished"):
            yield new, READERS[reader], _plant("run/config.toml", old, new)
        yield new, READERS["resume"], _plant("stopped/config.toml", old, new)
    old, new = '"MinAtar/Breakout-v1"', '"evil:X-v0"'
    for reader in ("status", "sweep", "swept", "seen"):
        yield f"sweep of {new}", READERS[reader], _plant("sweep/sweep.json", old, new)


def _plant(name: str, old: str, new: str) -> Change:
    def change(made: Path) -> None:
        in_text(name, old, new)(made)
        for folder in (made, made / "run", made / "stopped", made / "sweep"):
            (folder / "evil.py").write_text(f"open({str(made / EVIL)!r}, 'w').close()\n")

    return change
