"""What the page shows, read from the files of runs: nothing that trains is asked, or disturbed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from sacbbf.agents.presets import BASELINES
from sacbbf.disk.reading import PICTURE, VIDEO, is_there
from sacbbf.errors import UsageError
from sacbbf.run.records import RunDirectory, find_runs, read_lines
from sacbbf.run.settings import from_toml
from sacbbf.sweep.directory import MANIFEST, SweepDirectory
from sacbbf.sweep.spec import Cell, Spec
from sacbbf.sweep.status import KEPT, STATES, Stamp, is_held, last_line, stamp, steps_done, sweep_states

POINTS = 400  # of a curve, at most
LATEST = 12  # episodes and runs that are listed in full
FILES = {"video.mp4": ("video/mp4", VIDEO), "curve.png": ("image/png", PICTURE)}  # that the page may ask for


def overview(top: Path) -> dict[str, Any]:
    """Return all runs below a directory, and its sweeps, in short."""
    runs = [run_summary(top, path) for path in find_runs(top)]
    return {"directory": str(top), "runs": runs, "sweeps": list(_sweeps(top))}


def run_summary(top: Path, path: Path) -> dict[str, Any]:
    """Return a run in a line: what it is, how far it has come, how it scores."""
    run = RunDirectory(path)
    name = _name(top, path)
    files = (run.config, run.result, run.record("speed"), run.record("episodes"))
    stamps = tuple(stamp(file) for file in files)
    at = max((found[2] for found in stamps if found), default=0) / 1e9  # seconds since 1970
    try:
        found = _facts(run, stamps)
        json.dumps(found, allow_nan=False)  # a page can show no other numbers than finite ones
        state = found["state"] or ("running" if is_held(run) else "stopped")
    except (OSError, ValueError, TypeError) as error:
        return {"path": name, "state": "unreadable", "at": at, "why": str(error)}
    return found | {"path": name, "state": state, "at": at}


@lru_cache(maxsize=KEPT)
def _facts(run: RunDirectory, at: tuple[Stamp | None, ...]) -> dict[str, Any]:
    """Return what a run's files say of it, read once as long as their stamps stay; its state is that of a finished run.

    The search of a baseline has steps too, and trains nothing.
    """
    config, result = from_toml(run.config), run.read_result() or {}
    speed, episode = last_line(run.record("speed")), last_line(run.record("episodes"))
    finished, trains = bool(result.get("finished")), config.agent not in BASELINES
    step = result.get("steps") if finished else max(speed.get("step", 0), episode.get("step", 0))
    return {
        "env": config.env,
        "agent": config.agent,
        "size": config.size,
        "seed": config.seed,
        "steps": config.steps if trains else 0,
        "state": "finished" if finished else "",
        "step": step if trains else 0,
        "steps_per_second": speed.get("steps_per_second"),
        "last_score": episode.get("score"),
        "score": result.get("score"),
        "interval": None if result.get("episodes") == 1 else result.get("interval_95"),  # one episode has none
    }


def run_details(top: Path, name: str) -> dict[str, Any]:
    """Return a run with its curves and latest episodes; UsageError if there is none of this name."""
    run = RunDirectory(find_run(top, name))
    try:
        records = _records(run)
        json.dumps(records, allow_nan=False)
        return {**run_summary(top, run.path), **records}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"the records of {name!r} cannot be read: {error!r}") from error


def _records(run: RunDirectory) -> dict[str, Any]:
    """Return a run's curves, its latest episodes, and which of its files can be shown."""
    episodes = [[line["step"], line["score"]] for line in read_lines(run.record("episodes"))]
    evaluations = [[line["step"], line["mean"]] for line in read_lines(run.record("evaluations"))]
    entropy = [
        [line["step"], line["policy/entropy"]]
        for line in read_lines(run.record("metrics"))
        if line.get("policy/entropy") is not None
    ]
    speeds = [  # the warm-up, without updates, is too fast to stand in the same picture
        [line["step"], line["updates_per_second"]]
        for line in read_lines(run.record("speed"))
        if line.get("updates_per_second")
    ]
    return {
        "curves": {
            "training score": thin(_smooth(episodes)),
            "evaluation": thin(evaluations),
            "policy entropy": thin(entropy),
            "updates per second": thin(speeds),
        },
        "latest": episodes[-LATEST:][::-1],
        "files": [file for file in FILES if is_there(run.path / file)],
    }


def find_run(top: Path, name: str) -> Path:
    """Return the directory of a run below `top`; names that lead elsewhere are refused."""
    found = next((path for path in find_runs(top) if name == _name(top, path)), None)
    if found is None:
        raise UsageError(f"there is no run {name!r} here")
    return found


def _name(top: Path, path: Path) -> str:
    return str(path.relative_to(top)) if path != top else path.name


def _sweeps(top: Path) -> Iterator[dict[str, Any]]:
    for manifest in [top / MANIFEST, *sorted(top.glob(f"*/{MANIFEST}"))]:
        directory = SweepDirectory(manifest.parent)
        if not is_there(manifest) or (manifest.parent.is_symlink() and manifest.parent != top):
            continue
        try:
            spec, cells = _sweep(directory, stamp(manifest))
        except (UsageError, OSError) as error:
            yield {"path": manifest.parent.name, "why": str(error)}
            continue
        states = sweep_states(directory, cells)
        yield {
            "path": manifest.parent.name,
            "note": spec.note,
            "counts": {name: sum(state.state == name for state in states) for name in STATES},
            "step": steps_done(states, spec),
            "steps": sum(spec.steps_of(state.cell) for state in states),
        }


@lru_cache
def _sweep(directory: SweepDirectory, at: Stamp | None) -> tuple[Spec, list[Cell]]:
    """Return a sweep and its cells, read once as long as its manifest's stamp stays."""
    spec = directory.read()
    return spec, spec.cells()


def _smooth(points: list[list[float]], window: int = 10) -> list[list[float]]:
    """Return the mean over the last few points at each."""
    found, total = [], 0.0
    for number, (step, score) in enumerate(points):
        total += score - (points[number - window][1] if number >= window else 0.0)
        found.append([step, total / min(number + 1, window)])
    return found


def thin(points: list[list[float]]) -> list[list[float]]:
    """Return at most POINTS points, evenly chosen, the last among them."""
    every = -(-len(points) // POINTS) or 1
    return [point for number, point in enumerate(points) if (len(points) - 1 - number) % every == 0]
