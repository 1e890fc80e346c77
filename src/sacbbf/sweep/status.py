"""How far each cell of a sweep has come, read from its files: nothing that runs is asked, or disturbed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sacbbf.disk.takeover import look, state_folder
from sacbbf.errors import UsageError
from sacbbf.run.records import RunDirectory
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.spec import Cell

State = Literal["finished", "running", "stopped", "failed", "waiting"]
STATES: tuple[State, ...] = ("finished", "running", "stopped", "failed", "waiting")
QUIET = 60.0  # seconds without a heartbeat after which a run on another machine counts as stopped
TAIL = 4096  # bytes of a record's end that hold its last line


@dataclass(frozen=True)
class CellState:
    """One cell as its files show it."""

    cell: Cell
    state: State
    step: int = 0  # steps trained so far
    speed: float = 0.0  # steps per second, as last recorded
    score: float | None = None
    why: str = ""  # it failed


def sweep_states(directory: SweepDirectory, cells: Sequence[Cell]) -> list[CellState]:
    """Return the states of all cells; those without a file cost nothing."""
    begun = _folders(directory.path / "runs")
    failed = _folders(directory.failures)
    return [
        cell_state(directory, cell)
        if _parts(cell.name) in begun or _parts(f"{cell.name}.json") in failed
        else CellState(cell, "waiting")
        for cell in cells
    ]


def cell_state(directory: SweepDirectory, cell: Cell) -> CellState:
    """Return the state of one cell."""
    run = directory.run(cell)
    try:
        result = run.read_result()
    except UsageError as error:
        return CellState(cell, "failed", why=str(error))
    if result is not None and result.get("finished"):
        return CellState(cell, "finished", int(result.get("steps", 0)), score=result.get("score"))
    line = last_line(run.record("speed"))
    step, speed = int(line.get("step", 0)), float(line.get("steps_per_second", 0.0))
    if is_held(run):
        return CellState(cell, "running", step, speed)
    failure = directory.read_failure(cell)
    if failure is not None:
        return CellState(cell, "failed", step, why=str(failure.get("why", "unknown")))
    return CellState(cell, "stopped" if run.path.is_dir() else "waiting", step)


def is_held(run: RunDirectory) -> bool:
    """Whether a process seems to be writing a run; on other machines its heartbeat tells."""
    seen = look(run.path)
    if seen is None or seen.free:
        return False
    return time.time() - seen.touched / 1e9 < QUIET


def saved_step(run: RunDirectory) -> int:
    """Return the step of a run's newest checkpoint; 0 if it has none."""
    folder = state_folder(run.path)
    if folder is None:
        return 0
    steps = [path.stem.removeprefix("step-") for path in folder.glob("step-*.json")]
    return max((int(step) for step in steps if step.isdecimal()), default=0)


def last_line(path: Path) -> dict[str, Any]:
    """Return the last whole line of a record; nothing if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            lines = file.read().split(b"\n")[:-1]
        found = json.loads(lines[-1]) if lines else {}
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _parts(name: str) -> tuple[str, ...]:
    return tuple(name.split("/"))


def _folders(top: Path) -> set[tuple[str, ...]]:
    """Return VARIANT, ENV and NAME of all that lies three levels below a folder."""
    found: set[tuple[str, ...]] = set()
    for variant in _entries(top):
        for env in _entries(top / variant):
            found |= {(variant, env, name) for name in _entries(top / variant / env)}
    return found


def _entries(path: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(path)]
    except (FileNotFoundError, NotADirectoryError):
        return []
