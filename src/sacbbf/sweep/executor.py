"""Who does the work on cells: the interface of all executors, and the one for a single machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sacbbf.disk.reading import open_to_append
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.outcome import Outcome
from sacbbf.sweep.spec import Cell


class Executor(Protocol):
    """Works on several cells at a time. All do so by `work_on`, so results do not depend on which it is."""

    queues: bool  # whether a cell that was started may still wait for its turn elsewhere

    def free(self) -> bool:
        """Whether it can take another cell now."""
        ...

    def start(self, cell: Cell) -> None:
        """Begin the work on a cell."""
        ...

    def ended(self) -> list[tuple[Cell, Outcome]]:
        """Return the cells whose work has ended since the last call, without waiting."""
        ...

    def stop(self, cell: Cell | None = None) -> None:
        """Ask for a checkpoint and the end of a cell's work, or of all work; it then ends as stopped."""
        ...

    def close(self) -> None:
        """End everything that is still at work, at once."""
        ...


@dataclass(frozen=True)
class _Worker:
    cell: Cell
    process: subprocess.Popen[bytes]
    slot: int


class LocalExecutor:
    """A process for each cell on this machine."""

    queues = False

    def __init__(self, directory: SweepDirectory, workers: int, gpus: Sequence[str] = (), trust: bool = False) -> None:
        self.directory, self.trust = directory, trust
        self.slots = list(range(workers))
        self.gpus = gpus  # by CUDA's names, to share among the workers, in turn
        self.workers: list[_Worker] = []

    def free(self) -> bool:
        """Whether fewer processes run than there may be."""
        return bool(self.slots)

    def start(self, cell: Cell) -> None:
        """Start a process; it is in a session of its own, so that Ctrl-C reaches the sweep alone."""
        slot = self.slots.pop(0)
        # -P: the working directory does not come before installed modules, as it does with -m alone.
        words = [sys.executable, "-P", "-m", "sacbbf.sweep.work"]
        words += [str(self.directory.path), cell.name, str(os.getpid()), *(["--trust"] if self.trust else [])]
        log = self.directory.log(cell)
        log.parent.mkdir(parents=True, exist_ok=True)
        with open_to_append(log) as errors:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self._environment(slot),
                start_new_session=True,
            )
        self.workers.append(_Worker(cell, process, slot))

    def _environment(self, slot: int) -> dict[str, str]:
        own = {"CUDA_VISIBLE_DEVICES": self.gpus[slot % len(self.gpus)]} if self.gpus else {}
        return {**os.environ, **own}

    def ended(self) -> list[tuple[Cell, Outcome]]:
        """Return the cells whose processes have ended."""
        over = [worker for worker in self.workers if worker.process.poll() is not None]
        self.workers = [worker for worker in self.workers if worker not in over]
        self.slots = sorted([*self.slots, *(worker.slot for worker in over)])
        return [(worker.cell, outcome_of(worker.process, self.directory.log(worker.cell))) for worker in over]

    def stop(self, cell: Cell | None = None) -> None:
        """Ask a cell's process, or every process, to end at its next step."""
        for worker in self.workers:
            if cell in (None, worker.cell):
                worker.process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Kill what is left."""
        for worker in self.workers:
            worker.process.kill()
            worker.process.communicate()
        self.workers = []


def outcome_of(process: subprocess.Popen[bytes], log: Path) -> Outcome:
    """Return what a process that has ended said of its work, or what its end says."""
    said, _ = process.communicate()
    try:
        return Outcome(**json.loads(said))
    except (ValueError, TypeError):
        pass
    code = process.returncode
    if code >= 0:
        return Outcome("failed", f"its process ended with exit code {code}; {log} has its last words")
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = ", perhaps for want of memory" if name == "SIGKILL" else ""
    return Outcome("failed", f"its process was killed by {name}{hint}")
