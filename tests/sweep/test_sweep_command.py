"""`sacbbf sweep` as a user meets it, as far as no cell needs to run: status, dry runs, refusals."""

from __future__ import annotations

import importlib
import shutil
import sys

import pytest
from small_sweep import CARTPOLE, begun, put_result, small_spec, snapshot, words_of

from sacbbf.cli import run
from sacbbf.errors import UsageError


@pytest.fixture
def unworkable(monkeypatch):
    """Nothing may get as far as running cells."""

    def refuse(*args):
        raise AssertionError("cells would be run")

    monkeypatch.setattr("sacbbf.commands.sweep.make_executor", refuse)


def test_status_prints_the_table_and_touches_nothing(tmp_path, capsys):
    directory = begun(tmp_path / "sweep", small_spec(3))
    cells = small_spec(3).cells()
    put_result(directory, cells[0])
    directory.give_up(cells[1], 3, "no luck")
    before = snapshot(directory.path)
    assert run(["sweep", str(directory.path), "--status"]) == 0
    text = capsys.readouterr().out
    (row,) = [line for line in text.splitlines() if "sac-bbf" in line and "│" in line]
    assert [part.strip() for part in row.split("│")[1:-1]] == ["sac-bbf", "1", "-", "-", "1", "1", "150/450"]
    assert f"{cells[1].name} failed: no luck" in text
    assert snapshot(directory.path) == before


def test_a_finished_sweep_has_nothing_left_to_do(unworkable, tmp_path, capsys):
    directory = begun(tmp_path / "sweep", small_spec(2))
    for cell in small_spec(2).cells():
        put_result(directory, cell)
    before = snapshot(directory.path)
    assert run(["sweep", str(directory.path)]) == 0
    assert "all 2 cells are finished" in capsys.readouterr().out
    assert snapshot(directory.path) == before


def test_a_dry_run_prints_cells_and_costs_and_writes_nothing_but_the_speed(tmp_path, capsys, speed_cache):
    spec = small_spec(2)
    words = ["sweep", str(tmp_path / "sweep"), *words_of(spec), "--dry-run"]
    assert run(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines[:2]] == [cell.name for cell in spec.cells()]
    assert all("150 steps, 172 updates, " in line for line in lines[:2])
    assert lines[2].endswith("= 2 cells: CartPole-v1") and lines[4].startswith("disk: ")
    assert not (tmp_path / "sweep").exists() and speed_cache.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "which games? --games takes atari26"),
        (["--status"], "is not a sweep: it holds no sweep.json"),
        (["--games", CARTPOLE, "--retries", "-1"], "retries = -1: must be at least 0"),
        (["--games", CARTPOLE, "--workers", "0"], "workers = 0: must be at least 1"),
        (["--games", CARTPOLE, "--workers", "-2"], "workers = -2: must be at least 1"),
        (["--games", CARTPOLE, "--per-gpu", "0"], "per_gpu = 0: must be at least 1"),
        (["--games", CARTPOLE, "--cpus-per-run", "0"], "cpus_per_run = 0: must be at least 1"),
        (["--games", CARTPOLE, "--slurm-hours", "0"], "slurm_hours = 0.0: must be above 0"),
        (["--games", CARTPOLE, "--threads", "-1"], "threads = -1: must be"),
        (["--games", CARTPOLE, "--steps", "0"], "steps = 0: must be at least 1"),
        (
            ["--games", CARTPOLE, "--set", "eval.episode=1"],
            "no setting eval.episode; did you mean eval.every_episodes or eval.episodes",
        ),
        (["--games", CARTPOLE, "--set", "learning-rate=1"], "did you mean optimiser.learning_rate?"),
        (["--games", CARTPOLE, "--vary", "learning_rate=1,2"], "did you mean optimiser.learning_rate?"),
        (["--games", CARTPOLE, "--vary", "env=Pong"], "env has an option of its own"),
        (["--games", f"{CARTPOLE},nosuchmodule:Env-v0"], "nosuchmodule"),
        (["--games", f"{CARTPOLE},Pong"], "size: the games fit different ones"),
    ],
)
def test_a_sweep_that_makes_no_sense_is_refused_and_nothing_is_written(words, message, unworkable, tmp_path, capsys):
    assert run(["sweep", str(tmp_path / "sweep"), *words]) == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
    assert list(tmp_path.iterdir()) == []


def test_another_sweep_in_the_same_directory_is_refused(unworkable, tmp_path, capsys):
    directory = begun(tmp_path / "sweep", small_spec(2))
    before = snapshot(directory.path)
    assert run(["sweep", str(directory.path), *words_of(small_spec(2, steps=99))]) == 2
    assert "steps: 150 there, 99 here" in capsys.readouterr().err
    assert snapshot(directory.path) == before


@pytest.mark.parametrize(
    ("executor", "package", "extra"), [("ray", "ray", "sacbbf[ray]"), ("slurm", "submitit", "sacbbf[slurm]")]
)
def test_an_executor_whose_package_is_missing_names_the_extra(executor, package, extra, monkeypatch, tmp_path, capsys):
    module = f"sacbbf.sweep.{executor}_executor"
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(UsageError) as caught:
        importlib.import_module(module)
    assert f"pip install '{extra}'" in str(caught.value)
    assert run(["sweep", str(tmp_path / "sweep"), *words_of(small_spec()), "--executor", executor]) == 2
    assert f"pip install '{extra}'" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("sbatch") is not None, reason="this machine has Slurm")
def test_without_slurm_its_executor_is_refused(tmp_path, capsys):
    assert run(["sweep", str(tmp_path / "sweep"), *words_of(small_spec()), "--executor", "slurm"]) == 2
    error = capsys.readouterr().err
    assert "executor = 'slurm': there is no Slurm on this machine" in error and "Traceback" not in error


@pytest.mark.parametrize("words", [["--seeds", "9"], ["--steps", "200", "--agents", "bbf"]])
def test_words_of_a_sweep_without_its_games_are_refused(words, unworkable, tmp_path, capsys):
    directory = begun(tmp_path / "sweep", small_spec(2))
    before = snapshot(directory.path)
    assert run(["sweep", str(directory.path), *words]) == 2
    assert "describe a sweep, which takes --games too" in capsys.readouterr().err
    assert snapshot(directory.path) == before
