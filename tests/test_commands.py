"""The subcommands as a user meets them: what they write, what they print, how they refuse."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sacbbf import games
from sacbbf.cli import run
from sacbbf.disk import files
from sacbbf.presets import AGENTS, SIZES
from sacbbf.run.records import JsonLines, RunDirectory, read_lines
from sacbbf.run.settings import flatten, from_toml

IDENTITY = "toys/Identity-v0"
SMALL = ["--network.hidden-dim", "16", "--network.width-scale", "0.25", "--schedule.n-start", "5"]
SHORT = ["--eval.episodes", "3", "--eval.no-baselines", "--quiet", *SMALL]


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


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


def test_train_prints_its_settings_unless_quiet(capsys):
    words = [word for word in SHORT if word != "--quiet"]
    assert run(["train", IDENTITY, "--steps", "20", *words]) == 0
    assert "[settings.network]" in capsys.readouterr().out


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
        (["toys/Dictionary-v0"], "observation space is Dict"),
        ([], "which environment?"),
        ([IDENTITY, "--network.hidden-dim", "0"], "network.hidden_dim = 0: must be a whole number from 1"),
        ([IDENTITY, "--network.encoder", "impala"], "network.encoder = 'impala'"),
        ([IDENTITY, "--steps", "0"], "steps = 0: must be at least 1"),
        ([IDENTITY, "--steps", "many"], "--steps: invalid int value: 'many'"),
        ([IDENTITY, "--size", "huge"], "size = 'huge': must be one of paper, laptop, tiny"),
        ([IDENTITY, "--agent", "nobody"], "agent = 'nobody': must be one of der"),
        ([IDENTITY, "--seed", "-1"], "seed = -1: must be at least 0"),
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
        ("sede = 1\n", "no setting sede; there are env, agent"),
        ("[settings.network]\nhidden = 3\n", "no setting settings.network.hidden"),
        ('steps = "many"\n', "steps = 'many': must be int"),
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


# --- failures ---


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
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"}
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


# --- evaluate ---


def test_evaluate_repeats_the_final_evaluation(finished_run, capsys):
    words = ["--episodes", "4", "--json", "scores.json"]
    assert run(["evaluate", str(finished_run.path), *words]) == 0
    want = json.loads(finished_run.result.read_text())
    found = json.loads(Path("scores.json").read_text())
    assert found["returns"] == want["returns"] and found["score"] == want["score"]
    text = capsys.readouterr().out
    assert f"mean {want['score']:.2f}, standard error {want['standard_error']:.2f}" in text
    assert "returns " + " ".join(f"{score:g}" for score in want["returns"]) in text


def test_evaluate_depends_on_the_seed_and_not_on_the_number_of_environments(finished_run):
    found = {}
    for name, words in {
        "one": ["--parallel", "1"],
        "eight": [],
        "other": ["--seed", "9"],
        "best": ["--greedy"],
    }.items():
        assert run(["evaluate", str(finished_run.path), "--episodes", "6", "--json", "scores.json", *words]) == 0
        found[name] = json.loads(Path("scores.json").read_text())["returns"]
    assert found["one"] == found["eight"]
    assert found["other"] != found["one"] and found["best"] != found["one"]


def spoil(path):
    (path / "policy.safetensors").write_bytes(b"\x00" * 100)


@pytest.mark.parametrize(
    ("damage", "words", "message"),
    [
        (lambda path: (path / "config.toml").unlink(), [], "is not a run directory"),
        (lambda path: (path / "config.toml").write_text("env ="), [], "is not a configuration in TOML"),
        (lambda path: (path / "policy.safetensors").unlink(), [], "policy.safetensors is missing"),
        (spoil, [], "cannot read the policy"),
        (lambda path: None, ["--episodes", "0"], "episodes = 0: must be at least 1"),
        (lambda path: None, ["--parallel", "0"], "parallel = 0: must be at least 1"),
        (lambda path: None, ["--seed", "-1"], "seed = -1: must be at least 0"),
        (lambda path: None, ["--device", "tpu"], "device = 'tpu'"),
    ],
)
def test_evaluate_refuses(damage, words, message, finished_run, capsys):
    shutil.copytree(finished_run.path, "copy")
    damage(Path("copy"))
    assert run(["evaluate", "copy", *words]) == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error


def test_evaluate_refuses_a_directory_that_is_not_there(capsys):
    assert run(["evaluate", "nowhere"]) == 2
    assert "nowhere is not a run directory" in capsys.readouterr().err


# --- list and diff ---


def test_list_shows_everything(capsys):
    assert run(["list"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in (*AGENTS, *SIZES, *games.GAMES))
    assert "MinAtar/Breakout-v1" in text and "CartPole-v1" in text


@pytest.mark.parametrize(
    ("what", "there", "not_there"),
    [
        ("agents", "sac-bbf", "Alien"),
        ("sizes", "100,000", "Alien"),
        ("games", "Alien", "laptop"),
        ("environments", "MinAtar/Seaquest-v1", "laptop"),
    ],
)
def test_list_shows_one_thing(what, there, not_there, capsys):
    assert run(["list", what]) == 0
    text = capsys.readouterr().out
    assert there in text and not_there not in text


def test_list_shows_published_scores_in_their_row(capsys):
    assert run(["list", "games"]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "MsPacman" in line]
    scores = games.SCORES["MsPacman"]
    for score in (scores.random, scores.human, *scores.published.values()):
        assert f"{score:,.1f}" in row


def test_diff_shows_settings_and_scores_that_differ(finished_run, capsys):
    words = ["--steps", "20", "--seed", "5", "--out", "other"]
    assert run(["train", IDENTITY, *words, *SHORT]) == 0
    capsys.readouterr()
    assert run(["diff", str(finished_run.path), "other"]) == 0
    rows = {line.split("│")[1].strip(): line for line in capsys.readouterr().out.splitlines() if "│" in line}
    assert "5" in rows["seed"] and "200" in rows["steps"] and "20" in rows["steps"]
    assert f"{json.loads(finished_run.result.read_text())['score']:,.3f}" in rows["score"]
    assert "settings.network.hidden_dim" not in rows  # the same in both


def test_diff_of_a_run_with_itself_has_no_settings(finished_run, capsys):
    assert run(["diff", str(finished_run.path), str(finished_run.path)]) == 0
    rows = {line.split("│")[1].strip() for line in capsys.readouterr().out.splitlines() if "│" in line}
    assert "score" in rows
    assert not any(name in rows for name in flatten(from_toml(finished_run.config)) if name != "steps")


def test_diff_shows_a_run_without_result_and_refuses_what_is_no_run(finished_run, capsys):
    shutil.copytree(finished_run.path, "copy")
    Path("copy/result.json").unlink()
    assert run(["diff", str(finished_run.path), "copy"]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.split("│")[1:2] and "median" in line]
    assert row.split("│")[3].strip() == "-"
    Path("copy/result.json").write_text("{")
    assert run(["diff", str(finished_run.path), "copy"]) == 2
    assert run(["diff", str(finished_run.path), "nowhere"]) == 2
