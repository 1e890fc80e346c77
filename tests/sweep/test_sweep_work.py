"""The work on one cell: how it ends, and that a worker which was cut off changes nothing when it comes back."""

from __future__ import annotations

import functools
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from small_sweep import assert_alike, begun, small_spec, snapshot

from sacbbf.disk.lease import Busy, Lease
from sacbbf.errors import RunFailed, UsageError
from sacbbf.sweep.executor import outcome_of
from sacbbf.sweep.outcome import Outcome
from sacbbf.sweep.work import find_cell, run_cell, work_on

WAITING = """
import functools, sys
from pathlib import Path
from sacbbf.disk import faults
from sacbbf.disk.lease import Lease
from sacbbf.sweep.work import work_on

def wait():
    print("here", flush=True)
    sys.stdin.readline()

Lease.acquire = functools.partial(Lease.acquire, patience=1.5, beat_every=0.2)
faults.arm("training: step", 60, wait)
outcome = work_on(Path(sys.argv[1]), sys.argv[2])
print(outcome.kind, outcome.why)
"""


def test_a_worker_that_was_cut_off_and_comes_back_writes_nothing(tmp_path, undisturbed, monkeypatch):
    """It is stopped at step 124; another process goes on from step 120 to the end; then it is woken."""
    directory = begun(tmp_path / "sweep", small_spec())
    (cell,) = small_spec().cells()
    run = directory.run(cell)
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", WAITING, str(directory.path), cell.name]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        try:
            assert child.stdout.readline() == "here\n"
            child.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
            monkeypatch.setattr(Lease, "acquire", functools.partial(Lease.acquire, patience=2.0, beat_every=0.2))
            assert work_on(directory.path, cell.name) == Outcome("finished")
            before = snapshot(run.path)
            child.send_signal(signal.SIGCONT)
            said, _ = child.communicate("\n", timeout=60)
        finally:
            child.kill()
    assert said == f"failed {run.path} was taken over by another process; this one has written nothing since\n"
    assert snapshot(run.path) == before
    assert json.loads(run.result.read_bytes())["resumes"] == 1
    assert_alike(directory, undisturbed, [cell])


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Busy("it is at work"), Outcome("busy", "it is at work")),
        (UsageError("wrong"), Outcome("failed", "wrong")),
        (RunFailed("diverged"), Outcome("failed", "diverged")),
        (ZeroDivisionError("by zero"), Outcome("failed", "ZeroDivisionError: by zero")),
    ],
)
def test_no_error_gets_out_of_a_cell(error, outcome, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr("sacbbf.sweep.work.train", fail)
    directory, log = begun(tmp_path / "sweep", small_spec()), io.StringIO()
    assert run_cell(directory, small_spec(), small_spec().cells()[0], Console(file=log)) == outcome
    assert ("Traceback" in log.getvalue()) == isinstance(error, ZeroDivisionError)


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ({"finished": True, "stopped_by": None}, Outcome("finished")),
        ({"finished": False, "stopped_by": "interrupt"}, Outcome("stopped", "interrupt")),
    ],
)
def test_work_on_a_cell_ends_with_a_word_in_its_log(result, outcome, tmp_path, monkeypatch):
    monkeypatch.setattr("sacbbf.sweep.work.train", lambda *args, **kwargs: result)
    directory = begun(tmp_path / "sweep", small_spec())
    (cell,) = small_spec().cells()
    assert work_on(directory.path, cell.name) == outcome
    assert directory.log(cell).read_text() == f"{outcome.kind} {outcome.why}".rstrip() + "\n"


def test_a_cell_that_is_not_in_the_sweep_is_refused():
    with pytest.raises(UsageError, match="the sweep has no cell sac-bbf/CartPole-v1/seed7"):
        find_cell(small_spec(), "sac-bbf/CartPole-v1/seed7")


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ("""echo '{"kind": "busy", "why": "x"}'""", Outcome("busy", "x")),
        ("exit 3", Outcome("failed", "its process ended with exit code 3; some.log has its last words")),
        ("echo no outcome", Outcome("failed", "its process ended with exit code 0; some.log has its last words")),
        ("kill -KILL $$", Outcome("failed", "its process was killed by SIGKILL, perhaps for want of memory")),
        ("kill -SEGV $$", Outcome("failed", "its process was killed by SIGSEGV")),
    ],
)
def test_the_end_of_a_process_says_how_its_work_ended(script, outcome):
    process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE)
    process.wait()
    assert outcome_of(process, Path("some.log")) == outcome
