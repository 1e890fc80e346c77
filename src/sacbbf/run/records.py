"""A run directory: where each file lies, and how it is written so that nothing half written is ever read.

Files that are compared between runs hold no wall-clock times: `episodes.jsonl`, `metrics.jsonl`,
`evaluations.jsonl` and `diagnostics.jsonl` depend on the configuration alone; times go to `speed.jsonl`.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sacbbf.disk.faults import reach
from sacbbf.disk.files import Damaged, write_atomically
from sacbbf.disk.lease import Lease, state_folder
from sacbbf.disk.reading import LINE, RECORD, RESULT, Unreadable, is_there, open_file, parse_json, read_json
from sacbbf.errors import RunFailed, UsageError
from sacbbf.run.result_kinds import check_result

RECORDS = ("episodes", "metrics", "evaluations", "diagnostics", "speed")
PIECE = 1 << 20  # bytes read at a time


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
    def initial_policy(self) -> Path:
        """The networks that the run started from, if they were not drawn."""
        return self.path / "initial.safetensors"

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
        """One of the line-by-line records: episodes, metrics, evaluations, diagnostics, speed."""
        return self.path / f"{name}.jsonl"

    def prepare(self) -> None:
        """Make the directory; one that holds other things than a run is refused."""
        if self.path.exists() and not self.config.exists() and (not self.path.is_dir() or self._holds_other_files()):
            raise UsageError(f"out = {self.path}: holds other files already; choose a new or empty directory")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"out = {self.path}: cannot be made: {error.strerror}") from error

    @property
    def holds_run(self) -> bool:
        """Whether a run was begun or finished here; the folder of a saved agent has a policy too, but no records."""
        if self.result.exists() or any(self.record(name).exists() for name in RECORDS):
            return True
        return self.has_state and not self.policy.exists()

    @property
    def has_state(self) -> bool:
        """Whether there is more than a policy: what learning needs to go on."""
        return state_folder(self.path) is not None

    def require(self) -> RunDirectory:
        """Return itself if it holds a run, else raise UsageError."""
        if not is_there(self.config):
            raise UsageError(f"{self.path} is not a run directory: it holds no config.toml")
        return self

    def read_result(self) -> dict[str, Any] | None:
        """Return what `result.json` holds; None if there is none."""
        try:
            found = read_json(self.result, RESULT, "a run's result")
        except FileNotFoundError:
            return None
        check_result(self.result, found)
        return found

    def _holds_other_files(self) -> bool:
        """Whether there is more than what a process leaves that was killed before it had stored its configuration."""
        return any(not path.name.startswith((".", "state.")) for path in self.path.iterdir())


def default_directory(env: str, agent: str, size: str, seed: int) -> Path:
    """Return the first free `runs/ENV-AGENT-SIZE-seedN`, with a number behind it if need be."""
    name = env.removeprefix("ALE/").replace("/", "-").replace(":", "-")
    base = Path("runs") / f"{name}-{agent}-{size}-seed{seed}"
    candidates = (base if number == 1 else base.with_name(f"{base.name}-{number}") for number in range(1, 10_000))
    return next(path for path in candidates if not path.exists())


def json_bytes(value: Any) -> bytes:
    """Return a value as indented JSON."""
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, atomically."""
    write_atomically(path, json_bytes(value))


@dataclass(frozen=True)
class Mark:
    """How far a record has come: its bytes, and their checksum."""

    size: int = 0
    sha256: str = hashlib.sha256().hexdigest()


class JsonLines:
    """A file of one JSON object per line, appended to line by line; it begins behind a mark that it reached before."""

    def __init__(self, lease: Lease, path: Path, mark: Mark | None = None) -> None:
        self.path = path
        mark = mark or Mark()
        self._hash = _hash_prefix(path, mark)
        self._size = mark.size
        lease.copy_prefix(path, mark.size, f"{path.name} cut")
        self._file = path.open("ab", buffering=0)
        lease.check()  # what is open now was not a later owner's

    def append(self, **values: Any) -> None:
        """Append one line; numbers that JSON cannot hold become null."""
        clean = {name: None if _not_finite(value) else value for name, value in values.items()}
        line = (json.dumps(clean) + "\n").encode()
        reach(f"{self.path.name}: before append")
        half = len(line) // 2
        self._write(line[:half])
        reach(f"{self.path.name}: inside append")
        self._write(line[half:])
        reach(f"{self.path.name}: after append")
        self._hash.update(line)
        self._size += len(line)

    def sync(self) -> Mark:
        """Flush everything to disk and return how far the record has come."""
        os.fsync(self._file.fileno())
        reach(f"{self.path.name}: after fsync")
        return Mark(self._size, self._hash.hexdigest())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, content: bytes) -> None:
        try:
            done = self._file.write(content) or 0
            if done < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise RunFailed(
                f"cannot write {self.path}: {error.strerror}; the run can be taken up from its last checkpoint: "
                f"sacbbf resume {self.path.parent}"
            ) from error


def _hash_prefix(path: Path, mark: Mark) -> Any:
    """Return the running checksum of a record's first bytes; Damaged if they are not those that were marked."""
    found = hashlib.sha256()
    left = mark.size
    try:
        if left:
            with open_file(path, RECORD) as file:
                while left and (piece := file.read(min(left, PIECE))):
                    found.update(piece)
                    left -= len(piece)
    except Unreadable as error:
        raise Damaged(str(error)) from error
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from error
    if left:
        raise Damaged(f"{path} has lost {left} of its {mark.size} bytes")
    if found.hexdigest() != mark.sha256:
        raise Damaged(f"{path} has a wrong checksum: its lines are not what was written")
    return found


def check_record(path: Path, mark: Mark) -> None:
    """Raise Damaged unless a record still begins with what it held at a mark."""
    _hash_prefix(path, mark)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Objects of a record, a line each; none if there is no such file, and a line cut off at the end is left out."""
    try:
        file = open_file(path, RECORD)
    except FileNotFoundError:
        return
    with file:
        number = 1
        while (line := file.readline(LINE)).endswith(b"\n"):
            yield _object(line, path, number)
            number += 1
    if len(line) == LINE:
        raise Unreadable(path, f"line {number} has more than {LINE:,} bytes")


def _object(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        found = parse_json(line)
    except (ValueError, RecursionError) as error:
        raise Unreadable(path, f"line {number} is not one of a record: {error}") from error
    if not isinstance(found, dict):
        raise Unreadable(path, f"line {number} is not one of a record: it holds no object")
    return found


def _not_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def find_runs(path: Path, on_link: Callable[[Path], object] = lambda link: None) -> list[Path]:
    """Return the run directories at or below a path, in order; what lies inside a run is no other run.

    Links to folders are not followed but told: they lead elsewhere, or in a circle.
    """
    found, left = [], [path]
    while left:
        folder = left.pop()
        if any(is_there(folder / name) for name in ("config.toml", "result.json")):
            found.append(folder)
            continue
        below = sorted(
            (entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")), reverse=True
        )
        for entry in below:
            if entry.is_symlink():
                on_link(entry)
            else:
                left.append(entry)
    return found
