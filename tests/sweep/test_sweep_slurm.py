"""Cells as jobs of submitit, which runs them as processes of this machine here: no Slurm is needed for that."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from small_sweep import assert_alike, begun, small_spec

from sacbbf.run.stop import Stop
from sacbbf.sweep.drive import Driver
from sacbbf.sweep.status import sweep_states
from sacbbf.sweep.table import LiveTable
from sacbbf.sweep.workers import Workers, slurm_wishes
from sacbbf.sweep.workers import make_executor as make_executor_of

submitit = pytest.importorskip("submitit")
slurm_executor = pytest.importorskip("sacbbf.sweep.slurm_executor")


def make_executor(directory, workers=None):
    return slurm_executor.SlurmExecutor(directory, workers=workers, cpus=1, gpus=0, hours=0.1, cluster="local")


def test_cells_finish_as_jobs(tmp_path, undisturbed):
    directory = begun(tmp_path / "sweep", small_spec())
    cells = small_spec().cells()
    executor = make_executor(directory)
    try:
        with LiveTable(Console(quiet=True), directory, small_spec(), sweep_states(directory, cells)) as table:
            totals = Driver(directory, executor, table, retries=0).run(cells, Stop())
    finally:
        executor.close()
    assert totals.finished == cells, directory.read_failure(cells[0])
    assert_alike(directory, undisturbed, cells)


ALONE = """
import logging, os

class Witness(logging.Handler):
    closed = False

    def close(self):
        self.closed = True

witness = Witness()
import sacbbf.sweep.slurm_executor
assert logging.getLogger("submitit").handlers == []
assert os.environ["SUBMITIT_LOG_LEVEL"] == "INFO"
print(witness.closed)
"""


def test_submitit_leaves_the_logging_of_others_alone():
    environment = os.environ | {"SUBMITIT_LOG_LEVEL": "INFO"}
    done = subprocess.run([sys.executable, "-c", ALONE], env=environment, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_where_jobs_are_many_they_take_turns_to_be_looked_at(tmp_path, monkeypatch):
    executor = make_executor(begun(tmp_path / "sweep", small_spec(5)))
    looked, over = [], set()

    class Fake:
        def __init__(self, cell):
            self.seed = cell.seed

        def done(self):
            looked.append(self.seed)
            return self.seed in over

        def result(self):
            return "finished", ""

    executor._jobs.extend((cell, Fake(cell)) for cell in small_spec(5).cells())
    monkeypatch.setattr(slurm_executor, "LOOKS", 2)
    assert [executor.ended() for _ in range(3)] == [[]] * 3
    assert looked == [0, 1, 2, 3, 4, 0]
    over |= {1, 4}
    ended = [cell.seed for _ in range(3) for cell, outcome in executor.ended() if outcome.kind == "finished"]
    assert ended == [1, 4] and sorted(cell.seed for cell, _ in executor._jobs) == [0, 2, 3]


STAND_IN = """#!/bin/sh
[ -f "$1" ] && cp "$1" "$(dirname "$0")/script"
echo Submitted batch job 7
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Folder of stand-ins for Slurm's programs, of which sbatch keeps the script."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sbatch", "srun", "sacct", "scancel"):
        (programs / name).write_text(STAND_IN)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return programs


def test_what_is_asked_of_slurm_stands_in_the_job_s_script(programs, tmp_path):
    directory = begun(tmp_path / "sweep", small_spec(1))
    flags = {
        "slurm_partition": "gpu", "slurm_account": "lab", "slurm_qos": "long", "slurm_memory": "16G",
        "slurm_constraint": "a100|h100", "slurm_setup": ("module load cuda/12", "export A=1"),
    }  # fmt: skip
    executor = make_executor_of(directory, replace(small_spec(1), device="cpu"), Workers(executor="slurm", **flags), 1)
    executor.start(small_spec(1).cells()[0])
    executor.ended()
    lines = (programs / "script").read_text().splitlines()
    wanted = {"partition": "gpu", "account": "lab", "qos": "long", "mem": "16G", "constraint": "a100|h100"}
    assert {f"#SBATCH --{name}={value}" for name, value in wanted.items()} <= {line.replace("'", "") for line in lines}
    assert lines.index("module load cuda/12") + 1 == lines.index("export A=1")
    assert slurm_wishes(Workers()) == {}


class Planted:
    """A pickle that leaves a mark when it is loaded."""

    def __reduce__(self):
        return Path.touch, (Path("mark"),)


def test_results_that_lay_in_the_directory_before_are_never_loaded(programs, tmp_path, monkeypatch):
    """They are pickles, in a folder named by the job's number: in a stranger's sweep they could run anything."""
    monkeypatch.chdir(tmp_path)
    directory = begun(tmp_path / "sweep", small_spec(1))
    for folder in ("slurm/7", "7"):
        planted = directory.path / folder / "7_0_result.pkl"
        planted.parent.mkdir(parents=True)
        planted.write_bytes(pickle.dumps(Planted()))
    executor = make_executor_of(directory, replace(small_spec(1), device="cpu"), Workers(executor="slurm"), 1)
    executor.start(small_spec(1).cells()[0])
    assert executor.ended() == [] and len(executor._jobs) == 1
    assert not Path("mark").exists()


def test_a_job_that_is_preempted_is_queued_again_as_it_is():
    job = slurm_executor.CellJob("somewhere", "some/cell/seed0")
    again = job.checkpoint()
    assert isinstance(again, submitit.helpers.DelayedSubmission) and again.function is job


class Job:
    """A job that has ended."""

    def __init__(self, result):
        self._result = result

    def result(self):
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


@pytest.mark.parametrize(
    ("result", "kind", "why"),
    [
        (("stopped", "interrupt"), "stopped", "interrupt"),
        (RuntimeError("node lost\n"), "failed", "node lost"),
        (RuntimeError(), "failed", "RuntimeError"),
    ],
)
def test_the_end_of_a_job_says_how_its_work_ended(result, kind, why):
    found = slurm_executor._outcome(Job(result))
    assert (found.kind, found.why) == (kind, why)
