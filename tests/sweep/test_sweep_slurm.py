"""Cells as jobs of submitit, which runs them as processes of this machine here: no Slurm is needed for that."""

from __future__ import annotations

import pytest
from rich.console import Console
from small_sweep import assert_alike, begun, small_spec

from sacbbf.run.stop import Stop
from sacbbf.sweep.drive import Driver
from sacbbf.sweep.status import sweep_states
from sacbbf.sweep.table import LiveTable

submitit = pytest.importorskip("submitit")
slurm_executor = pytest.importorskip("sacbbf.sweep.slurm_executor")


def make_executor(directory, workers=None):
    return slurm_executor.SlurmExecutor(
        directory, workers=workers, cpus=1, gpus=0, partition=None, hours=0.1, cluster="local"
    )


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
