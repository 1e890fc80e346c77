"""The page of results is what its raw scores and sections give, and raw scores are what runs hold."""

from __future__ import annotations

import csv
import importlib
import json
import shlex
from pathlib import Path

import pytest
from made_runs import make_config, write_run

from sacbbf import cli
from sacbbf.commands.reproduce import ReproduceArgs, read_words
from sacbbf.commands.sweep import SweepArgs
from sacbbf.report.scores import read_scores

TOP = Path(__file__).parents[2]
MACHINE = {"cpu": "some CPU", "threads": 1}


@pytest.fixture
def experiments(monkeypatch):
    monkeypatch.syspath_prepend(TOP / "experiments")
    return importlib.import_module("results"), importlib.import_module("collect")


def test_the_page_is_what_its_raw_scores_give(experiments):
    results, _ = experiments
    assert (TOP / "docs" / "results.md").read_text() == results.page(*results.read())


def test_a_page_shows_new_scores_and_the_pairs_that_are_asked_for(experiments, tmp_path, monkeypatch):
    results, _ = experiments
    (tmp_path / "raw").mkdir()
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.setattr(results, "TOP", tmp_path)
    rows = [
        f"{agent},CartPole-v1,{seed},{score + seed}"
        for agent, score in (("A", 9), ("B", 5), ("C", 2))
        for seed in (0, 1)
    ]
    (tmp_path / "raw" / "some.csv").write_text("\n".join(["agent,game,seed,score", *rows]))
    section = results.Section("some", "Some runs", ("sacbbf list",), "Words.", ("A",))
    page = results.page("First words.", [section])
    assert "## Some runs" in page and "    sacbbf list" in page and "| CartPole-v1 | A | **9.5** |" in page
    assert "\n| A | B | " in page and "\n| A | C | " in page
    assert "| B | C |" not in page


def test_every_command_is_one_that_can_be_run(experiments):
    results, _ = experiments
    import tyro

    _, sections = results.read()
    commands = [command for section in sections for command in section.commands]
    assert len(commands) > 5
    for command in commands:
        program, name, *words = shlex.split(command)
        if program == "python":
            assert name in ("experiments/sb3_dqn.py", "experiments/by_critic.py")
            out = importlib.import_module(Path(name).stem).make_parser().parse_args(words).out
            assert out.parts[:2] == ("results", "raw")
            continue
        assert program == "sacbbf"
        if name == "reproduce":
            args = tyro.cli(ReproduceArgs, args=words)
            assert args.scale == "minatar" and read_words(args).cells()
            directory = args.out
        else:
            assert name == "sweep"
            directory = tyro.cli(SweepArgs, args=words).directory
        assert directory.parts[:2] == ("results", "runs")


def test_raw_scores_hold_all_that_a_report_needs(experiments, tmp_path):
    _, collect = experiments
    played = {"random": {"score": 3.5, "standard_error": 0.3}, "blind": {"score": 5.4, "standard_error": 0.2}}
    rest = {"machine": MACHINE, "returns": [1.0, 2.0], "baselines": played}
    changes = {"loss": {"variance_reduction": False}, "schedule": {"beta_start": 0.5, "gamma_end": 0.9, "warmup": 99}}
    for seed in (0, 1):
        config = make_config("MinAtar/SpaceInvaders-v1", seed, size="tiny", changes=changes)
        write_run(tmp_path / "runs" / str(seed), config, 7.0 + seed, **rest)
    assert collect.collect(tmp_path / "runs", tmp_path / "raw.csv") == 2
    lines = list(csv.DictReader((tmp_path / "raw.csv").open()))
    assert [line["score"] for line in lines] == ["7.0", "8.0"]
    assert "--schedule.warmup 99" in lines[1]["command"] and "--seed 1" in lines[1]["command"]
    (agent,) = read_scores([tmp_path / "raw.csv"]).agents
    assert all(
        f"{word}=" in agent.name for word in ("loss.variance_reduction", "schedule.beta_start", "schedule.warmup")
    )
    (direct,) = read_scores([tmp_path / "runs"]).agents
    assert agent.scores == direct.scores and agent.played == direct.played


def test_runs_of_another_day_stay_if_wanted(experiments, tmp_path):
    _, collect = experiments
    out = tmp_path / "raw.csv"

    def scores(*found, add):
        folder = tmp_path / str(found)
        for seed, score in found:
            config = make_config("MinAtar/SpaceInvaders-v1", seed, size="tiny")
            write_run(folder / str(seed), config, score, machine=MACHINE, returns=[score])
        count = collect.collect(folder, out, add)
        read = [(int(line["seed"]), float(line["score"])) for line in csv.DictReader(out.open())]
        assert count == len(read)
        return read

    assert scores((0, 7.0), (10, 8.0), add=False) == [(0, 7.0), (10, 8.0)]
    assert scores((2, 5.0), (10, 9.0), add=True) == [(0, 7.0), (2, 5.0), (10, 9.0)]
    assert scores((2, 5.0), add=False) == [(2, 5.0)]


@pytest.mark.parametrize(("steps", "names"), [((500, 500), ["sac-bbf tiny"]), ((500, 600), ["steps=500", "steps=600"])])
def test_steps_are_named_only_where_they_differ(steps, names, experiments, tmp_path):
    _, collect = experiments
    for seed, count in enumerate(steps):
        config = make_config("MinAtar/SpaceInvaders-v1", seed, size="tiny", steps=count)
        write_run(tmp_path / "runs" / str(seed), config, 7.0, machine=MACHINE, returns=[7.0])
    collect.collect(tmp_path / "runs", tmp_path / "raw.csv")
    found = {line["agent"] for line in csv.DictReader((tmp_path / "raw.csv").open())}
    assert len(found) == len(names) and all(any(name in agent for agent in found) for name in names)
    assert ("steps" in "".join(found)) == (len(names) == 2)


def test_a_run_is_played_by_its_policy_and_by_its_critic(experiments, finished_run, working_directory):
    lines = list(importlib.import_module("by_critic").play_all(finished_run.path))
    want = json.loads(finished_run.result.read_text())
    assert [json.loads(line["returns"]) for line in lines] == [
        want["returns"],
        *(replayed(finished_run, len(want["returns"]), way) for way in ("--greedy", "--critic")),
    ]
    assert lines[0]["score"] == want["score"] and lines[2]["command"] == "sacbbf evaluate RUN --critic"
    assert len({line["agent"] for line in lines}) == 3


def replayed(run, episodes, way):
    assert cli.run(["evaluate", str(run.path), "--episodes", str(episodes), way, "--json", "scores.json"]) == 0
    return json.loads(Path("scores.json").read_text())["returns"]
