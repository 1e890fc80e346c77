"""Sweeps by processes of this machine: killed, stopped, doubled and damaged ones end as if nothing had happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from small_sweep import assert_alike, begun, small_spec, wait_for, words_of

from sacbbf.cli import run
from sacbbf.disk import faults
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.spec import Variant
from sacbbf.sweep.status import is_held, saved_step, sweep_states

CHATTY = """
import gymnasium
print("a word" * 100_000, flush=True)
gymnasium.register("Chatty-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=9)
"""


@pytest.fixture
def start(tmp_path):
    """Function that starts a sweep as a process of its own."""
    processes = []

    def start_sweep(*words):
        command = [
            sys.executable,
            "-c",
            "from sacbbf.cli import main; main()",
            "sweep",
            str(tmp_path / "sweep"),
            *words,
        ]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        return processes[-1]

    yield start_sweep
    for process in processes:
        process.kill()
        process.communicate()


def count(states, name):
    return sum(state.state == name for state in states)


def result_of(directory, cell):
    return json.loads(directory.run(cell).result.read_bytes())


def test_a_killed_sweep_goes_on_when_it_is_started_again(start, tmp_path, undisturbed):
    """No worker outlives it; finished cells are left alone, the others go on from their checkpoints."""
    spec = small_spec(4)
    cells = spec.cells()
    directory = SweepDirectory(tmp_path / "sweep")
    process = start(*words_of(spec), "--workers", "2")

    def halfway():
        assert process.poll() is None, process.stdout.read()
        states = sweep_states(directory, cells)
        others = [state.cell for state in states if state.state != "finished"]
        return len(others) <= 2 and any(saved_step(directory.run(cell)) > 0 for cell in others)

    wait_for(halfway)
    process.kill()
    process.wait()
    wait_for(lambda: not any(is_held(directory.run(cell)) for cell in cells))
    states = sweep_states(directory, cells)
    done = [state.cell for state in states if state.state == "finished"]
    assert len(done) >= 2 and count(states, "stopped") >= 1
    written = {cell.name: directory.run(cell).result.stat().st_mtime_ns for cell in done}
    assert run(["sweep", str(directory.path), *words_of(spec), "--workers", "2"]) == 0
    assert {cell.name: directory.run(cell).result.stat().st_mtime_ns for cell in done} == written
    assert sum(result_of(directory, cell)["resumes"] for cell in cells) >= 1
    assert_alike(directory, undisturbed, cells)


def test_a_killed_worker_is_tried_again(tmp_path, undisturbed, monkeypatch, capsys):
    """It dies at step 124 of 150, after the checkpoint of step 120: from there its end is nearer than its death."""
    directory = begun(tmp_path / "sweep", small_spec())
    (cell,) = small_spec().cells()
    monkeypatch.setenv(faults.CRASH_AT, "training: step#60")
    assert run(["sweep", str(directory.path), "--retries", "1"]) == 0
    said = capsys.readouterr().out
    assert "failed: its process was killed by SIGKILL, perhaps for want of memory; trying again, 1 of 1" in said
    assert result_of(directory, cell)["resumes"] == 1
    assert_alike(directory, undisturbed, [cell])


def test_an_interrupted_sweep_stops_its_workers_and_says_so(tmp_path):
    directory = begun(tmp_path / "sweep", small_spec(2))
    first, second = small_spec(2).cells()

    def interrupt():
        wait_for(lambda: saved_step(directory.run(first)) > 0)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    code = run(["sweep", str(directory.path), "--workers", "1"])
    thread.join()
    assert code == 130
    assert [state.state for state in sweep_states(directory, [first, second])] == ["stopped", "waiting"]
    assert result_of(directory, first)["stopped_by"] == "interrupt"
    assert not is_held(directory.run(first))


def test_cells_that_cannot_run_are_given_up_with_their_reasons_and_the_others_finish(tmp_path, monkeypatch, capsys):
    """A damaged configuration, a package that workers lack, and an environment that prints more than a pipe holds."""
    envs = ("chatty:Chatty-v0", "missing_package:Env-v0")
    spec = small_spec(2, envs=envs, variants=(Variant("random"),))
    directory = begun(tmp_path / "sweep", spec)
    damaged, *missing_first, good, missing_second = spec.cells()
    (tmp_path / "chatty.py").write_text(CHATTY)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    config = directory.run(damaged).config
    config.parent.mkdir(parents=True)
    config.write_text("env = = 3")
    assert run(["sweep", str(directory.path), "--retries", "0", "--workers", "2", "--trust"]) == 1
    states = {state.cell.name: state for state in sweep_states(directory, spec.cells())}
    assert states[good.name].state == "finished"
    assert states[damaged.name].state == "failed"
    assert str(config) in states[damaged.name].why and "TOML" in states[damaged.name].why
    said = capsys.readouterr().out
    for cell in (*missing_first, missing_second):
        assert states[cell.name].state == "failed" and "missing_package" in states[cell.name].why
        assert f"{cell.name} failed: " in said
    assert directory.log(good).read_text().count("a word") == 100_000


def test_two_sweeps_of_one_directory_share_its_cells(start, tmp_path, undisturbed):
    spec = small_spec(3)
    processes = [start(*words_of(spec), "--workers", "1") for _ in range(2)]
    said = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert all("all 3 cells are finished" in words for words in said)
    assert_alike(SweepDirectory(tmp_path / "sweep"), undisturbed, spec.cells())
