"""Cells as Slurm jobs, through submitit: one array for all that are ready; a preempted job is queued again.

The sweep's directory must lie on a disk that all nodes share.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sacbbf.errors import UsageError
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.outcome import Outcome
from sacbbf.sweep.spec import Cell
from sacbbf.sweep.work import work_on

# As it is imported, submitit sets logging up anew, which closes the handlers of everybody else in this process and
# with them the streams of some. For that moment it is told not to; its jobs have processes of their own.
_LOGGING = "SUBMITIT_LOG_LEVEL"
_before = os.environ.get(_LOGGING)
os.environ[_LOGGING] = "NOCONFIG"
try:
    import submitit
except ImportError as error:
    raise UsageError(
        f"executor = 'slurm': submitit is not installed here: pip install 'sacbbf[slurm]' ({error})"
    ) from error
finally:
    os.environ.pop(_LOGGING)
    if _before is not None:
        os.environ[_LOGGING] = _before

TRIES = 1_000  # times that a job may be queued again after a preemption or a time limit
LOOKS = 100  # jobs that are looked at each time; where there are more they take turns


class CellJob:
    """What a job does; queued again, it does the same, which goes on from the checkpoint."""

    def __init__(self, path: str, name: str, trust: bool = False) -> None:
        self.path, self.name, self.trust = path, name, trust

    def __call__(self) -> tuple[str, str]:
        """Work on the cell."""
        outcome = work_on(Path(self.path), self.name, self.trust)
        return outcome.kind, outcome.why

    def checkpoint(self) -> Any:
        """What to queue when the job is preempted or out of time; submitit calls this."""
        return submitit.helpers.DelayedSubmission(self)


class SlurmExecutor:
    """A job for each cell. Jobs that were started in one go make an array."""

    queues = True

    def __init__(
        self,
        directory: SweepDirectory,
        *,
        workers: int | None,
        cpus: int,
        gpus: int,
        hours: float,
        wishes: Mapping[str, object] | None = None,
        cluster: str = "slurm",
        trust: bool = False,
    ) -> None:
        self.directory, self.workers, self.trust = directory, workers, trust
        folder = _new_folder(directory)
        try:
            self._executor = submitit.AutoExecutor(
                folder=folder / "%j",
                cluster=cluster,
                slurm_max_num_timeout=TRIES,
                slurm_python=f"{shlex.quote(sys.executable)} -P",  # the working directory is not searched for modules
            )
        except RuntimeError as error:
            folder.rmdir()
            raise UsageError(f"executor = 'slurm': there is no Slurm on this machine ({error})") from error
        limit = {"slurm_array_parallelism": workers} if workers else {}
        self._executor.update_parameters(
            name="sacbbf",
            cpus_per_task=cpus,
            gpus_per_node=gpus,
            timeout_min=max(1, round(60 * hours)),
            **(wishes or {}),
            **limit,
        )
        self._new: list[Cell] = []
        self._jobs: deque[tuple[Cell, Any]] = deque()

    def free(self) -> bool:
        """Always: Slurm keeps the queue."""
        return True

    def start(self, cell: Cell) -> None:
        """Take a cell into the next array."""
        self._new.append(cell)

    def ended(self) -> list[tuple[Cell, Outcome]]:
        """Submit what was started since the last call, and return the cells whose jobs have ended."""
        if self._new:
            calls = [CellJob(str(self.directory.path), cell.name, self.trust) for cell in self._new]
            with self._executor.batch():
                jobs = [self._executor.submit(call) for call in calls]
            self._jobs += zip(self._new, jobs, strict=True)
            self._new = []
        over = []
        for cell, job in [self._jobs.popleft() for _ in range(min(LOOKS, len(self._jobs)))]:
            if job.done():
                over.append((cell, _outcome(job)))
            else:
                self._jobs.append((cell, job))
        return over

    def stop(self, cell: Cell | None = None) -> None:
        """Cancel a cell's job, or all: Slurm sends each a signal, and what was saved by then stays."""
        for of, job in self._jobs:
            if cell in (None, of):
                job.cancel()

    def close(self) -> None:
        """Cancel what is left."""
        self.stop()


def _new_folder(directory: SweepDirectory) -> Path:
    """Make a folder for jobs. Their results are pickles, found by the job's number: none may lie there before."""
    return Path(tempfile.mkdtemp(prefix="slurm-", dir=directory.path))


def _outcome(job: Any) -> Outcome:
    """Return what a job said of its work, or what became of it."""
    try:
        kind, why = job.result()
    except Exception as error:  # submitit has several kinds, and passes on the job's own
        return Outcome("failed", str(error).strip() or type(error).__name__)
    return Outcome(kind, why)
