"""What a sweep consists of: the words that describe it, the cells it has, the settings of each, and its JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from small_sweep import CARTPOLE, small_spec

from sacbbf.agents.presets import AGENTS
from sacbbf.envs import games
from sacbbf.errors import UsageError
from sacbbf.run.settings import resolve
from sacbbf.sweep.check import check
from sacbbf.sweep.spec import (
    Cell,
    Spec,
    Variant,
    configuration,
    conflicts,
    from_json,
    parse_games,
    parse_seeds,
    parse_settings,
    parse_variants,
    to_json,
)

# --- words ---


def test_whole_sets_of_games_go_by_a_name():
    assert len(set(parse_games("atari26"))) == 26 and set(parse_games("atari26")) == set(games.GAMES)
    minatar = parse_games("minatar")
    assert len(set(minatar)) == 5 and all(name.startswith("MinAtar/") for name in minatar)


@pytest.mark.parametrize(
    ("seed", "drawn"),
    [
        (3, ("KungFuMaster", "Krull", "Frostbite", "RoadRunner", "Jamesbond")),
        (2, ("Seaquest", "Alien", "CrazyClimber", "Pong", "Kangaroo")),
        (1, ("KungFuMaster", "Gopher", "Krull", "Asterix", "Qbert")),
    ],
)
def test_the_papers_draws_of_five_games(seed, drawn):
    assert parse_games(f"paper-subset:{seed}") == drawn


def test_a_game_goes_by_any_of_its_names_and_counts_once():
    assert parse_games("pong, ALE/Pong-v5,CartPole-v1,Pong,") == ("Pong", CARTPOLE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "games = '': must be atari26, minatar, paper-subset:SEED, or names between commas"),
        (" , ", "games = ' , ': must be atari26"),
        ("paper-subset:x", "games = 'paper-subset:x': 'x' is not a whole number"),
        ("paper-subset:-1", "games = 'paper-subset:-1': the seed must be in 0 .. 2**32 - 1"),
        (f"paper-subset:{2**32}", "the seed must be in 0 .. 2**32 - 1"),
    ],
)
def test_games_that_are_none_are_refused(text, message):
    refused(parse_games, text, message=message)


@pytest.mark.parametrize(
    ("text", "seeds"), [("3", (0, 1, 2)), ("3-5", (3, 4, 5)), ("0,2,9", (0, 2, 9)), ("7,5-6,5", (7, 5, 6))]
)
def test_seeds_are_a_count_a_range_or_a_list(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "seeds = '0': must be at least 1"),
        ("five", "seeds = 'five': 'five' is not a whole number; must be as in 5 (0 to 4), 3-7 or 0,2,9"),
        ("5-3", "seeds = '5-3': 5-3 runs backwards"),
        ("4,", "seeds = '4,': '' is not a whole number"),
        ("-3", "seeds = '-3': '' is not a whole number"),
    ],
)
def test_seeds_that_are_none_are_refused(text, message):
    refused(parse_seeds, text, message=message)


def test_every_agent_gets_every_combination_of_the_varied_settings():
    variants = parse_variants("bbf,sac-bbf,bbf", ["replay-ratio=1,2", "loss.variance_reduction=true,false"])
    assert [one.name for one in variants[:4]] == [
        "bbf+replay_ratio=1+loss.variance_reduction=true",
        "bbf+replay_ratio=1+loss.variance_reduction=false",
        "bbf+replay_ratio=2+loss.variance_reduction=true",
        "bbf+replay_ratio=2+loss.variance_reduction=false",
    ]
    assert [one.agent for one in variants[4:]] == ["sac-bbf"] * 4
    assert [one.settings for one in variants[4:]] == [one.settings for one in variants[:4]]


@pytest.mark.parametrize(
    ("agents", "vary", "message"),
    [
        ("sac-bff", [], f"agents = 'sac-bff': must be among {', '.join(AGENTS)}; did you mean sac-bbf"),
        ("bbf", ["replay_ratio"], "vary = 'replay_ratio': must be NAME=VALUE"),
        ("bbf", ["=1"], "vary = '=1': must be NAME=VALUE"),
        ("bbf", ["replay_ratio="], "vary = 'replay_ratio=': must be NAME=VALUE"),
        ("bbf", ["seed=1,2"], "seed has an option of its own"),
        ("bbf", ["steps=1", "steps=2"], "vary: a setting may be varied once; got steps=1, steps=2"),
    ],
)
def test_variants_that_are_none_are_refused(agents, vary, message):
    refused(parse_variants, agents, vary, message=message)


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("3", 3), ("1_000", 1000), ("3.0", 3.0), ("1e-4", 1e-4), ("adamw", "adamw"), ('"3"', "3")],
)
def test_a_setting_has_the_type_that_its_text_shows(text, value):
    found = parse_settings([f"some.name={text}"])["some.name"]
    assert found == value and type(found) is type(value)


def test_a_setting_of_all_cells_has_one_value():
    refused(parse_settings, ["eval.episodes=1,2"], message="set = 'eval.episodes=1,2': must have one value; --vary")


# --- cells ---


def test_cells_come_seed_by_seed():
    spec = small_spec(2, envs=("Pong", CARTPOLE), variants=(Variant("bbf"), Variant("sac-bbf")))
    assert [cell.name for cell in spec.cells()] == [
        f"{agent}/{env}/seed{seed}" for seed in (0, 1) for env in ("Pong", CARTPOLE) for agent in ("bbf", "sac-bbf")
    ]


def test_names_of_cells_are_paths_of_three_parts_and_no_two_are_alike():
    values = [1, 1.0, True, "a/b", "..", "x:y"]
    variants = tuple(Variant("bbf", {"some.name": value}) for value in values)
    spec = small_spec(2, envs=("MinAtar/Breakout-v1", "toys:toys/Identity-v0", "../x"), variants=variants)
    names = [cell.name for cell in spec.cells()]
    assert len(set(names)) == len(names)
    for name in names:
        parts = name.split("/")
        assert len(parts) == 3 and not {"", ".", ".."} & set(parts)


# --- configurations ---


def of(settings, env=CARTPOLE, **fields):
    """The configuration of a cell with these settings, and nothing else changed."""
    spec = Spec((env,), (Variant("sac-bbf", settings),), (4,), "tiny", 500, device="cpu", **fields)
    check(spec)
    return configuration(spec, spec.cells()[0])


def test_a_replay_ratio_brings_along_what_follows_from_it():
    expected, _ = resolve(CARTPOLE, agent="sac-bbf", seed=4, device="cpu", size="tiny", steps=500, replay_ratio=4)
    assert of({"replay_ratio": 4}) == expected
    assert of({}).settings.schedule.replay_ratio != 4


def test_settings_reach_their_place():
    settings = {"loss.variance_reduction": False, "eval.episodes": 7, "log_every": 11, "steps": 300}
    found = of(settings, threads=3)
    assert found.settings.loss.variance_reduction is False and of({}).settings.loss.variance_reduction
    assert (found.eval.episodes, found.log_every, found.steps, found.threads) == (7, 11, 300, 3)
    assert (found.seed, found.agent, found.size, found.device) == (4, "sac-bbf", "tiny", "cpu")


def test_settings_of_the_environment_reach_it():
    assert of({"environment.max_steps": 9}, "Pong").environment.max_steps == 9


def test_a_variants_settings_replace_those_of_all_cells():
    spec = small_spec(1, variants=(Variant("sac-bbf", {"eval.episodes": 9, "steps": 90}),))
    config = configuration(spec, spec.cells()[0])
    assert (config.eval.episodes, config.steps) == (9, 90) == (9, spec.steps_of(spec.cells()[0]))


def test_a_baseline_trains_for_no_steps():
    spec = small_spec(1)
    assert spec.steps_of(Cell(Variant("random"), CARTPOLE, 0)) == 0 != spec.steps_of(spec.cells()[0])


# --- checks ---


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"seeds": ()}, "a sweep needs at least one game, one agent and one seed"),
        ({"settings": {"loss.varianse": 1}}, "sac-bbf on CartPole-v1: settings: no setting loss.varianse"),
        ({"settings": {"eval.episodes": 0}}, "eval.episodes = 0: must be"),
        ({"settings": {"optimiser.learning_rate": float("nan")}}, "optimiser.learning_rate = nan: must be"),
        ({"settings": {"eval.episodes": "many"}}, "eval.episodes = 'many': must be a whole number"),
        ({"settings": {"eval": 1, "eval.episodes": 2}}, "eval is a setting and a table of settings at once"),
        ({"steps": 0}, "steps = 0: must be at least 1"),
        ({"envs": (CARTPOLE, "Pongg")}, "did you mean Pong"),
        ({"variants": (Variant("bbf"), Variant("bbf"))}, "the sweep has the cell bbf/CartPole-v1/seed0 twice"),
    ],
)
def test_sweeps_that_could_not_run_are_refused(fields, message):
    refused(check, replace(small_spec(1), **fields), message=message)


# --- JSON ---

FULL = small_spec(
    2,
    variants=(Variant("bbf", {"a": True, "b": 1, "c": 1.5, "d": "x"}, "label"), Variant("der")),
    note="n",
    threads=None,
)


def test_json_holds_all_of_a_sweep():
    assert from_json(json.loads(json.dumps(to_json(FULL)))) == FULL


@pytest.mark.parametrize(
    "change",
    [
        {"seeds": ["0"]},
        {"seeds": [True]},
        {"seeds": 3},
        {"steps": 1.5},
        {"size": "huge"},
        {"size": []},
        {"threads": "2"},
        {"device": None},
        {"envs": [5]},
        {"settings": {"a": [1]}},
        {"settings": []},
        {"variants": ["bbf"]},
        {"variants": [{"settings": {}}]},
        {"envs": [".."]},
        {"envs": [""]},
        {"variants": [{"agent": "../../bbf", "settings": {}}]},
        {"variants": [{"agent": "bbf", "settings": {}, "label": "/etc"}]},
        {"variants": [{"agent": "bbf", "settings": {}, "label": "one/more"}]},
    ],
)
def test_json_of_other_kinds_or_with_paths_that_leave_the_directory_is_refused(change):
    with pytest.raises(ValueError):
        from_json(to_json(FULL) | change)


@pytest.mark.parametrize("data", [None, [], 3, {}, {"envs": []}])
def test_json_that_is_no_sweep_is_refused(data):
    with pytest.raises(ValueError):
        from_json(data)


# --- sweeps that go on as others ---


def test_more_cells_are_no_conflict():
    more = small_spec(3, envs=(CARTPOLE, "Pong"), variants=(Variant("sac-bbf"), Variant("bbf")))
    assert list(conflicts(small_spec(2), more)) == []


def test_another_note_is_no_conflict():
    assert list(conflicts(small_spec(2, note="scaled down"), small_spec(3))) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"steps": 151}, "steps: 150 there, 151 here"),
        ({"settings": {}}, "settings: "),
        ({"threads": 2}, "threads: 1 there, 2 here"),
        ({"seeds": (0, 2)}, "cells: sac-bbf/CartPole-v1/seed1 is there, and not here"),
        ({"variants": (Variant("sac-bbf", {"steps": 9}, "sac-bbf"),)}, "cells: sac-bbf/CartPole-v1/seed0 is there"),
    ],
)
def test_anything_else_is_a_conflict(fields, message):
    (found,) = conflicts(small_spec(2), replace(small_spec(2), **fields))
    assert found.startswith(message)


def refused(function, *args, message):
    with pytest.raises(UsageError) as caught:
        function(*args)
    assert message in str(caught.value)
