"""Environments of every kind from one line each, with arguments, wrappers and imports that all commands find again."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium
import pytest

import zoo  # noqa: F401 - registers environments
from sacbbf.agents.config import flatten
from sacbbf.cli import run
from sacbbf.envs.make import EnvSettings
from sacbbf.networks.encoders import ENCODERS
from sacbbf.report.grouping import changes, command
from sacbbf.run.records import read_lines
from sacbbf.run.settings import from_toml, read_spec
from sacbbf.sweep.check import check
from sacbbf.sweep.spec import Spec, configuration, fitting_size, parse_settings, parse_variants
from toys import SHORT, SMALL

pytestmark = pytest.mark.usefixtures("working_directory")
RANDOM = ["--agent", "random", "--eval.episodes", "3", "--eval.no-baselines", "--quiet", "--out", "run"]
TENFOLD, ONE_MORE = ["--wrapper", "zoo:Tenfold"], ["--wrapper", "zoo:OneMore"]


def result():
    return json.loads(Path("run/result.json").read_text())


def config():
    return from_toml(Path("run/config.toml"))


@pytest.mark.parametrize("env", ["FrozenLake-v1", "Blackjack-v1", "zoo/Shelf-v0", "zoo/Buttons-v0", "zoo/Room-v0"])
def test_it_trains_and_is_evaluated(env):
    words = ["--steps", "150", "--schedule.warmup", "100", "--log-every", "50", "--schedule.n-start", "3"]
    words += ["--environment.max-steps", "20", "--out", "run"]
    assert run(["train", env, *SHORT, *words]) == 0
    found = result()
    assert (found["env"], found["steps"], found["updates"]) == (env, 150, 100) and len(found["returns"]) == 3
    *_, last = read_lines(Path("run/metrics.jsonl"))
    assert last["loss/total"] > 0 and last["grad_norm"] > 0
    assert run(["evaluate", "run", "--episodes", "3", "--json", "again.json"]) == 0
    assert json.loads(Path("again.json").read_text())["returns"] == found["returns"]


def test_arguments_of_the_environment_in_every_form():
    words = ["--env-kwargs", "worth=2.5", "--env-kwargs", "length=0x4"]
    assert run(["train", "zoo/Buttons-v0", *RANDOM, *words]) == 0
    assert result()["lengths"] == [4, 4, 4] and all(score % 2.5 == 0 for score in result()["returns"])
    assert config().environment.kwargs == ("worth=2.5", "length=0x4")


@pytest.mark.parametrize(
    ("words", "score"), [([*TENFOLD, *ONE_MORE], 110.0), ([*ONE_MORE, *TENFOLD], 200.0), ([*TENFOLD, *TENFOLD], 1000.0)]
)
def test_wrappers_are_put_on_in_order(words, score):
    assert run(["train", "zoo/Screen-v0", *RANDOM, *words]) == 0
    assert result()["score"] == score


def test_a_run_is_resumed_evaluated_reported_and_repeated_with_its_wrappers_and_arguments(capsys):
    words = ["--env-kwargs", "worth=3", "--wrapper", "zoo:OneMore", "--import", "zoo", "--checkpoint.keep"]
    words += ["--steps", "90", "--schedule.warmup", "64", "--out", "run"]
    assert run(["train", "zoo/Buttons-v0", *SHORT, *words]) == 0
    assert run(["resume", "run", "--steps", "110", "--quiet"]) == 0
    scores = [line["score"] for line in read_lines(Path("run/episodes.jsonl"))]
    assert len(scores) == 11 and all(score >= 10 and (score - 10) % 3 == 0 for score in scores)
    assert run(["evaluate", "run", "--episodes", "3", "--json", "again.json"]) == 0
    assert json.loads(Path("again.json").read_text())["returns"] == result()["returns"]
    assert run(["export", "run", "--hub", "hub"]) == 0
    found = {name: value for name, value in changes(config()).items() if name.startswith("environment.")}
    assert found == {"environment.kwargs": ("worth=3",), "environment.wrappers": ("zoo:OneMore",)}
    line = command(config())
    assert "--environment.kwargs worth=3 --environment.wrappers zoo:OneMore --environment.imports zoo" in line
    assert run(["report", "run", "--markdown", "report.md"]) == 0
    assert "--environment.kwargs worth=3" in Path("report.md").read_text()


def test_flags_replace_the_lists_of_a_file_and_add_to_one_another():
    Path("part.toml").write_text(
        '[environment]\nkwargs = ["worth=1", "length=3"]\nwrappers = ["zoo:Tenfold"]\nresize = 0\n'
    )
    words = ["zoo/Buttons-v0", "--config", "part.toml", "--environment.kwargs", "length=5", "--env-kwargs", "worth=2"]
    assert run(["train", *words, *RANDOM]) == 0
    environment = config().environment
    assert environment.kwargs == ("length=5", "worth=2") and environment.wrappers == ("zoo:Tenfold",)
    assert environment.resize == 0 and result()["lengths"] == [5, 5, 5]


def test_a_module_that_is_imported_brings_environments_and_encoders(working_directory, monkeypatch):
    Path("my_parts.py").write_text(
        "import gymnasium\nfrom sacbbf import register_encoder\nfrom sacbbf.networks.encoders import MlpEncoder\n"
        "gymnasium.register('Mine-v0', entry_point='zoo:Shelf', disable_env_checker=True)\n"
        "register_encoder('my-mlp', MlpEncoder, dims=1)\n"
    )
    words = ["--import", "my_parts", "--network.encoder", "my-mlp", "--steps", "80", "--out", "run"]
    try:
        assert run(["train", "Mine-v0", *SHORT, *words]) == 0
        del ENCODERS.parts["my-mlp"], gymnasium.registry["Mine-v0"]
        monkeypatch.delitem(__import__("sys").modules, "my_parts")  # as in another process
        assert run(["evaluate", "run", "--episodes", "2"]) == 2  # a run's own words import nothing from here
        assert run(["evaluate", "run", "--episodes", "2", "--trust"]) == 0
    finally:
        ENCODERS.parts.pop("my-mlp", None)
        gymnasium.registry.pop("Mine-v0", None)


def test_pictures_are_resized_with_a_word(capsys):
    loud = [word for word in RANDOM if word != "--quiet"]
    assert run(["train", "zoo/Screen-v0", *loud]) == 0
    assert "pictures of 100x90 are resized to 84x84 (--resize 0 keeps their size)" in capsys.readouterr().out
    assert flatten(config())["environment.resize"] == 84
    assert run(["train", "zoo/Screen-v0", *loud, "--resize", "0", "--out", "whole"]) == 0
    assert "resized" not in capsys.readouterr().out
    assert run(["train", "zoo/Screen-v0", *loud, "--environment.resize", "60", "--out", "small"]) == 0
    assert "60x60" in capsys.readouterr().out


def test_a_sweep_takes_them_as_settings():
    settings = parse_settings(["environment.wrappers=zoo:Tenfold; zoo:OneMore"])
    variants = parse_variants("random", ["environment.kwargs=length=2,length=3"])
    size = fitting_size(["zoo/Screen-v0"], "cpu", {"environment.pictures": "none"})
    spec = Spec(("zoo/Buttons-v0",), variants, (0,), size, 100, settings)
    check(spec)
    found = [configuration(spec, cell).environment for cell in spec.cells()]
    assert [one.kwargs for one in found] == [("length=2",), ("length=3",)]
    assert all(one.wrappers == ("zoo:Tenfold", "zoo:OneMore") for one in found) and size == "tiny"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["CartPole-v1", "--env-kwargs", "depth"], "environment.kwargs = 'depth': must be KEY=VALUE"),
        (["CartPole-v1", "--env-kwargs", "a=1", "--env-kwargs", "a=2"], "a is given twice"),
        (["CartPole-v1", "--env-kwargs", "a=[1"], "the value is neither TOML nor a Python literal"),
        (["CartPole-v1", "--env-kwargs", "render_mode=human"], "leave it out"),
        (["CartPole-v1", "--env-kwargs", "depth=3"], "CartPole-v1 cannot be made with depth=3: TypeError"),
        (["FrozenLake-v1", "--env-kwargs", "map_name=9x9"], "FrozenLake-v1 cannot be made with map_name='9x9'"),
        (["CartPole-v1", "--wrapper", "Tenfold"], "environment.wrappers = 'Tenfold': must be module:Class"),
        (["CartPole-v1", "--wrapper", "no_zoo:Tenfold"], "there is no module 'no_zoo' to import"),
        (["CartPole-v1", "--wrapper", "zoo:Tenfol"], "zoo has no Tenfol; did you mean Tenfold?"),
        (["CartPole-v1", "--wrapper", "zoo:Toy"], "must be a class derived from gymnasium.Wrapper, Toy is not"),
        (["CartPole-v1", "--wrapper", "zoo:Broken"], "CartPole-v1: the wrapper zoo:Broken could not be put on"),
        (["CartPole-v1", "--import", "no_zoo"], "environment.imports = 'no_zoo': there is no module 'no_zoo'"),
        (["CartPole-v1", "--import", "no zoo"], "environment.imports = 'no zoo': must be a module"),
        (["CartPole-v1", "--resize", "-1"], "resize must be an integer of at least 0, got -1"),
        (["CartPole-v1", "--resize", "60"], "CartPole-v1: environment.resize = 60: it shows a vector"),
        (["CartPole-v1", "--environment.pictures", "some"], "pictures must be auto, bytes or none, got 'some'"),
        (["Pong", "--env-kwargs", "mode=1"], "Pong: environment.kwargs = mode=1: is for Gymnasium's environments"),
        (["Pong", *TENFOLD], "Pong: environment.wrappers = zoo:Tenfold: is for Gymnasium's environments"),
        (["Pong", "--resize", "0"], "Pong: environment.resize = 0: frames of Atari need a size"),
        (["MinAtar/Breakout-v1", *TENFOLD], "environment.wrappers = zoo:Tenfold: is for Gymnasium's"),
    ],
)  # fmt: skip
def test_what_cannot_act_is_refused_and_nothing_is_written(words, message, capsys, working_directory):
    assert run(["train", *words, *SMALL]) == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
    assert not list(working_directory.iterdir())


def test_frames_of_atari_have_the_size_that_is_wished():
    settings = EnvSettings(resize=42, max_steps=5)
    assert read_spec("Pong", settings).frame_shape == (1, 42, 42)
    words = ["--agent", "random", "--eval.episodes", "1", "--quiet", "--out", "run", "--environment.max-steps", "5"]
    assert run(["train", "Pong", *words, "--resize", "42"]) == 0
    assert config().environment == settings
