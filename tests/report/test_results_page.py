"""The page of results and its tables are what raw scores and sections give, and raw scores are what runs hold."""

from __future__ import annotations

import csv
import importlib
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from made_runs import make_config, write_run

from sacbbf import cli
from sacbbf.commands.reproduce import ReproduceArgs, read_words
from sacbbf.commands.sweep import SweepArgs
from sacbbf.report import aggregate
from sacbbf.report.scores import read_scores

TOP = Path(__file__).parents[2]
MACHINE = {"cpu": "some CPU", "threads": 1}


@pytest.fixture
def experiments(monkeypatch):
    monkeypatch.syspath_prepend(TOP / "experiments")
    return importlib.import_module("results"), importlib.import_module("collect")


INTERVAL = r"-?[\d,]+\.?\d* to -?[\d,]+\.?\d*"


@pytest.fixture
def no_bootstrap(monkeypatch):
    """Intervals that are the value itself: all other numbers come as they do, at once."""

    def same(function, scores, reps, seed):
        return function(*scores), function(*scores)

    monkeypatch.setattr(aggregate, "interval", same)


def without_intervals(text):
    """A page's text with every interval in its tables taken away."""
    lines = text.splitlines()
    return [
        re.sub(rf" \({INTERVAL}\)|(?<=\| ){INTERVAL}(?= \|)", "", line) if line[:1] == "|" else line for line in lines
    ]


def test_all_numbers_but_intervals_are_what_raw_scores_give(experiments, no_bootstrap):
    results, _ = experiments
    intro, sections = results.read()
    made = {results.DOCS / "results.md": results.page(intro, sections)}
    made |= {section.tables: results.tables_page(section) for section in sections}
    for path, text in made.items():
        assert without_intervals(path.read_text()) == without_intervals(text), path
    assert set((results.DOCS / "results").iterdir()) == made.keys() - {results.DOCS / "results.md"}


@pytest.mark.parametrize("name", ["behaviour", "untuned"])
def test_a_sections_intervals_are_what_raw_scores_give(name, experiments):
    results, _ = experiments
    (section,) = (section for section in results.read()[1] if section.name == name)
    assert section.tables.read_text() == results.tables_page(section)
    assert f"\n{results.score_table(section)}\n" in (results.DOCS / "results.md").read_text()


@pytest.fixture
def made_section(experiments, tmp_path, monkeypatch):
    """Write a section's raw scores: agents A, B and C with two runs each, of which A's second one is given."""
    results, _ = experiments
    (tmp_path / "raw").mkdir()
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.setattr(results, "TOP", tmp_path)

    def make(last=10.0, **words):
        scores = {"A": (9.0, last), "B": (5.0, 6.0), "C": (2.0, 3.0)}
        rows = [f"{agent},CartPole-v1,{seed},{score}" for agent in scores for seed, score in enumerate(scores[agent])]
        (tmp_path / "raw" / "some.csv").write_text("\n".join(["agent,game,seed,score", *rows]))
        return results.Section("some", "Some runs", ("sacbbf list",), "Words.", ("A",), **words)

    return make


def test_a_page_shows_new_scores_and_leads_to_the_tables(experiments, made_section):
    results, _ = experiments
    page = results.page("First words.", [made_section()])
    assert "## Some runs\n\nWords.\nMore: [commands and all tables](results/some.md).\n" in page
    assert "| A | 9.5 (9.0 to 10.0) | 2 |" in page and "sacbbf list" not in page
    assert "| A |" not in results.page("", [made_section(shown=("B",))])


def test_a_part_of_another_section_is_linked_from_it(experiments, made_section):
    results, _ = experiments
    section = made_section()
    part = replace(section, name="detail", title="A detail", part_of="some")
    page = results.page("First words.", [section, part])
    assert "[A detail](results/detail.md)." in page and "## A detail" not in page
    assert "\nWords.\n" in results.tables_page(part) and "\nWords.\n" not in results.tables_page(section)


def test_tables_have_commands_all_runs_and_the_pairs_that_are_asked_for(experiments, made_section):
    results, _ = experiments
    page = results.tables_page(made_section())
    assert "\n    sacbbf list\n" in page and "| A | CartPole-v1 | 0, 1 | 9.00, 10.00 |" in page
    assert "| CartPole-v1 | A | **9.5** |" in page
    assert "\n| A | B | " in page and "\n| A | C | " in page and "| B | C |" not in page


def test_a_raw_score_that_changes_shows(experiments, made_section, no_bootstrap):
    results, _ = experiments
    before, after = (
        [without_intervals(text) for text in (results.page("", [section]), results.tables_page(section))]
        for section in (made_section(last) for last in (10.0, 10.2))
    )
    assert before[0] != after[0] and before[1] != after[1]
    assert without_intervals(results.tables_page(made_section(10.21))) != after[1]


def test_every_command_is_one_that_can_be_run(experiments):
    results, _ = experiments
    import tyro

    _, sections = results.read()
    commands = [command for section in sections for command in section.commands]
    assert len(commands) > 5
    for command in commands:
        program, name, *words = shlex.split(command)
        if program == "python":
            if command == "python experiments/untuned.py":  # it knows its files, and has no option that is needed
                continue
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
