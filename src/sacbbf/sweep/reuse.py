"""Finished runs of other sweeps that are cells of this one too: copied, not trained again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path

from sacbbf.agents.config import flatten
from sacbbf.errors import UsageError
from sacbbf.run.records import RunDirectory, find_runs
from sacbbf.run.settings import FREE, RunConfig, from_toml
from sacbbf.sweep.copy import copied_run
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.spec import Cell, Spec, configuration


def reuse(directory: SweepDirectory, spec: Spec, cells: Sequence[Cell], source: Path) -> list[Cell]:
    """Copy finished runs below `source` that have the very configuration of a cell; returns the cells so finished.

    Random and blind play may have been measured beside it or not: the agent's numbers do not depend on it, and of two
    such runs the one that has them is taken. Cells that have a run already, finished or not, are left alone.
    """
    wanted = {_key(configuration(spec, cell)): cell for cell in cells if not directory.run(cell).path.exists()}
    runs = [(path, config) for path in find_runs(source) if (config := _finished(path)) is not None]
    found = []
    for path, config in sorted(runs, key=lambda run: not run[1].eval.baselines):
        cell = wanted.pop(_key(config), None)
        if cell is not None:
            with copied_run(path, directory.run(cell).path):
                pass
            found.append(cell)
    return found


def _finished(path: Path) -> RunConfig | None:
    """Return a finished run's configuration; None if it is not finished, or cannot be read."""
    run = RunDirectory(path)
    try:
        result = run.read_result()
        return from_toml(run.config) if result is not None and result.get("finished") else None
    except UsageError:
        return None


def _key(config: RunConfig) -> Hashable:
    values = flatten(config).items()
    return tuple(sorted((name, value) for name, value in values if name not in (*FREE, "eval.baselines")))
