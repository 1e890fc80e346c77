"""How `sacbbf train` fails: divergence, a full disk, a signal. It says why, and what it leaves is whole."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sacbbf.cli import run
from sacbbf.disk import files
from sacbbf.run.records import JsonLines, RunDirectory, read_lines
from toys import IDENTITY, SHORT, SMALL, python_path

pytestmark = pytest.mark.usefixtures("working_directory")


def test_divergence_is_told_without_a_traceback(capsys):
    words = ["--optimiser.learning-rate", "1", "--optimiser.weight-decay", "1000", "--out", "run"]
    assert run(["train", IDENTITY, "--steps", "1000", *words, *SHORT]) == 1
    error = capsys.readouterr().err
    assert "training diverged; lower optimiser.learning_rate (it is 1)" in error and "Traceback" not in error


def fill_disk_for_file(monkeypatch, name):
    """From now on there is no room for new files of that name."""
    write_new = files.write_new

    def write_unless_full(path, *args, **kwargs):
        if name in path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write_new(path, *args, **kwargs)

    monkeypatch.setattr(files, "write_new", write_unless_full)


def fill_disk_for_lines(monkeypatch, name):
    """From now on there is no room for further lines of that record."""
    prepare = JsonLines.__init__

    def prepare_then_fill(self, *args):
        prepare(self, *args)
        if name in self.path.name:
            with Path("/dev/full").open("ab") as full:
                os.dup2(full.fileno(), self._file.fileno())

    monkeypatch.setattr(JsonLines, "__init__", prepare_then_fill)


@pytest.mark.parametrize(
    ("fill", "name", "told"),
    [
        (fill_disk_for_lines, "episodes", "cannot write run/episodes.jsonl"),
        (fill_disk_for_file, "episodes", "cannot write run"),
        (fill_disk_for_file, "policy", "cannot write run"),
        (fill_disk_for_file, "result", "cannot write run"),
    ],
)
def test_a_full_disk_is_told_without_a_traceback(fill, name, told, monkeypatch, capsys):
    fill(monkeypatch, name)
    assert run(["train", IDENTITY, "--steps", "40", "--out", "run", *SHORT]) == 1
    error = capsys.readouterr().err
    assert f"{told}: No space left on device" in error and "sacbbf resume run" in error
    assert "Traceback" not in error
    assert not Path("run/result.json").exists()


def test_a_disk_too_full_for_checkpoints_is_told_and_training_goes_on(monkeypatch, capsys):
    fill_disk_for_file(monkeypatch, "learner")
    words = [word for word in SHORT if word != "--quiet"]
    assert run(["train", IDENTITY, "--steps", "40", "--checkpoint.every", "15", "--out", "run", *words]) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning")]
    assert [f"step {step}" in line for step, line in zip((15, 30, 40), told, strict=True)] == [True] * 3
    assert all("No space left on device" in line for line in told)
    assert json.loads(Path("run/result.json").read_text())["finished"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_process_leaves_a_whole_run(number, tmp_path):
    command = [sys.executable, "-c", "from sacbbf.cli import main; main()"]
    words = [
        "train",
        f"toys:{IDENTITY}",
        "--steps",
        "1000000",
        "--out",
        "run",
        "--log-every",
        "10",
        "--schedule.warmup",
        "64",
    ]
    environment = os.environ | {"PYTHONPATH": python_path(), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([*command, *words, *SMALL], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        # Half a dozen metrics: the signal comes in the middle of learning.
        wait_for(lambda: len(list(read_lines(Path("run/metrics.jsonl")))) > 5, process)
        process.send_signal(number)
        _, error = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in error
    finished = RunDirectory(Path("run"))
    result = json.loads(finished.result.read_text())
    assert (result["finished"], result["stopped_by"], result["score"]) == (False, "interrupt", None)
    assert finished.curve.read_bytes().endswith(b"IEND\xaeB`\x82")
    for name in ("episodes", "metrics", "speed"):
        lines = finished.record(name).read_text().splitlines(keepends=True)
        assert all(line.endswith("\n") and json.loads(line) for line in lines) and lines
    assert run(["evaluate", "run", "--episodes", "2"]) == 0


def wait_for(condition, process, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)
