"""`sacbbf train` as a user meets it: what it writes, what it prints, where its settings come from, how it refuses."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sacbbf.agents.config import flatten
from sacbbf.cli import run
from sacbbf.run.records import RunDirectory, read_lines
from sacbbf.run.settings import from_toml
from toys import IDENTITY, SHORT

pytestmark = pytest.mark.usefixtures("working_directory")


def written(path):
    return sorted(str(found.relative_to(path)) for found in path.rglob("*"))


def settings_of(*words):
    """The settings that a run of these words would have, read from the directory of a shortest one."""
    assert run(["train", *words, "--out", "run", "--agent", "random", *SHORT]) == 0
    found = flatten(from_toml(Path("run/config.toml")))
    shutil.rmtree("run")
    return found


# --- train ---


def test_train_writes_a_run_directory_and_says_where(capsys, working_directory):
    assert run(["train", IDENTITY, "--steps", "80", "--seed", "3", *SHORT]) == 0
    out = Path("runs/toys-Identity-v0-sac-bbf-tiny-seed3")
    text = capsys.readouterr().out
    result = json.loads((out / "result.json").read_text())
    assert f"score {result['score']:.2f}" in text and str(out) in text
    names = {"config.toml", "metrics.jsonl", "episodes.jsonl", "policy.safetensors", "result.json", "curve.png"}
    assert names < {path.name for path in out.iterdir()}
    assert list((out / "tensorboard").iterdir())


def test_train_says_what_it_will_do_and_what_to_type_next(capsys):
    words = [word for word in SHORT if word != "--quiet"]
    assert run(["train", IDENTITY, "--steps", "100", "--out", "my runs/one", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"sac-bbf on {IDENTITY}, tiny size, 100 steps, seed 0"
    assert lines[1].startswith("learning: 72 updates, 2 updates a step after 64 steps of warm-up")
    assert lines[4] == "all settings: my runs/one/config.toml"
    assert lines[5].startswith("score ")
    assert lines[-3:] == [
        "next: sacbbf play 'my runs/one'",
        "      sacbbf evaluate 'my runs/one'",
        "      sacbbf report 'my runs/one' --html report.html",
    ]


def test_a_run_without_an_update_says_so(capsys):
    assert run(["train", IDENTITY, "--steps", "50", *SHORT]) == 0
    assert "no update was made in 50 steps: the warm-up (schedule.warmup) was not over" in capsys.readouterr().out
    assert run(["train", IDENTITY, "--agent", "random", *SHORT]) == 0
    assert "no update" not in capsys.readouterr().out


def test_nothing_is_said_before_a_refusal(finished_run, capsys):
    words = ["train", IDENTITY, "--steps", "20", "--out", str(finished_run.path)]
    assert run([*words, *(word for word in SHORT if word != "--quiet")]) == 2
    assert capsys.readouterr().out == ""


def test_an_atari_game_goes_by_any_of_its_names(capsys):
    words = ["--steps", "20", "--agent", "random", "--environment.max-steps", "9", "--eval.episodes", "2", "--quiet"]
    assert run(["train", "pong", *words, "--out", "run"]) == 0
    assert "human-normalised 0" in capsys.readouterr().out
    result = json.loads(Path("run/result.json").read_text())
    assert result["env"] == "Pong" and result["human_normalised"] == pytest.approx(20.7 / 35.3)
    assert result["lengths"] == [9, 9]


@pytest.mark.parametrize(
    "words",
    [
        ["--network.hidden-dim", "16", IDENTITY],
        ["--out", "run", "--quiet", IDENTITY],
        ["--eval-every=5", IDENTITY],
    ],
)
def test_flags_may_come_before_the_environment(words):
    rest = ["--agent", "random", "--eval.episodes", "2", "--eval.no-baselines"]
    assert run(["train", *words, *rest]) == 0
    found = next(Path().rglob("result.json"))
    assert json.loads(found.read_text())["env"] == IDENTITY


def test_train_help_explains_every_group_without_an_environment(capsys):
    with pytest.raises(SystemExit) as exit_info:
        run(["train", "--help"])
    assert exit_info.value.code == 0
    text = capsys.readouterr().out
    for group in ("network", "loss", "optimiser", "schedule", "replay", "eval", "environment"):
        assert f"--{group}." in text, group


def test_training_loads_neither_opencv_nor_the_compiler_and_spares_what_was_imported():
    """OpenCV is for films and Atari; importing torch.compile takes longer than importing PyTorch."""
    words = ["train", "CartPole-v1", "--steps", "70", "--schedule.warmup", "64", "--out", "run", *SHORT]
    code = f"""if True:
        import gc, sys, sacbbf.commands.resume
        from sacbbf.cli import run
        code = run({words})
        print("loaded", *({{"cv2", "torch._dynamo"}} & sys.modules.keys()), file=sys.stderr)
        assert gc.get_freeze_count() > 100_000
        sys.exit(code)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "loaded\n"), done.stderr
    assert json.loads(Path("run/result.json").read_text())["updates"] > 0


