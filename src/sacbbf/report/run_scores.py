"""Run directories as sources of scores: where they lie, whether they are whole, and what their records say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sacbbf.disk.reading import MANIFEST, Unreadable, is_there, read_json
from sacbbf.errors import UsageError
from sacbbf.run.records import RunDirectory, read_lines
from sacbbf.run.result_kinds import is_count, is_number
from sacbbf.run.settings import RunConfig, from_toml
from sacbbf.sweep.directory import WHAT

NEEDED = ("env", "agent", "size", "seed", "finished", "score", "steps")
Points = tuple[tuple[int, float], ...]  # (step, score)
Baselines = Mapping[str, tuple[float, float]]  # score and standard error of random and blind play


@dataclass(frozen=True)
class RunScore:
    """A run that has a score."""

    directory: RunDirectory
    config: RunConfig
    result: dict[str, Any]
    evaluations: Points  # means of the evaluations during training
    episodes: Points  # training episodes

    @property
    def score(self) -> float:
        """Mean of the final evaluation's episodes."""
        return float(self.result["score"])

    @property
    def finished(self) -> bool:
        """Whether it trained for all of its steps."""
        return bool(self.result["finished"])

    @property
    def baselines(self) -> Baselines:
        """Score and standard error of random and blind play, where the run played them."""
        found = self.result.get("baselines", {})
        return {name: (float(played["score"]), float(played["standard_error"])) for name, played in found.items()}


def sweep_notes(runs: list[Path]) -> list[str]:
    """Return what the sweeps that runs belong to (SWEEP/runs/AGENT/ENV/seedN) say of themselves."""
    notes = []
    folders = (run.absolute().parents for run in runs)
    for manifest in sorted({above[3] / "sweep.json" for above in folders if len(above) > 3}):
        try:
            note = read_json(manifest, MANIFEST, WHAT)["spec"]["note"]
        except FileNotFoundError:
            continue
        except (KeyError, TypeError) as error:
            raise Unreadable(manifest, f"it is not {WHAT}: {error!r}") from error
        if note:
            notes.append(str(note))
    return notes


def read_run(path: Path) -> RunScore | str:
    """Read a run; in words why it is not there to be reported yet, or UsageError for a corrupt one."""
    directory = RunDirectory(path)
    if not is_there(directory.config):
        raise UsageError(f"{path} holds a result.json but no config.toml")
    config = from_toml(directory.config)
    result = directory.read_result()
    if result is None:
        return f"{path}: unfinished, it has no result.json yet"
    _check_result(result, directory.result)
    for name in ("env", "agent", "size", "seed"):
        if result[name] != getattr(config, name):
            there = f"{name} = {result[name]!r}"
            raise UsageError(f"{directory.result}: {there}, but {directory.config} has {getattr(config, name)!r}")
    if result["score"] is None:
        return f"{path}: unfinished, stopped before its evaluation"
    return RunScore(
        directory,
        config,
        result,
        _points(directory.record("evaluations"), "mean"),
        _points(directory.record("episodes"), "score"),
    )


def _check_result(result: dict[str, Any], path: Path) -> None:
    """Raise UsageError unless a result holds what is needed."""
    missing = [name for name in NEEDED if name not in result]
    if missing:
        raise UsageError(f"{path} lacks {', '.join(missing)}")
    if result["score"] is None and result["finished"]:
        raise UsageError(f"{path}: score = None: must be a finite number")


def _points(path: Path, field: str) -> Points:
    """Return step and score of each line of a record; lines without a score are passed over."""
    points: list[tuple[int, float]] = []
    for number, line in enumerate(read_lines(path), 1):
        step: Any = line.get("step")
        score = line.get(field, "nothing")
        if score is None:
            continue
        if not is_count(step) or not is_number(score):
            raise Unreadable(path, f"line {number} is not one with step and {field}: it has {step!r} and {score!r}")
        points.append((int(step), float(score)))
    return tuple(points)
