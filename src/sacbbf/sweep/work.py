"""The work on one cell, wherever it is done: an ordinary run in the sweep's directory, and how it ended.

`python -P -m sacbbf.sweep.work DIR CELL PARENT [--trust]` is that work in a process of its own.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from sacbbf.disk.lease import Busy
from sacbbf.disk.reading import open_to_append
from sacbbf.errors import RunFailed, UsageError
from sacbbf.machine.allocator import prefer_huge_pages
from sacbbf.machine.process import settle
from sacbbf.run.train import train
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.outcome import Outcome
from sacbbf.sweep.spec import Cell, Spec, configuration
from sacbbf.sweep.trust import admit_sweep
from sacbbf.sweep.twin_run import evaluate_twin
from sacbbf.sweep.twins import finished_twin

PR_SET_PDEATHSIG = 1  # Linux: a signal to get when the parent dies


def run_cell(directory: SweepDirectory, spec: Spec, cell: Cell, console: Console) -> Outcome:
    """Begin a cell's run or go on with it, and return how that ended; no error gets out."""
    try:
        config, path = configuration(spec, cell), directory.run(cell).path
        twin = None if path.exists() else finished_twin(directory, spec, cell)
        if twin is not None:
            evaluate_twin(twin, config, path, console)
            return Outcome("finished")
        result = train(config, path, console=console)
    except Busy as busy:
        return Outcome("busy", str(busy))
    except (UsageError, RunFailed) as error:
        return Outcome("failed", str(error))
    except Exception as error:
        console.print(traceback.format_exc(), markup=False, highlight=False)
        return Outcome("failed", f"{type(error).__name__}: {error}")
    return Outcome("finished") if result["finished"] else Outcome("stopped", str(result["stopped_by"]))


def work_on(path: Path, name: str, trust: bool = False) -> Outcome:
    """Work on a cell of the sweep that lies at a path, and append what is printed to its log.

    With `trust`, modules that the sweep names may be imported from the working directory.
    """
    settle()
    directory = SweepDirectory(path)
    spec = directory.read()
    admit_sweep(spec, directory.manifest, trust)
    cell = find_cell(spec, name)
    log = directory.log(cell)
    log.parent.mkdir(parents=True, exist_ok=True)
    with io.TextIOWrapper(open_to_append(log), write_through=True) as file:
        outcome = run_cell(directory, spec, cell, Console(file=file, width=160))
        print(f"{outcome.kind} {outcome.why}".rstrip(), file=file)
    return outcome


def find_cell(spec: Spec, name: str) -> Cell:
    """Return the cell of this name, else raise UsageError."""
    found = next((cell for cell in spec.cells() if cell.name == name), None)
    if found is None:
        raise UsageError(f"the sweep has no cell {name}")
    return found


def end_with_parent(parent: int) -> None:
    """Ask the system for a SIGTERM when the parent dies, so that no worker outlives its sweep; Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before that
            os.kill(os.getpid(), signal.SIGTERM)


def main(argv: Sequence[str]) -> int:
    """Work on a cell and print the outcome as one line of JSON."""
    path, name, parent, *trust = argv
    end_with_parent(int(parent))
    words = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what environments print goes to the log: it is no outcome, and nobody reads it until the end
    prefer_huge_pages()
    try:
        outcome = work_on(Path(path), name, trust == ["--trust"])
    except (UsageError, OSError) as error:
        outcome = Outcome("failed", str(error))
    print(json.dumps(asdict(outcome)), file=words, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
