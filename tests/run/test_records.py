"""What a run directory holds: files that are whole, complete, readable by others, and free of clock times."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from resuming import read_events
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from sacbbf.disk.files import Damaged
from sacbbf.disk.lease import Lease
from sacbbf.envs import games
from sacbbf.errors import UsageError
from sacbbf.run.records import (
    RECORDS,
    JsonLines,
    RunDirectory,
    check_record,
    default_directory,
    read_lines,
    write_atomically,
    write_json,
)
from sacbbf.run.result import score_fields
from sacbbf.run.settings import from_toml
from sacbbf.run.trackers import begin_again, scalars
from sacbbf.types import EpisodeRecord
from toys import run_quietly, toy_config


def test_a_run_holds_its_configuration(finished_run):
    assert from_toml(finished_run.config) == toy_config("Identity", 200, every=50)


def test_episodes_follow_one_another(finished_run):
    lines = list(read_lines(finished_run.record("episodes")))
    assert [line["number"] for line in lines] == list(range(20))
    assert [line["step"] for line in lines] == [10 * (number + 1) for number in range(20)]
    assert all(line["truncated"] and line["length"] == 10 and 0 <= line["score"] <= 10 for line in lines)


def test_metrics_hold_losses_entropy_and_schedules(finished_run):
    lines = list(read_lines(finished_run.record("metrics")))
    assert [line["step"] for line in lines] == list(range(80, 201, 20))  # learning begins after step 64
    names = {"loss/total", "loss/td", "loss/spr", "loss/policy", "policy/entropy", "q/mean", "q/max", "grad_norm"}
    names |= {"schedule/n", "schedule/gamma", "schedule/beta", "replay/priority"}
    assert all(names <= line.keys() and np.isfinite(list(line.values())).all() for line in lines)


def test_evaluations_come_at_their_steps(finished_run):
    lines = list(read_lines(finished_run.record("evaluations")))
    assert [(line["step"], line["episodes"]) for line in lines] == [(50, 3), (100, 3), (150, 3)]


def test_compared_records_hold_no_clock(finished_run):
    for name in ("episodes", "metrics", "evaluations"):
        words = " ".join(next(iter(read_lines(finished_run.record(name)))))
        assert not any(word in words for word in ("second", "time", "wall", "date"))
    assert {"steps_per_second", "updates_per_second"} < set(next(iter(read_lines(finished_run.record("speed")))))


def test_the_result_says_what_how_and_where(finished_run):
    result = json.loads(finished_run.result.read_text())
    returns = result["returns"]
    assert result["score"] == pytest.approx(np.mean(returns)) and len(returns) == result["episodes"] == 4
    assert result["standard_error"] == pytest.approx(np.std(returns, ddof=1) / 2)
    assert result["median"] == pytest.approx(np.median(returns))
    assert result["human_normalised"] is None  # not an Atari game
    assert (result["steps"], result["updates"], result["train_episodes"]) == (200, 136, 20)
    assert (result["seed"], result["finished"], result["stopped_by"]) == (0, True, None)
    assert result["wall_seconds"] > 0
    assert {"sacbbf", "python", "torch", "numpy"} <= result["versions"].keys()
    assert {"cpu", "cores", "threads", "device"} <= result["machine"].keys()


def test_an_atari_score_is_normalised():
    records = [EpisodeRecord(number, 0, score, 5, False) for number, score in enumerate((-20.7, 14.6))]
    assert score_fields(records, "Pong")["human_normalised"] == pytest.approx(0.5, abs=1e-6)
    assert score_fields(records, "Pitfall")["human_normalised"] is None


def test_the_curve_is_a_picture_of_something(finished_run):
    data = finished_run.curve.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    assert min(picture.shape[:2]) >= 300
    colours = {tuple(pixel) for pixel in picture.reshape(-1, 3)[:, ::-1].tolist()}
    assert {(0xD5, 0x5E, 0x00), (0x00, 0x9E, 0x73)} <= colours  # evaluations, final score


def test_tensorboard_shows_losses_returns_and_speed(finished_run):
    events = read_events(finished_run.tensorboard)
    episodes = list(read_lines(finished_run.record("episodes")))
    assert events["train/score"] == [(line["step"], line["score"]) for line in episodes]
    for tag in ("loss/total", "loss/td", "loss/policy", "policy/entropy", "q/mean", "evaluation/mean"):
        assert len(events[tag]) >= 3, tag
    assert len(events["speed/updates_per_second"]) == 10


def test_tensorboard_has_the_settings_and_the_final_score(finished_run):
    """As the page HParams reads them: settings at the start, the score as the metric."""
    result = json.loads(finished_run.result.read_text())
    events = EventAccumulator(str(finished_run.tensorboard)).Reload()
    (final,) = events.Scalars("final/score")
    assert (final.step, final.value) == (result["steps"], pytest.approx(result["score"]))
    plugin = events.summary_metadata
    start = HParamsPluginData.FromString(plugin["_hparams_/session_start_info"].plugin_data.content)
    settings = start.session_start_info.hparams
    assert settings["optimiser.learning_rate"].number_value == 3e-4
    assert settings["env"].string_value == "toys/Identity-v0" and settings["seed"].number_value == 0
    assert not any(name.startswith(("checkpoint.", "threads")) for name in settings)
    experiment = HParamsPluginData.FromString(plugin["_hparams_/experiment"].plugin_data.content).experiment
    assert [metric.name.tag for metric in experiment.metric_infos] == ["final/score"]
    assert "_hparams_/session_end_info" in plugin


def test_tensorboard_events_can_be_made_again(finished_run, tmp_path):
    copy = RunDirectory(tmp_path / "copy")
    shutil.copytree(finished_run.path, copy.path)
    before = read_events(copy.tensorboard)
    begin_again(copy, None).close()
    assert read_events(copy.tensorboard) == before


def test_scalars_of_an_atari_game_are_normalised():
    human = games.SCORES["Pong"].human
    episode = {"step": 9, "number": 0, "seed": 1, "score": human, "length": 7, "truncated": False}
    want = {"train/score": human, "train/length": 7, "train/human_normalised": 1.0}
    assert scalars("episodes", episode, "Pong") == pytest.approx(want)
    evaluation = {"step": 9, "mean": games.SCORES["Pong"].random, "standard_error": 1.0}
    assert scalars("evaluations", evaluation, "Pong")["evaluation/human_normalised"] == pytest.approx(0.0)
    assert "train/human_normalised" not in scalars("episodes", episode, None)


def test_a_directory_that_holds_something_is_refused_and_left_alone(finished_run, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in finished_run.path.rglob("*")}
    with pytest.raises(UsageError, match="holds another run already"):
        run_quietly(toy_config("Identity", 10), finished_run.path)
    assert {path: path.stat().st_mtime_ns for path in finished_run.path.rglob("*")} == before
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds other files already"):
        RunDirectory(tmp_path).prepare()
    with pytest.raises(UsageError, match="holds other files already"):
        RunDirectory(tmp_path / "notes.txt").prepare()
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_an_empty_directory_is_taken(tmp_path):
    config = toy_config("Identity", 10, agent="random")
    run_quietly(config, tmp_path)
    assert from_toml(RunDirectory(tmp_path).require().config) == config


def test_a_directory_is_taken_whose_process_was_killed_before_it_had_stored_anything(tmp_path):
    for name in ("state.000001", ".state.0123.new"):
        (tmp_path / name).mkdir()
    RunDirectory(tmp_path).prepare()
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "notes.txt").write_text("beside a run")
    RunDirectory(tmp_path).prepare()


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file/run: cannot be made: Not a directory"):
        RunDirectory(tmp_path / "file" / "run").prepare()


def test_a_directory_without_a_run_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"not a run directory: it holds no config\.toml"):
        RunDirectory(tmp_path).require()


def test_default_directories_do_not_collide(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = default_directory("MinAtar/Breakout-v1", "sac-bbf", "tiny", 3)
    assert first == Path("runs/MinAtar-Breakout-v1-sac-bbf-tiny-seed3")
    first.mkdir(parents=True)
    assert default_directory("MinAtar/Breakout-v1", "sac-bbf", "tiny", 3).name == f"{first.name}-2"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    write_json(path, {"a": 1})

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"half")
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    assert json.loads(path.read_text()) == {"a": 1}


def test_lines_are_on_disk_as_soon_as_they_are_appended(tmp_path):
    with Lease.acquire(tmp_path) as lease:
        lines = JsonLines(lease, tmp_path / "a.jsonl")
        lines.append(step=1, value=float("nan"), other=0.5)
        assert list(read_lines(tmp_path / "a.jsonl")) == [{"step": 1, "value": None, "other": 0.5}]
        lines.close()


def test_lines_go_on_behind_a_mark_and_what_lay_behind_it_is_dropped(tmp_path):
    path = tmp_path / "a.jsonl"
    with Lease.acquire(tmp_path) as lease:
        former = JsonLines(lease, path)
        former.append(step=1)
        mark = former.sync()
        former.append(step=2)
        again = JsonLines(lease, path, mark)
        former.append(step=3)  # held open by somebody who has lost the run: nobody sees it
        again.append(step=4)
        assert [line["step"] for line in read_lines(path)] == [1, 4]
        check_record(path, again.sync())
        check_record(path, mark)
        former.close()
        again.close()


@pytest.mark.parametrize(("content", "why"), [(b'{"step": 2}\n', "checksum"), (b'{"st', "lost 8"), (None, "be read")])
def test_lines_that_are_not_those_of_the_mark_are_refused_and_left(content, why, tmp_path):
    path = tmp_path / "a.jsonl"
    with Lease.acquire(tmp_path) as lease:
        lines = JsonLines(lease, path)
        lines.append(step=1)
        mark = lines.sync()
        lines.close()
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(Damaged, match=rf"a\.jsonl .*{why}"):
            JsonLines(lease, path, mark)
    assert (path.read_bytes() if path.exists() else None) == content


def test_a_line_cut_off_at_the_end_is_left_out(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"step": 1}\n{"step": 2}\n{"st')
    assert [line["step"] for line in read_lines(tmp_path / "a.jsonl")] == [1, 2]
    assert list(read_lines(tmp_path / "none.jsonl")) == []


def test_every_record_has_a_file(finished_run):
    sizes = {name: finished_run.record(name).stat().st_size for name in RECORDS}
    assert [name for name, size in sizes.items() if size == 0] == ["diagnostics"]  # which were not asked for
