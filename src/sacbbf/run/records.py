"""A run directory: where each file lies, and how it is written so that nothing half written is ever read.

Files that are compared between runs hold no wall-clock times: `episodes.jsonl`, `metrics.jsonl` and
`evaluations.jsonl` depend on the configuration alone; times go to `speed.jsonl`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sacbbf.errors import UsageError

RECORDS = ("episodes", "metrics", "evaluations", "speed")


@dataclass(frozen=True)
class RunDirectory:
    """Paths of a run's files."""

    path: Path

    @property
    def config(self) -> Path:
        """The resolved configuration."""
        return self.path / "config.toml"

    @property
    def policy(self) -> Path:
        """The networks that act, as safetensors."""
        return self.path / "policy.safetensors"

    @property
    def result(self) -> Path:
        """The score and how it came about."""
        return self.path / "result.json"

    @property
    def curve(self) -> Path:
        """The learning curve as a picture."""
        return self.path / "curve.png"

    @property
    def tensorboard(self) -> Path:
        """Folder of TensorBoard's event files."""
        return self.path / "tensorboard"

    def record(self, name: str) -> Path:
        """One of the line-by-line records: episodes, metrics, evaluations, speed."""
        return self.path / f"{name}.jsonl"

    def create(self, config: str) -> None:
        """Make the directory, refusing one that holds anything already, and store the configuration in it."""
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            held = "another run" if self.config.exists() else "other files"
            raise UsageError(f"out = {self.path}: holds {held} already; choose a new or empty directory")
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(self.config, config.encode())

    def require(self) -> RunDirectory:
        """Return itself if it holds a run, else raise UsageError."""
        if not self.config.is_file():
            raise UsageError(f"{self.path} is not a run directory: it holds no config.toml")
        return self


def default_directory(env: str, agent: str, size: str, seed: int) -> Path:
    """Return the first free `runs/ENV-AGENT-SIZE-seedN`, with a number behind it if need be."""
    name = env.removeprefix("ALE/").replace("/", "-").replace(":", "-")
    base = Path("runs") / f"{name}-{agent}-{size}-seed{seed}"
    candidates = (base if number == 1 else base.with_name(f"{base.name}-{number}") for number in range(1, 10_000))
    return next(path for path in candidates if not path.exists())


def write_atomically(path: Path, content: bytes) -> None:
    """Write a whole file or none: under another name first, flushed to disk, then renamed."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, atomically."""
    write_atomically(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


class JsonLines:
    """A file of one JSON object per line, appended to and flushed line by line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")

    def append(self, **values: Any) -> None:
        """Append one line; numbers that JSON cannot hold become null."""
        clean = {name: None if _not_finite(value) else value for name, value in values.items()}
        self._file.write(json.dumps(clean) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Objects of a JSON-lines file; none if there is no such file, and a line cut off at the end is left out."""
    if not path.exists():
        return
    with path.open() as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)


def _not_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
