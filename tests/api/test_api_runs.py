"""Whole runs from Python: the same bits as on the command line, with objects and functions too."""

from __future__ import annotations

import json

import gymnasium
import pytest
from gymnasium.wrappers import TimeLimit
from small_api import FLAGS, SETTINGS, Spy, make

import sacbbf
from sacbbf import Agent, UsageError
from sacbbf.cli import run
from sacbbf.run.records import RunDirectory
from sacbbf.run.settings import from_toml
from toys import IDENTITY, Identity

WORDS = {"steps": 90, "seed": 3, "settings": SETTINGS | {"eval.episodes": 3, "eval.baselines": False}, "verbose": 0}


def contents(path):
    """What is compared between runs."""
    names = ("policy.safetensors", "episodes.jsonl", "metrics.jsonl", "config.toml")
    return {name: (path / name).read_bytes() for name in names}


def test_a_run_is_that_of_the_command_line(tmp_path, capsys):
    result = sacbbf.train(IDENTITY, out=tmp_path / "here", **WORDS)
    assert capsys.readouterr().out == ""
    words = ["--steps", "90", "--seed", "3", "--eval.episodes", "3", "--eval.no-baselines", "--quiet"]
    assert run(["train", IDENTITY, "--out", str(tmp_path / "there"), *words, *FLAGS]) == 0
    assert contents(tmp_path / "here") == contents(tmp_path / "there")
    assert result == json.loads((tmp_path / "here/result.json").read_text())
    assert Agent.load(tmp_path / "here").evaluate(3).scores == tuple(result["returns"])


def test_a_run_has_a_directory_of_its_own_by_default(working_directory, capsys):
    result = sacbbf.train(IDENTITY, agent="random", steps=5, settings={"eval.episodes": 2})
    assert result["agent"] == "random"
    assert [path.name for path in (working_directory / "runs").iterdir()] == ["toys-Identity-v0-random-tiny-seed0"]
    assert sacbbf.train(IDENTITY, agent="random", steps=5, out=next((working_directory / "runs").iterdir()),
                        settings={"eval.episodes": 2}) == result  # fmt: skip
    assert "is finished: there is nothing left to do" in " ".join(capsys.readouterr().out.split())


def test_functions_and_copied_objects_are_trained(tmp_path):
    made = []

    def limited():
        made.append(Spy(TimeLimit(Identity(), 7)))
        return made[-1]

    result = sacbbf.train(limited, out=tmp_path / "function", **WORDS)
    assert max(result["lengths"]) == 7 and sum(spy.steps for spy in made) == 90 + 3 * 7
    assert from_toml(tmp_path / "function/config.toml").env.endswith("limited")
    counted = Spy(gymnasium.make(IDENTITY))
    with pytest.raises(UsageError, match="so give a function that makes the environment; with this object, evaluation"):
        sacbbf.train(counted, out=tmp_path / "object", **WORDS)
    assert not (tmp_path / "object").exists()
    result = sacbbf.train(TimeLimit(gymnasium.make(IDENTITY), 6), out=tmp_path / "copied", **WORDS)
    assert result["lengths"] == [6, 6, 6]


def test_a_stopped_run_of_a_function_goes_on(tmp_path, capsys):
    words = WORDS | {"settings": WORDS["settings"] | {"checkpoint.every": 50}}
    whole = sacbbf.train(Identity, out=tmp_path / "whole", **words)
    stopped = sacbbf.train(Identity, out=tmp_path / "run", max_hours=1e-7, **words)
    assert (stopped["stopped_by"], stopped["steps"] < 90) == ("max_hours", True)
    assert run(["resume", str(tmp_path / "run")]) == 2
    assert "this environment was handed in and cannot be made from its name" in capsys.readouterr().err
    result = sacbbf.train(Identity, out=tmp_path / "run", **words)
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")
    assert result["returns"] == whole["returns"]


def test_a_run_starts_from_weights(tmp_path):
    path = make().learn(80).save(tmp_path / "agent")
    words = {"steps": 40, "seed": 3, "verbose": 0, "settings": {"eval.episodes": 2, "eval.baselines": False}}
    sacbbf.train(Identity, init=path, out=tmp_path / "tuned", **words)
    config = from_toml(tmp_path / "tuned/config.toml")
    assert config.settings.network.hidden_dim == 16 and config.settings.schedule.reset_every == 0
    assert RunDirectory(tmp_path / "tuned").initial_policy.read_bytes() == (path / "policy.safetensors").read_bytes()
    with pytest.raises(UsageError, match=r"agent = 'bbf': must be 'sac-bbf'"):
        sacbbf.train(Identity, agent="bbf", init=path, out=tmp_path / "other", **words)
    with pytest.raises(UsageError, match=r"network\.hidden_dim = 32: must be 16"):
        changed = words | {"settings": {"network.hidden_dim": 32}}
        sacbbf.train(Identity, init=path, out=tmp_path / "other", **changed)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"agent": "nobody"}, "agent = 'nobody': must be one of"),
        ({"verbose": 2}, "verbose = 2: must be 0 or 1"),
        ({"trackers": ("paper",)}, "paper"),
        ({"max_hours": 0}, "max_hours = 0: must be above 0"),
        ({"settings": {"network.hiden_dim": 3}}, "no setting network.hiden_dim; did you mean network.hidden_dim?"),
        ({"init": "nowhere"}, "nowhere is not a run directory"),
    ],
)
def test_bad_words_are_refused_and_nothing_is_written(words, message, working_directory):
    with pytest.raises(UsageError, match=message):
        sacbbf.train(IDENTITY, out="run", **{"steps": 5, **words})
    assert list(working_directory.iterdir()) == []
