"""`sacbbf tune` as a user meets it: refusals, the result and its page, stops, going on."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import sys
from io import StringIO

import pytest
import tyro
from rich.console import Console
from small_tuning import MadeUp, begun, by_rate, small_tuning

from sacbbf.cli import run
from sacbbf.commands.train import TrainArgs, preset_defaults, run_config
from sacbbf.errors import UsageError
from sacbbf.run.settings import check_run, differences
from sacbbf.run.train import train
from sacbbf.sweep.spec import configuration
from sacbbf.sweep.work import run_cell
from sacbbf.tune.budget import Budget, Clock
from sacbbf.tune.progress import TuneProgress
from sacbbf.tune.study import Study, Trial
from sacbbf.tune.tuning import TuningDirectory

WORDS = ["tune", "CartPole-v1", "--trials", "4", "--steps", "1000", "--fresh-seeds", "3", "--workers", "1", "--only"]
RATE = ["--space", "optimiser.learning_rate=1e-4:1e-2:log", "--space", "schedule.n_end=1,3,5"]
SMALL = {
    "network.hidden_dim": 8,
    "network.num_atoms": 5,
    "loss.spr_steps": 2,
    "schedule.warmup": 64,
    "schedule.n_start": 4,
    "replay.batch_size": 4,
    "eval.episodes": 2,
    "eval.every_episodes": 1,
}


@pytest.fixture
def made_up(monkeypatch):
    """Runs are made up; the executors, in the order in which they were made."""
    made = []

    def make(directory, spec, workers, cells, trust):
        made.append(MadeUp(directory))
        return made[-1]

    monkeypatch.setattr("sacbbf.tune.carry_out.make_executor", make)
    return made


@pytest.fixture
def unworkable(monkeypatch):
    """Nothing may get as far as running anything."""

    def refuse(*args):
        raise AssertionError("runs would be started")

    monkeypatch.setattr("sacbbf.tune.carry_out.make_executor", refuse)


def tuned(tmp_path, *words):
    """Run the command into a directory; its exit code."""
    return run([*WORDS, *RATE, "--out", str(tmp_path / "tune"), *words])


# --- the result ---


def test_the_result_compares_the_best_trial_with_the_default_on_fresh_seeds(made_up, tmp_path, capsys):
    assert tuned(tmp_path) == 0
    said = capsys.readouterr().out
    summary = json.loads((tmp_path / "tune/summary.json").read_text())
    finished = [trial for trial in summary["trials"] if trial["state"] == "finished"]
    best = max(finished, key=lambda trial: trial["score"])
    assert summary["best"] == best["number"] > 0 and summary["trials"][0]["settings"] == {}
    search, comparison = made_up
    assert {cell.seed for cell in search.started} == {100, 101} == set(summary["tuning_seeds"])
    assert [(cell.variant.name, cell.seed) for cell in comparison.started] == [
        (name, seed) for seed in (200, 201, 202) for name in ("default", f"trial-{best['number']:03d}")
    ]
    found = summary["comparison"]
    assert found["seeds"] == summary["fresh_seeds"] == [200, 201, 202]
    default, chosen = ([by_rate(cell) for cell in comparison.started[start::2]] for start in (0, 1))
    assert (found["default"], found["best"]) == (default, chosen)
    difference = found["difference"]
    assert difference["value"] == pytest.approx(chosen[0] - default[0]) and difference["low"] > 0
    assert summary["verdict"] == f"trial {best['number']} beats the default on fresh seeds"
    assert summary["verdict"] in said and f"difference: {difference['value']:.2f} (95% interval" in said
    budget = summary["budget"]
    assert (budget["trials"], budget["hours"], budget["workers"]) == (4, None, 1)
    assert "4 trials (at most 4 trials) of 2 seeds, 1,000 steps each" in said


def test_the_configuration_that_was_found_is_taken_by_train(made_up, tmp_path, capsys):
    assert tuned(tmp_path, "--set", "eval.episodes=7") == 0
    directory = TuningDirectory(tmp_path / "tune")
    assert f"sacbbf train --config {directory.best}" in capsys.readouterr().out
    words = ["--config", str(directory.best)]
    config = run_config(tyro.cli(TrainArgs, args=words, default=preset_defaults(words)[0]))
    check_run(config)
    summary = json.loads(directory.summary.read_text())
    found = differences(directory.read().configuration({}), config)
    settings = summary["trials"][summary["best"]]["settings"]
    assert {name.removeprefix("settings."): new for name, (_, new) in found.items()} == {
        name: value for name, value in settings.items() if value != summary["default"][name]
    }
    assert (config.steps, config.eval.episodes, config.eval.every) == (1_000, 7, 0)


def test_the_page_has_the_numbers_and_needs_nothing_else(made_up, tmp_path):
    assert tuned(tmp_path) == 0
    text = (tmp_path / "tune/tuning.html").read_text()
    summary = json.loads((tmp_path / "tune/summary.json").read_text())
    assert not re.search(r'(src|href)="(?!#|data:)', text) and "<script src" not in text
    for trial in summary["trials"]:
        assert trial["score"] is None or f"<td>{trial['score']:,.1f}</td>" in text
    difference = summary["comparison"]["difference"]
    assert f"95%: {difference['low']:,.1f} to {difference['high']:,.1f}" in text
    assert f"{summary['verdict'].capitalize()}." in text
    for name in summary["default"]:
        assert name.replace(".", ".<wbr>").replace("_", "_<wbr>") in text
    for words in ("Steps of each run", "1,000", "Fresh seeds of the comparison", "best.toml"):
        assert words in text


def test_where_nothing_beats_the_default_there_is_nothing_to_compare(made_up, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("small_tuning.MadeUp.evaluate", lambda *args: None)
    monkeypatch.setattr(
        "small_tuning.MadeUp.__init__.__defaults__", (lambda cell: 5.0, *MadeUp.__init__.__defaults__[1:])
    )
    assert tuned(tmp_path) == 0
    assert "no trial scores above the default: there is nothing to compare" in capsys.readouterr().out
    summary = json.loads((tmp_path / "tune/summary.json").read_text())
    assert (summary["best"], summary["comparison"]) == (0, None) and len(made_up) == 1
    assert "Nothing to compare" not in (tmp_path / "tune/tuning.html").read_text()


def test_real_runs_are_ordinary_run_directories(monkeypatch, tmp_path):
    """Two trials of CartPole with small networks: trained by this process, one after the other."""

    class Here(MadeUp):
        def start(self, cell):
            spec = self.directory.read()
            self.at_work[cell.name] = [cell, run_cell(self.directory, spec, cell, Console(quiet=True))]

        def ended(self):
            over, self.at_work = list(self.at_work.values()), {}
            return over

    monkeypatch.setattr("sacbbf.tune.carry_out.make_executor", lambda directory, *rest: Here(directory))
    monkeypatch.setattr("sacbbf.run.train.draw_curve", lambda *args: b"picture")
    settings = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    words = ["--steps", "150", "--trials", "2", "--seeds", "1", "--fresh-seeds", "2", *settings]
    assert tuned(tmp_path, *words) == 0
    directory = TuningDirectory(tmp_path / "tune")
    summary = json.loads(directory.summary.read_text())
    assert [trial["state"] for trial in summary["trials"]] == ["finished", "finished"]
    run_path = directory.search.path / "runs/trial-001/CartPole-v1/seed100"
    result = json.loads((run_path / "result.json").read_text())
    assert result["score"] == summary["trials"][1]["score"]
    lines = [json.loads(line) for line in (run_path / "evaluations.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [30, 60, 90, 120]
    cells = [cell for cell in directory.search.read().cells() if cell.variant.name == "trial-001"]
    again = train(run_config_of(directory, cells[0]), run_path, console=Console(quiet=True))
    assert again["score"] == result["score"]  # finished: nothing is done


def run_config_of(directory, cell):
    return configuration(directory.search.read(), cell)


# --- again ---


def test_the_same_command_again_prints_the_result_and_runs_nothing(made_up, tmp_path, capsys):
    assert tuned(tmp_path) == 0
    first = capsys.readouterr().out
    assert tuned(tmp_path) == 0
    second = capsys.readouterr().out
    assert "is finished; more --trials or --hours go on with it" in second and len(made_up) == 2
    assert next(line for line in first.splitlines() if "difference" in line) in second


def test_a_configuration_that_was_lost_is_written_again(made_up, tmp_path):
    assert tuned(tmp_path) == 0
    best = tmp_path / "tune/best.toml"
    before = best.read_text()
    best.unlink()
    assert tuned(tmp_path) == 0
    after = best.read_text()
    assert [line for line in after.splitlines() if " hours " not in line] == [
        line for line in before.splitlines() if " hours " not in line
    ]
    assert not any(executor.started for executor in made_up[2:])


def test_more_trials_go_on_with_a_finished_tuning(made_up, tmp_path):
    assert tuned(tmp_path) == 0
    assert tuned(tmp_path, "--trials", "6") == 0
    summary = json.loads((tmp_path / "tune/summary.json").read_text())
    assert len(summary["trials"]) == 6
    assert {cell.variant.name for cell in made_up[2].started} <= {"trial-004", "trial-005"}


def test_an_interrupted_tuning_says_how_to_go_on(made_up, monkeypatch, tmp_path, capsys):
    def interrupt(self, cell):
        os.kill(os.getpid(), signal.SIGINT)
        start(self, cell)

    start = MadeUp.start
    with monkeypatch.context() as patch:
        patch.setattr(MadeUp, "start", interrupt)
        assert tuned(tmp_path) == 130
    error = capsys.readouterr().err
    assert f"stopped; to go on: sacbbf {' '.join([*WORDS, *RATE])} --out {tmp_path / 'tune'}" in error
    assert not (tmp_path / "tune/summary.json").exists()
    assert tuned(tmp_path) == 0
    assert (tmp_path / "tune/summary.json").exists()


# --- refusals ---


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "trials, hours: when does it end? Give --trials, --hours, or both"),
        (["--trials", "0"], "trials = 0: must be at least 1"),
        (["--hours", "0"], "hours = 0: must be above 0"),
        (["--trials", "2", "--seeds", "0"], "seeds = 0: must be 1 to 100"),
        (["--trials", "2", "--fresh-seeds", "1"], "fresh_seeds = 1: must be 2 to 100"),
        (["--trials", "2", "--steps", "0"], "steps = 0: must be at least 1"),
        (["--trials", "2", "--workers", "0"], "workers = 0: must be at least 1"),
        (["--trials", "2", "--retries", "-1"], "retries = -1: must be at least 0"),
        (["--trials", "2", "--agent", "random"], "agent = 'random': a baseline has nothing to tune"),
        (["--trials", "2", "--agent", "sac"], "agent = 'sac': must be one of"),
        (["--trials", "2", "--space", "schedule.n_ends=1:5"], "schedule.n_ends is no setting of an agent"),
        (["--trials", "2", "--set", "steps=100"], "set = steps: has an option of its own, --steps"),
        (["--trials", "2", "--set", "eval.episodes=0"], "default on CartPole-v1: eval.episodes = 0: must be"),
        (["--trials", "2", "--set", "eval.episode=1"], "no setting eval.episode;"),
        (["--trials", "2", "--size", "laptop", "--set", "network.encoder=nature"], "network.encoder = 'nature'"),
        (["--trials", "2", "--executor", "ray"], "workers = None: must be given with --executor ray"),
        (["--trials", "2", "--address", "auto"], "address = 'auto': is for --executor ray"),
        (["--trials", "2", "--device", "tpu"], "device = 'tpu': must be auto"),
        (["--trials", "12", "--hours", "0.0001"], "hours = 0.0001: the default (2 runs) and the comparison (24 runs)"),
    ],
)
def test_words_that_make_no_sense_are_refused_and_nothing_is_written(words, message, unworkable, tmp_path, capsys):
    assert run(["tune", "CartPole-v1", *words, "--out", str(tmp_path / "tune")]) == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_environment_is_refused(unworkable, working_directory, capsys):
    assert run(["tune", "CartPoel-v1", "--trials", "2"]) == 2
    assert "CartPoel-v1" in capsys.readouterr().err
    assert list(working_directory.iterdir()) == []


def test_another_tuning_in_the_same_directory_is_refused(unworkable, tmp_path, capsys):
    begun(tmp_path / "tune", small_tuning())
    words = [
        "--trials",
        "2",
        "--space",
        "schedule.n_end=1,3",
        "--only",
        "--steps",
        "500",
        "--out",
        str(tmp_path / "tune"),
    ]
    assert run(["tune", "CartPole-v1", *words]) == 2
    error = capsys.readouterr().err
    assert "holds another tuning already" in error and "steps: 1000 there, 500 here" in error
    assert "space: schedule.n_end 1, 3, 5 there, 1, 3 here" in error
    assert "space: optimiser.learning_rate 0.0001 to 0.01, log there, not tuned here" in error


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("steps",), "x"),
        (("steps",), True),
        (("env",), []),
        (("settings",), None),
        (("space",), 3),
        (("space", 0), "x"),
        (("space", 0, "low"), "x"),
        (("space", 0, "name"), []),
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused(place, value, unworkable, tmp_path, capsys):
    directory = begun(tmp_path / "tune", small_tuning())
    found = json.loads(directory.manifest.read_text())
    inner = found["tuning"]
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    directory.manifest.write_text(json.dumps(found))
    assert tuned(tmp_path) == 2
    assert "tuning.json: it is not the manifest of a tuning: " in capsys.readouterr().err


@pytest.mark.parametrize("name", ["study.db", "study.db-journal", "study.db-wal", "study.db-shm"])
def test_files_of_sqlite_s_that_lead_elsewhere_are_refused(name, made_up, tmp_path, capsys):
    directory = begun(tmp_path / "tune", small_tuning())
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    (directory.path / name).symlink_to(outside)
    words = ["--trials", "2", "--seeds", "2", "--set", "schedule.warmup=100", "--device", "cpu", "--size", "tiny-paper"]
    assert tuned(tmp_path, *words) == 2
    assert f"{name}: it is a link that leads out of its folder, to {outside}" in capsys.readouterr().err
    assert outside.read_bytes() == b"mine" and not made_up


def test_a_directory_of_other_files_is_refused(unworkable, tmp_path, capsys):
    (tmp_path / "tune").mkdir()
    (tmp_path / "tune/notes.txt").write_text("mine")
    assert tuned(tmp_path) == 2
    assert "holds other files already" in capsys.readouterr().err


def test_without_optuna_the_extra_is_named(unworkable, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    for name in ("study", "search", "findings", "page", "progress", "carry_out"):
        monkeypatch.delitem(sys.modules, f"sacbbf.tune.{name}", raising=False)
    with pytest.raises(UsageError):
        importlib.import_module("sacbbf.tune.study")
    assert tuned(tmp_path) == 2
    assert "Optuna is not installed here: pip install 'sacbbf[tune]'" in capsys.readouterr().err


# --- the terminal ---


def test_a_terminal_shows_trials_best_score_and_hours(tmp_path):
    tuning = small_tuning()
    directory = begun(tmp_path / "tune", tuning)
    file = StringIO()
    console = Console(file=file, force_terminal=True, width=150)
    budget = Budget(tuning, 9, 2.0, 1, Clock(directory.clock))

    class Known(Study):
        def __init__(self):
            """Nothing is stored."""

        def trials(self):
            return [Trial(0, {}, "finished", 5.0), Trial(1, {"schedule.n_end": 1}, "finished", 7.5)]

    with TuneProgress(console, budget, Known()) as progress:
        progress.trial_ended(Known().trials()[1], "score 7.50")
        progress.tick()
    said = file.getvalue()
    assert "trial 1 score 7.50" in said and "2/9" in said
    assert "best 7.50 (trial 1); default 5.00; 0.00 of 2 hours" in said
