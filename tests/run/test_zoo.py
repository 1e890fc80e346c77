"""The policies that come with the package: by name wherever a run is read, each with its card."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from sacbbf.api.agent import Agent
from sacbbf.cli import run
from sacbbf.errors import UsageError
from sacbbf.run import zoo
from sacbbf.run.records import RunDirectory
from sacbbf.run.settings import from_toml

pytestmark = pytest.mark.usefixtures("working_directory")
PACKAGED = zoo.names()


@pytest.fixture
def made_zoo(drawn_run, tmp_path, monkeypatch):
    """A zoo of one policy, called Sketch."""
    monkeypatch.setattr(zoo, "FOLDER", tmp_path / "zoo")
    (tmp_path / "zoo/Sketch").mkdir(parents=True)
    for path in (drawn_run.config, drawn_run.policy, drawn_run.result):
        shutil.copy(path, tmp_path / "zoo/Sketch")
    return tmp_path / "zoo/Sketch"


def test_a_policy_is_evaluated_by_name(made_zoo, drawn_run, capsys):
    episodes = str(json.loads(drawn_run.result.read_text())["episodes"])
    assert run(["evaluate", "zoo:sketch", "--episodes", episodes]) == 0
    by_name = capsys.readouterr().out
    assert run(["evaluate", str(drawn_run.path), "--episodes", episodes]) == 0
    assert by_name == capsys.readouterr().out and "returns " in by_name


def test_a_film_of_it_goes_into_the_working_directory(made_zoo, capsys):
    before = sorted(made_zoo.iterdir())
    assert run(["play", "zoo:Sketch", "--max-steps", "3"]) == 0
    assert Path("Sketch.mp4").stat().st_size > 1_000
    assert sorted(made_zoo.iterdir()) == before


def test_an_agent_is_loaded_by_name(made_zoo, drawn_run):
    agent, same = Agent.load("zoo:Sketch"), Agent.load(drawn_run.path)
    assert agent.evaluate(3, seed=1).scores == same.evaluate(3, seed=1).scores


def test_a_run_starts_from_it(made_zoo):
    env = from_toml(made_zoo / "config.toml").env
    assert run(["train", env, "--init", "zoo:Sketch", "--steps", "70", "--out", "on", "--eval.episodes", "1"]) == 0
    assert from_toml(Path("on/config.toml")).initial_policy is not None


def test_it_is_listed(made_zoo, capsys):
    assert run(["zoo"]) == 0
    result = RunDirectory(made_zoo).read_result()
    row = next(line for line in capsys.readouterr().out.splitlines() if "zoo:Sketch" in line)
    assert f"{result['score']:,.1f} (" in row and f"{result['steps']}" in row


@pytest.mark.parametrize(("name", "words"), [("Sketsch", "did you mean zoo:Sketch?"), ("Pong", "it holds Sketch")])
def test_an_unknown_name_is_refused(name, words, made_zoo, capsys):
    assert run(["evaluate", f"zoo:{name}"]) == 2
    assert f"zoo:{name}: the zoo has no {name!r}; {words}" in capsys.readouterr().err
    with pytest.raises(UsageError, match=re.escape(words)):
        Agent.load(f"zoo:{name}")


@pytest.mark.parametrize("name", PACKAGED)
def test_a_packaged_policy_plays_and_its_card_says_its_score(name):
    folder = zoo.FOLDER / name
    result = RunDirectory(folder).read_result()
    card = (folder / "README.md").read_text()
    assert f"Score {result['score']:.2f} (95% interval" in card and f"sacbbf play zoo:{name}\n" in card
    assert (folder / "still.png").read_bytes()[:4] == b"\x89PNG"
    assert Agent.load(f"zoo:{name}").evaluate(1, seed=result["seed"]).scores == tuple(result["returns"][:1])
