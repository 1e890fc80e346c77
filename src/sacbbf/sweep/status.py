"""How far each cell of a sweep has come, read from its files: nothing that runs is asked, or disturbed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from sacbbf.disk.reading import RECORD, open_file, parse_json
from sacbbf.disk.takeover import look, state_folder
from sacbbf.errors import UsageError
from sacbbf.run.records import RunDirectory
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.spec import Cell, Spec

State = Literal["finished", "running", "stopped", "failed", "waiting"]
STATES: tuple[State, ...] = ("finished", "running", "stopped", "failed", "waiting")
QUIET = 60.0  # seconds without a heartbeat after which a run on another machine counts as stopped
TAIL = 4096  # bytes of a record's end that hold its last line
KEPT = 20_000  # runs of which it is remembered what their files said

Stamp = tuple[int, int, int]  # inode, bytes, time of writing: a file that was written again has another


@dataclass(frozen=True)
class CellState:
    """One cell as its files show it."""

    cell: Cell
    state: State
    step: int = 0  # steps trained so far
    speed: float = 0.0  # steps per second, as last recorded
    learns: bool = False  # updates were made at that speed; a warm-up, without them, is many times as fast
    score: float | None = None
    why: str = ""  # it failed
    seconds: float = 0.0  # that it took, evaluation and all, if it is finished


def sweep_states(directory: SweepDirectory, cells: Sequence[Cell]) -> list[CellState]:
    """Return the states of all cells; those without a file cost nothing."""
    begun = _folders(directory.path / "runs")
    failed = _folders(directory.failures)
    return [
        cell_state(directory, cell)
        if (name := cell.name) in begun or f"{name}.json" in failed
        else CellState(cell, "waiting")
        for cell in cells
    ]


def cell_state(directory: SweepDirectory, cell: Cell) -> CellState:
    """Return the state of one cell; one whose files make no sense has failed, and says why."""
    try:
        return _cell_state(directory, cell)
    except (UsageError, OSError, ValueError, TypeError) as error:
        return CellState(cell, "failed", why=str(error))


def _cell_state(directory: SweepDirectory, cell: Cell) -> CellState:
    run = directory.run(cell)
    at = stamp(run.result)
    end = None if at is None else _end(run, at)
    if end is not None:
        return CellState(cell, "finished", end[0], score=end[1], seconds=end[2])
    line = last_line(run.record("speed"))
    step, speed = int(line.get("step", 0)), float(line.get("steps_per_second", 0.0))
    if is_held(run):
        return CellState(cell, "running", step, speed, bool(line.get("updates_per_second")))
    failure = directory.read_failure(cell)
    if failure is not None:
        return CellState(cell, "failed", step, why=str(failure.get("why", "unknown")))
    return CellState(cell, "stopped" if run.path.is_dir() else "waiting", step)


@lru_cache(maxsize=KEPT)
def _end(run: RunDirectory, at: Stamp) -> tuple[int, float | None, float] | None:
    """Return steps, score and seconds of a finished run, read once as long as its stamp stays; None if it is none."""
    result = run.read_result()
    if result is None or not result.get("finished"):
        return None
    return int(result.get("steps", 0)), result.get("score"), float(result.get("wall_seconds", 0.0))


def steps_done(states: Iterable[CellState], spec: Spec) -> int:
    """Return the steps trained; the search of a baseline has steps too, and trains nothing."""
    return sum(min(state.step, spec.steps_of(state.cell)) for state in states)


def stamp(path: Path) -> Stamp | None:
    """Return what changes when a file is written; None if there is no such file."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


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
        with open_file(path, RECORD) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            lines = file.read(TAIL).split(b"\n")[:-1]
        found = parse_json(lines[-1]) if lines else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _folders(top: Path) -> set[str]:
    """Return VARIANT/ENV/NAME of all that lies three levels below a folder."""
    found: set[str] = set()
    for variant in _entries(top):
        for env in _entries(top / variant):
            found |= {f"{variant}/{env}/{name}" for name in _entries(top / variant / env)}
    return found


def _entries(path: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(path)]
    except (FileNotFoundError, NotADirectoryError):
        return []
