"""A run that was stopped and taken up again ends as if it had never been stopped."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from resuming import (
    STEPS,
    WARMUP,
    Killed,
    differing,
    kill_at,
    manifests,
    outcome,
    read_events,
    short_config,
    signal_at,
    snapshot,
    stop_at,
    train_telling,
)

from sacbbf.cli import run
from sacbbf.disk import faults
from sacbbf.disk.lease import state_folder
from sacbbf.run.records import RECORDS, RunDirectory, read_lines
from sacbbf.run.settings import CheckpointConfig
from sacbbf.run.trackers import scalars

pytestmark = pytest.mark.usefixtures("hurried", "armed")


def finish(config, out, resumes):
    """Take a run up to its end; its outcome, and what was said."""
    faults.disarm()
    result, said = train_telling(config, out)
    assert (result["finished"], result["stopped_by"], result["resumes"]) == (True, None, resumes)
    return outcome(out), said


# --- stopped ---

STOPS = {  # point, its visit, the step after which the run then stops
    "in the warm-up, in mid-episode": ("training: warm-up step", 23, 23),
    "at a reset in the warm-up": ("training: reset", 1, 34),
    "at the end of the warm-up": ("training: warm-up step", 64, 64),
    "before a reset": ("training: step", 2, 66),
    "after a reset": ("training: reset", 2, 67),
    "in mid-episode": ("training: step", 11, 75),
    "on a checkpoint": ("training: step", 20, 84),
    "on an evaluation, between episodes": ("training: step", 26, 90),
    "in an evaluation": ("interval evaluation: episode", 5, 90),
    "after an evaluation": ("interval evaluation: episode", 6, 91),
    "at the last step": ("training: step", 36, 100),
    "in the final evaluation": ("evaluation: episode", 1, 100),
}
SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1]


@pytest.mark.parametrize(
    ("point", "count", "step", "number"),
    [(*stop, SIGNALS[index % 3]) for index, stop in enumerate(STOPS.values())],
    ids=STOPS,
)
def test_a_run_stopped_by_a_signal_ends_as_without_a_stop(point, count, step, number, whole, tmp_path):
    signal_at(point, count, number)
    result, _ = train_telling(short_config(), tmp_path)
    assert (result["finished"], result["stopped_by"], result["steps"]) == (False, "interrupt", step)
    assert manifests(tmp_path)[-1].step == step
    found, said = finish(short_config(), tmp_path, 1)
    assert f"taken up at step {step} of 100" in said and "warning" not in said
    assert differing(found, whole) == []


def test_a_run_stopped_before_its_first_step_ends_as_without_a_stop(whole, tmp_path):
    signal_at("episodes.jsonl cut: before write", 1)
    result, _ = train_telling(short_config(), tmp_path)
    assert (result["finished"], result["steps"]) == (False, 0)
    found, said = finish(short_config(), tmp_path, 1)
    assert "taken up at step 0 of 100" in said
    assert differing(found, whole) == []


def test_a_run_stopped_again_and_again_ends_as_without_a_stop(whole, tmp_path):
    config = short_config()
    for step in (13, 77, 78, 95):
        stop_at_next(step, config, tmp_path)
    signal_at("evaluation: episode", 2)
    train_telling(config, tmp_path)
    found, _ = finish(config, tmp_path, 5)
    assert differing(found, whole) == []


def stop_at_next(step, config, out):
    """Go on until after a step, whatever step the run was at."""
    before = manifests(out)[-1].step if state_folder(out) else 0
    if step <= WARMUP:
        signal_at("training: warm-up step", step - before)
    else:
        signal_at("training: step", step - max(before, WARMUP))
    assert train_telling(config, out)[0]["steps"] == step


def test_a_run_whose_time_was_up_ends_as_without_a_stop(whole, tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("sacbbf.run.stop.time", SimpleNamespace(monotonic=lambda: clock[0]))
    faults.arm("training: step", 7, lambda: clock.append(clock.pop() + time.monotonic() + 7200))
    result, _ = train_telling(short_config(), tmp_path, max_hours=1)
    assert (result["finished"], result["stopped_by"], result["steps"]) == (False, "max_hours", 71)
    assert len(result["returns"]) == 3  # of what was learned by then
    found, _ = finish(short_config(), tmp_path, 1)
    assert differing(found, whole) == []


@pytest.mark.parametrize(("every", "stop"), [(0, 73), (30, 90)])
def test_how_often_checkpoints_are_written_changes_nothing(every, stop, whole, tmp_path):
    config = short_config(checkpoint=CheckpointConfig(every, keep=True))
    stop_at(stop, config, tmp_path)
    found, _ = finish(config, tmp_path, 1)
    assert differing(found, whole) == []


def test_grids_and_uniform_replay_are_taken_up_as_well(tmp_path):
    base = short_config("Catch")
    config = replace(base, settings=replace(base.settings, replay=replace(base.settings.replay, prioritised=False)))
    train_telling(config, tmp_path / "whole")
    stop_at(78, config, tmp_path / "run")
    assert differing(finish(config, tmp_path / "run", 1)[0], outcome(tmp_path / "whole")) == []


def test_a_baseline_begins_again(tmp_path):
    config = short_config(agent="random")
    want, _ = train_telling(config, tmp_path / "whole")
    signal_at("evaluation: episode", 1)
    assert not train_telling(config, tmp_path / "run")[0]["finished"]
    faults.disarm()
    found, _ = train_telling(config, tmp_path / "run")
    assert found["finished"] and found["returns"] == want["returns"]


# --- killed ---

KILLS = {
    "config: inside write": 1,
    "replay segment: inside write": 1,
    "learner: after fsync": 2,
    "progress: after rename": 3,
    "manifest: after rename": 3,
    "metrics.jsonl: inside append": 2,
    "evaluations.jsonl: before append": 3,
    "result: before write": 1,
}


@pytest.mark.parametrize(("point", "count"), KILLS.items(), ids=KILLS)
def test_a_killed_run_ends_as_without_a_stop(point, count, whole, tmp_path):
    kill_at(point, count)
    with pytest.raises(Killed):
        train_telling(short_config(), tmp_path)
    faults.disarm()
    result, _ = train_telling(short_config(), tmp_path)
    assert result["finished"]
    assert differing(outcome(tmp_path), whole) == []


@pytest.mark.parametrize("point", ["episodes.jsonl cut: inside write", "metrics.jsonl cut: after rename"])
def test_a_run_killed_while_it_is_taken_up_ends_as_without_a_stop(point, whole, tmp_path):
    kill_at("training: step", 34)
    with pytest.raises(Killed):
        train_telling(short_config(), tmp_path)
    kill_at(point)
    with pytest.raises(Killed):
        train_telling(short_config(), tmp_path)
    found, said = finish(short_config(), tmp_path, 1)
    assert "taken up at step 84" in said
    assert differing(found, whole) == []


# --- records, segments, TensorBoard ---


def test_records_have_every_line_once(stopped_run, copied, whole):
    lines = {name: len(list(read_lines(RunDirectory(stopped_run).record(name)))) for name in RECORDS}
    assert lines == {"episodes": 9, "metrics": 3, "evaluations": 3, "diagnostics": 0, "speed": 9}
    finish(short_config(), copied, 1)
    steps = {name: [line["step"] for line in read_lines(RunDirectory(copied).record(name))] for name in RECORDS}
    tens = list(range(10, STEPS + 1, 10))
    evaluated = [30, 60, 90]
    assert steps == {"episodes": tens, "metrics": tens[6:], "evaluations": evaluated, "diagnostics": [], "speed": tens}


def test_tensorboard_shows_what_the_records_say(copied):
    finish(short_config(), copied, 1)
    want = {}
    for kind in RECORDS:
        for line in read_lines(RunDirectory(copied).record(kind)):
            for tag, value in scalars(kind, line, None).items():
                want.setdefault(tag, []).append((line["step"], pytest.approx(value, rel=1e-6)))
    result = RunDirectory(copied).read_result()
    want["final/score"] = [(result["steps"], pytest.approx(result["score"]))]
    assert read_events(copied / "tensorboard") == want


def test_segments_that_no_checkpoint_needs_are_deleted(whole, tmp_path):
    config = short_config(checkpoint=CheckpointConfig(every=10, keep=True))
    stop_at(57, config, tmp_path)
    found, _ = finish(config, tmp_path, 1)
    assert differing(found, whole) == []
    older, newest = manifests(tmp_path)
    assert (older.step, newest.step) == (90, 100)
    names = {path.name for path in state_folder(tmp_path).iterdir()} - {"lease.json"}
    assert names == older.files | newest.files
    # The oldest steps in the ring are 90 - 64 = 26 and 100 - 64 = 36.
    assert [segment.first for segment in older.segments] == [20, 30, 40, 50, 57, 60, 70, 80]
    assert [segment.first for segment in newest.segments] == [30, 40, 50, 57, 60, 70, 80, 90]


# --- finished ---


@pytest.mark.parametrize("keep", [False, True])
def test_a_finished_run_is_only_reported(keep, tmp_path, capsys):
    config = short_config(checkpoint=CheckpointConfig(every=30, keep=keep))
    result, _ = train_telling(config, tmp_path / "run")
    assert (state_folder(tmp_path / "run") is not None) == keep
    before = snapshot(tmp_path / "run")
    again, said = train_telling(config, tmp_path / "run")
    assert again == result == json.loads((tmp_path / "run/result.json").read_text())
    assert "is finished: there is nothing left to do" in said
    assert run(["resume", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert "is finished" in said and f"score {result['score']:.2f}" in said
    assert snapshot(tmp_path / "run") == before


def test_the_command_takes_a_run_up(copied, whole, capsys):
    assert run(["resume", str(copied)]) == 0
    said = capsys.readouterr().out
    assert "taken up at step 97 of 100" in said and f"run directory {copied}" in said
    assert differing(outcome(copied), whole) == []


def test_a_stopped_run_says_how_to_go_on(tmp_path, capsys):
    words = ["--steps", "30", "--eval.episodes", "2", "--eval.no-baselines", "--quiet", "--out", str(tmp_path / "run")]
    signal_at("training: warm-up step", 5)
    assert run(["train", "toys/Identity-v0", *words]) == 130
    assert f"to go on: sacbbf resume {tmp_path / 'run'}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "nowhere is not a run directory"),
        (["RUN", "--max-hours", "0"], "max_hours = 0.0: must be above 0"),
    ],
)
def test_the_command_refuses(words, message, stopped_run, capsys):
    before = snapshot(stopped_run)
    assert run(["resume", *(str(stopped_run) if word == "RUN" else word for word in words)]) == 2
    assert message in capsys.readouterr().err
    assert snapshot(stopped_run) == before
