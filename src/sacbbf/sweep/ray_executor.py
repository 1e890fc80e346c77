"""Cells on a Ray cluster: each a task that any node may run; a lost node's cells go on elsewhere from their checkpoint.

The sweep's directory must lie on a disk that all nodes share.
"""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path
from typing import Any

from sacbbf.errors import UsageError
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.outcome import Outcome
from sacbbf.sweep.spec import Cell
from sacbbf.sweep.work import work_on

try:
    import ray
except ImportError as error:
    raise UsageError(f"executor = 'ray': Ray is not installed here: pip install 'sacbbf[ray]' ({error})") from error


class RayExecutor:
    """A task of a Ray cluster for each cell."""

    queues = True

    def __init__(
        self,
        directory: SweepDirectory,
        *,
        address: str | None,
        workers: int | None,
        cpus: float,
        gpus: float,
        trust: bool = False,
    ) -> None:
        self.directory, self.workers = directory, workers
        self.cpus, self.gpus = cpus, gpus
        self.here = str(Path.cwd()) if trust else ""  # where tasks may look for modules too
        self._own = not ray.is_initialized()
        if self._own:
            try:
                # Ray puts this process's working directory before installed modules in all its workers; so not ours.
                with contextlib.chdir(directory.path.anchor):
                    ray.init(
                        address=address, log_to_driver=False, logging_level=logging.WARNING, include_dashboard=False
                    )
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise UsageError(f"address = {address!r}: no Ray cluster answers there: {error}") from error
        # A process of its own for each cell, as everywhere. Failures come back here: the driver counts them.
        self._task = ray.remote(num_cpus=cpus, num_gpus=gpus, max_calls=1, max_retries=0)(_work)
        self._refs: dict[Any, Cell] = {}

    def free(self) -> bool:
        """Whether the cluster has room for another cell."""
        if self.workers is not None:
            return len(self._refs) < self.workers
        total = ray.cluster_resources()
        fitting = [total.get("CPU", 0.0) / self.cpus] if self.cpus else []
        fitting += [total.get("GPU", 0.0) / self.gpus] if self.gpus else []
        return len(self._refs) < max(1, int(min(fitting, default=1.0)))

    def start(self, cell: Cell) -> None:
        """Submit a task."""
        self._refs[self._task.remote(str(self.directory.path), cell.name, self.here)] = cell

    def ended(self) -> list[tuple[Cell, Outcome]]:
        """Return the cells whose tasks have ended."""
        if not self._refs:
            return []
        ready, _ = ray.wait(list(self._refs), num_returns=len(self._refs), timeout=0, fetch_local=False)
        return [(self._refs.pop(ref), _outcome(ref)) for ref in ready]

    def stop(self, cell: Cell | None = None) -> None:
        """Interrupt a cell's task, or all: those at work save a checkpoint, those that wait are withdrawn."""
        for ref, of in self._refs.items():
            if cell in (None, of):
                ray.cancel(ref, force=False)

    def close(self) -> None:
        """End what is left, and leave the cluster."""
        for ref in self._refs:
            ray.cancel(ref, force=True)
        self._refs = {}
        if self._own:
            ray.shutdown()


def _work(path: str, name: str, here: str) -> tuple[str, str]:
    if here:
        with contextlib.suppress(FileNotFoundError):  # another node may not have it
            os.chdir(here)
    outcome = work_on(Path(path), name, trust=bool(here))
    return outcome.kind, outcome.why


def _outcome(ref: Any) -> Outcome:
    """Return what a task said of its work, or what became of it."""
    try:
        kind, why = ray.get(ref)
    except ray.exceptions.TaskCancelledError:
        return Outcome("stopped", "interrupt")
    except ray.exceptions.RayTaskError as error:
        return Outcome("failed", str(error.cause))
    except ray.exceptions.RayError as error:  # the process, or its node, is gone
        return Outcome("failed", f"{type(error).__name__}: {str(error).partition('. ')[0]}")
    return Outcome(kind, why)
