"""One process writes a run: a second one is refused, and one that was taken over changes nothing any more."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from resuming import differing, outcome, short_config, snapshot, train_telling

from sacbbf.cli import run
from sacbbf.disk import holder
from sacbbf.disk.lease import state_folder
from sacbbf.run.settings import CheckpointConfig, from_toml, to_toml
from toys import python_path

pytestmark = pytest.mark.usefixtures("hurried")

WAITING = """
import functools, sys
import toys
from sacbbf.cli import run
from sacbbf.disk import faults
from sacbbf.disk.lease import Lease

def wait():
    print("here", flush=True)
    sys.stdin.readline()

Lease.acquire = functools.partial(Lease.acquire, patience=1.5, beat_every=0.2)
config, out, point, count = sys.argv[1:]
faults.arm(point, int(count), wait)
sys.exit(run(["train", "--config", config, "--out", out, "--quiet"]))
"""


TESTS = Path(__file__).parents[1]
PATHS = [str(TESTS), str(TESTS.parent / "src")]  # of the code beside these tests, whatever is installed


class Child:
    """A training in a process of its own, which waits at a crash point; it shows life five times a second."""

    def __init__(self, folder, point, count):
        config = folder / "config.toml"
        config.write_text(to_toml(short_config()))
        self.process = subprocess.Popen(
            [sys.executable, "-c", WAITING, str(config), str(folder / "run"), point, str(count)],
            env=os.environ | {"PYTHONPATH": python_path(), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = self.process.pid

    def stop(self):
        """Stop it as a debugger would, or a machine that sleeps."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def wake(self):
        """Let it go on to its end; its exit code and what it said."""
        self.process.send_signal(signal.SIGCONT)
        printed, error = self.process.communicate("\n", timeout=60)
        return self.process.returncode, printed + error


@pytest.fixture
def start(tmp_path):
    """Function that starts a training in a process of its own: crash point, count."""
    children = []

    def start_at(point, count):
        child = Child(tmp_path, point, count)
        children.append(child)
        assert child.process.stdout.readline() == "here\n"
        return child

    yield start_at
    for child in children:
        child.process.kill()
        child.process.communicate()


def test_a_process_that_was_taken_over_changes_nothing(start, impatient, whole, tmp_path, capsys):
    """It is refused to others while it lives; stopped within a line, it is followed, and woken when all is done."""
    out = tmp_path / "run"
    child = start("evaluations.jsonl: inside append", 3)
    again = ["train", "--config", str(out / "config.toml"), "--out", str(out), "--quiet"]
    for words in (["resume", str(out)], again):
        assert run(words) == 2
        assert f"{out} is being written by process {child.pid} on host" in capsys.readouterr().err
    child.stop()
    result, said = train_telling(short_config(), out)
    assert f"held by process {child.pid} on host" in said and "taken up at step 84" in said
    assert result["finished"]
    assert differing(outcome(out), whole) == []
    ends_without_a_trace(child, out)


def test_a_process_whose_run_was_finished_and_cleared_away_does_not_bring_it_back(start, impatient, whole, tmp_path):
    """It is stopped within a checkpoint, and woken when there is no state any more."""
    out = tmp_path / "run"
    child = start("learner: after fsync", 3)
    child.stop()
    train_telling(short_config(checkpoint=CheckpointConfig(every=28, keep=False)), out)
    assert state_folder(out) is None
    found = outcome(out)
    assert differing(found, {name: whole[name] for name in found}) == []
    ends_without_a_trace(child, out)


def ends_without_a_trace(child, out):
    """Wake a process; it finds its run taken over, and all files of the run stay as they are."""
    before = snapshot(out)
    code, said = child.wake()
    assert code == 1
    assert said == f"sacbbf train: {out} was taken over by another process; this one has written nothing since\n"
    assert snapshot(out) == before


# --- what killed processes leave ---


def dead_holder():
    """A holder whose process is gone."""
    code = "import json, sacbbf.disk.holder as holder; print(json.dumps(vars(holder.myself(1))))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return holder.Holder(**json.loads(found.stdout))


def test_what_was_left_of_a_finished_run_is_cleared_away(finished_run, tmp_path):
    """Processes were killed while they dropped a state; one of these is another's, one may still be at it."""
    out = Path(shutil.copytree(finished_run.path, tmp_path / "run"))
    dead, alive = dead_holder(), holder.myself(1)
    names = {
        ".state.000001.0123.dropped": dead,
        f".state.000001.{dead.owner}.leaving": dead,
        ".state.000002.0123.leaving": dead,
        f".state.000003.{alive.owner}.leaving": alive,
    }
    for name, owner in names.items():
        (out / name).mkdir()
        holder.write(out / name, owner)
    result, said = train_telling(from_toml(out / "config.toml"), out)
    assert result["finished"] and "is finished" in said
    assert sorted(path.name for path in out.glob(".*")) == sorted(list(names)[2:])
