"""A sweep's directory: its manifest, the run of each cell, logs, and the failures that were given up on.

sweep.json                          what the sweep consists of
runs/VARIANT/ENV/seedN/             an ordinary run directory
logs/VARIANT/ENV/seedN.log          what its processes printed
failures/VARIANT/ENV/seedN.json     why it was given up; gone once the cell is tried again
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sacbbf import __version__
from sacbbf.disk.files import remove_quietly
from sacbbf.disk.reading import MANIFEST as LARGEST
from sacbbf.disk.reading import RESULT, Unreadable, read_json
from sacbbf.errors import UsageError
from sacbbf.run.records import RunDirectory, write_json
from sacbbf.sweep.spec import Cell, Spec, conflicts, from_json, to_json

FORMAT = 1
MANIFEST = "sweep.json"
WHAT = "the manifest of a sweep"


@dataclass(frozen=True)
class SweepDirectory:
    """Paths of a sweep's files."""

    path: Path

    @property
    def manifest(self) -> Path:
        """What the sweep consists of."""
        return self.path / MANIFEST

    @property
    def failures(self) -> Path:
        """Folder of the cells that were given up."""
        return self.path / "failures"

    def run(self, cell: Cell) -> RunDirectory:
        """A cell's run directory."""
        return RunDirectory(self.path / "runs" / cell.name)

    def log(self, cell: Cell) -> Path:
        """What the processes of a cell printed."""
        return self.path / "logs" / f"{cell.name}.log"

    def failure(self, cell: Cell) -> Path:
        """Why a cell was given up."""
        return self.failures / f"{cell.name}.json"

    def read(self) -> Spec:
        """Return the sweep that lies here, else raise UsageError."""
        try:
            data = read_json(self.manifest, LARGEST, WHAT)
        except FileNotFoundError:
            raise UsageError(f"{self.path} is not a sweep: it holds no {MANIFEST}") from None
        try:
            if data["format"] != FORMAT:
                raise ValueError(f"format {data['format']}; this version of sacbbf reads {FORMAT}")
            return from_json(data["spec"])
        except (ValueError, KeyError, TypeError) as error:
            raise Unreadable(self.manifest, f"it is not {WHAT}: {error}") from error

    def begin(self, spec: Spec) -> None:
        """Store a new sweep, or one that adds cells to the one that lies here; any other is refused."""
        if self.manifest.exists():
            old = self.read()
            found = list(conflicts(old, spec))
            if found:
                raise UsageError(
                    f"{self.path}: holds another sweep already; choose a new directory, or go on with that one "
                    f"(sacbbf sweep {self.path}). They differ in\n" + "\n".join(f"  {line}" for line in found)
                )
            if old == spec:
                return
        elif self.path.exists() and (not self.path.is_dir() or self._holds_other_files()):
            raise UsageError(f"{self.path}: holds other files already; choose a new or empty directory")
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.manifest, {"format": FORMAT, "version": __version__, "spec": to_json(spec)})

    def _holds_other_files(self) -> bool:
        """Whether there is more than a sweep that another process is storing at this moment."""
        names = (path.name for path in self.path.iterdir())
        return any(name != MANIFEST and not name.startswith(f".{MANIFEST}.") for name in names)

    def give_up(self, cell: Cell, attempts: int, why: str) -> None:
        """Note that a cell has failed for good, until the sweep is started again."""
        path = self.failure(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"cell": cell.name, "attempts": attempts, "why": why, "log": str(self.log(cell))})

    def try_again(self, cells: Sequence[Cell]) -> None:
        """Forget that cells have failed."""
        if self.failures.is_dir():
            for cell in cells:
                remove_quietly(self.failure(cell))

    def read_failure(self, cell: Cell) -> dict[str, Any] | None:
        """Return why a cell was given up; None if it was not."""
        try:
            return read_json(self.failure(cell), RESULT, "a note on a failure")
        except FileNotFoundError:
            return None
        except Unreadable as error:
            return {"why": str(error), "attempts": 0}