def test_time_is_up(capsys):
    words = ["--steps", "100000", "--max-hours", "0.0003", "--out", "run"]
    assert run(["train", IDENTITY, *words, *SHORT]) == 0
    result = json.loads(Path("run/result.json").read_text())
    assert (result["stopped_by"], result["finished"], len(result["returns"])) == ("max_hours", False, 3)


def test_an_evaluation_interval_goes_by_its_short_name():
    assert run(["train", IDENTITY, "--steps", "20", "--eval-every", "10", "--out", "run", *SHORT]) == 0
    assert [line["step"] for line in read_lines(Path("run/evaluations.jsonl"))] == [10]


# --- settings from presets, files and flags ---


def test_steps_and_replay_ratio_scale_the_schedules():
    one = settings_of(IDENTITY, "--steps", "10000")
    four = settings_of(IDENTITY, "--steps", "10000", "--replay-ratio", "4")
    double = settings_of(IDENTITY, "--steps", "20000")
    assert four["settings.schedule.replay_ratio"] == 4
    for name in ("beta_final_updates", "reset_every", "cycle"):
        count = one[f"settings.schedule.{name}"]
        assert four[f"settings.schedule.{name}"] == count  # in updates: a quarter of the steps
        assert double[f"settings.schedule.{name}"] == 2 * count


def test_a_partial_file_replaces_settings_of_the_preset():
    Path("part.toml").write_text("seed = 7\n[settings.optimiser]\nlearning_rate = 0.5\n")
    plain = settings_of(IDENTITY, "--steps", "100")
    changed = settings_of(IDENTITY, "--steps", "100", "--config", "part.toml")
    differing = {name for name in plain if plain[name] != changed[name]}
    assert differing == {"seed", "settings.optimiser.learning_rate"}
    assert changed["seed"] == 7 and changed["settings.optimiser.learning_rate"] == 0.5


def test_flags_replace_what_the_file_says():
    Path("part.toml").write_text("seed = 7\n[settings.schedule]\nreplay_ratio = 2\nwarmup = 70\n")
    words = ["--config", "part.toml", "--seed", "8", "--replay-ratio", "4", "--schedule.warmup", "90"]
    changed = settings_of(IDENTITY, "--steps", "100", *words)
    assert changed["seed"] == 8
    assert changed["settings.schedule.replay_ratio"] == 4
    assert changed["settings.schedule.warmup"] == 90


def test_a_whole_file_repeats_its_run(finished_run):
    assert run(["train", "--config", str(finished_run.config), "--out", "again", "--quiet"]) == 0
    again = RunDirectory(Path("again"))
    for name in ("config", "policy"):
        assert getattr(again, name).read_bytes() == getattr(finished_run, name).read_bytes()
    assert again.record("metrics").read_bytes() == finished_run.record("metrics").read_bytes()


