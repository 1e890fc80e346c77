"""Evaluate, list and diff as a user meets them: what they write, what they print, how they refuse."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sacbbf.agents.config import flatten
from sacbbf.agents.presets import AGENTS, SIZES
from sacbbf.cli import run
from sacbbf.envs import games
from sacbbf.policy import NetworkPolicy
from sacbbf.run.settings import from_toml
from toys import IDENTITY, SHORT

pytestmark = pytest.mark.usefixtures("working_directory")


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


def test_evaluate_plays_by_the_critic_on_request(finished_run, monkeypatch):
    seen, logits = set(), NetworkPolicy.logits

    def noted(self, states, masks=None):
        seen.add(self.by_critic)
        return logits(self, states, masks)

    monkeypatch.setattr(NetworkPolicy, "logits", noted)
    for words, by_critic in ([], False), (["--critic"], True):
        seen.clear()
        assert run(["evaluate", str(finished_run.path), "--episodes", "2", "--json", "scores.json", *words]) == 0
        assert seen == {by_critic} and json.loads(Path("scores.json").read_text())["by_critic"] is by_critic


def test_evaluate_uses_as_many_threads_as_the_run(finished_run, monkeypatch):
    path = Path(shutil.copytree(finished_run.path, "copy")) / "config.toml"
    path.write_text(path.read_text().replace("threads = 1", "threads = 2"))
    before, seen, logits = torch.get_num_threads(), [], NetworkPolicy.logits

    def noted(self, states, masks=None):
        seen.append(torch.get_num_threads())
        return logits(self, states, masks)

    monkeypatch.setattr(NetworkPolicy, "logits", noted)
    assert run(["evaluate", "copy", "--episodes", "1"]) == 0
    assert set(seen) == {2} and torch.get_num_threads() == before


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


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "RUN", "--json", "nowhere/file.json"],
        ["play", "RUN", "--out", "nowhere/file.mp4"],
        ["export", "RUN", "--onnx", "nowhere/file.onnx"],
        ["bench", "--json", "nowhere/file.json"],
    ],
)
def test_a_file_that_could_not_be_written_is_refused_before_any_work(words, finished_run, capsys):
    assert run([str(finished_run.path) if word == "RUN" else word for word in words]) == 2
    found = capsys.readouterr()
    assert f"{words[-2][2:]} = {words[-1]}: there is no directory nowhere" in found.err
    assert found.out == ""


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


def test_listing_does_not_load_pytorch():
    code = "import sys; from sacbbf.cli import run; code = run(['list']); sys.exit(code or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


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