# --- refusals ---


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["Pongg"], "did you mean Pong"),
        (["Pendulum-v1"], "action space is Box"),
        (["toys/Dictionary-v0"], "observation space at ['a'] is Text"),
        ([], "which environment?"),
        ([IDENTITY, "--network.hidden-dim", "0"], "network.hidden_dim = 0: must be a whole number from 1"),
        ([IDENTITY, "--network.encoder", "impala"], "network.encoder = 'impala'"),
        ([IDENTITY, "--steps", "0"], "steps = 0: must be at least 1"),
        ([IDENTITY, "--steps", "many"], "--steps: invalid int value: 'many'"),
        ([IDENTITY, "--size", "huge"], "size = 'huge': must be one of paper, laptop, tiny"),
        ([IDENTITY, "--agent", "nobody"], "agent = 'nobody': must be one of der"),
        ([IDENTITY, "--seed", "-1"], "seed = -1: must be a whole number at least 0"),
        ([IDENTITY, "--max-hours", "0"], "max_hours = 0.0: must be above 0"),
        ([IDENTITY, "--replay-ratio", "0"], "replay_ratio = 0: must be at least 1"),
        ([IDENTITY, "--config", "none.toml"], "cannot read the configuration none.toml"),
    ],
)
def test_train_refuses_and_writes_nothing(words, message, capsys, working_directory):
    assert run(["train", *words]) == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
    assert written(working_directory) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sede = 1\n", "no setting sede; did you mean seed?"),
        ("learning_rate = 1.0\n", "no setting learning_rate; did you mean settings.optimiser.learning_rate?"),
        ("[optimiser]\nlearning_rate = 1.0\n", "no setting optimiser; did you mean settings.optimiser?"),
        ("[settings.network]\nhidden = 3\n", "no setting settings.network.hidden"),
        ('steps = "many"\n', "steps = 'many': must be a whole number"),
        ('size = "huge"\n', "size = 'huge': must be one of"),
        ("environment = 5\n", "environment = 5: must be a table"),
        ("steps = = 3\n", "is not a configuration in TOML"),
        ("[settings.network]\nhidden_dim = 0\n", "network.hidden_dim = 0: must be"),
    ],
)
def test_train_refuses_a_bad_file(text, message, capsys, working_directory):
    Path("bad.toml").write_text(text)
    assert run(["train", IDENTITY, "--config", "bad.toml"]) == 2
    assert message in capsys.readouterr().err
    assert written(working_directory) == ["bad.toml"]


@pytest.mark.parametrize("words", [["--bogus", "3"], ["--network.hidden-dim", "wide"], ["--environment.sticky", "2"]])
def test_train_refuses_bad_flags(words, capsys, working_directory):
    with pytest.raises(SystemExit) as exit_info:
        run(["train", IDENTITY, *words])
    assert exit_info.value.code == 2
    assert words[0].removeprefix("--").split(".")[-1] in capsys.readouterr().err
    assert written(working_directory) == []


@pytest.mark.parametrize("flag", ["--learning-rate", "--learning_rate", "--optimiser.learning_rat"])
def test_an_unknown_flag_is_answered_with_the_nearest(flag, capsys):
    with pytest.raises(SystemExit):
        run(["train", IDENTITY, flag, "0.001"])
    assert "--optimiser.learning-rate" in capsys.readouterr().err


def test_a_missing_extra_is_named(monkeypatch, capsys):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "minatar" else find(name))
    monkeypatch.setattr("sacbbf.envs.minatar._rules", importlib.import_module("sacbbf.envs.minatar")._rules.__wrapped__)
    assert run(["train", "MinAtar/Breakout-v1", "--steps", "10"]) == 2
    assert "pip install sacbbf[minatar]" in capsys.readouterr().err


def test_another_run_is_not_written_over(finished_run, capsys):
    before = {path: path.stat().st_mtime_ns for path in finished_run.path.rglob("*")}
    assert run(["train", IDENTITY, "--steps", "20", "--out", str(finished_run.path), *SHORT]) == 2
    assert "holds another run already" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in finished_run.path.rglob("*")} == before
