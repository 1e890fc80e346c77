"""Blind play: the mix that is found, and the episodes it is scored on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sacbbf.envs.make import make_env
from sacbbf.run import baselines
from sacbbf.run.baselines import Mix, candidates, find_blind, neighbours
from sacbbf.run.evaluate import Plan
from toys import run_quietly, toy_config

NAMES = ("NOOP", "LEFT", "FIRE")


def test_chance_plays_chance(tmp_path):
    result = run_quietly(toy_config("Favourite", 100, agent="random", episodes=60), tmp_path / "run")
    assert result["score"] == pytest.approx(2.5, abs=0.8)
    assert (result["steps"], result["updates"]) == (0, 0)


def test_the_right_constant_action_is_found(tmp_path):
    result = run_quietly(replace(toy_config("Favourite", 100), agent="blind"), tmp_path / "run")
    assert result["mix"] == "always 2"
    assert result["returns"] == [10.0] * 4
    assert result["steps"] >= 10 * 4 * len(candidates(4))


def test_a_mix_beats_every_constant_where_actions_must_alternate(tmp_path):
    result = run_quietly(replace(toy_config("Alternate", 100, episodes=30), agent="blind"), tmp_path / "run")
    assert {"0", "2"} == {word for word in result["mix"].replace(",", "").split() if "%" not in word}
    assert result["score"] > 3.0  # an even mix earns 4.75, a quarter of either 3.6, anything else less


def test_greedy_evaluation_leaves_baselines_their_draws(tmp_path):
    config = toy_config("Favourite", 100, agent="random", greedy=True, episodes=20)
    assert run_quietly(config, tmp_path / "run")["score"] > 0  # the most likely action would always be 0


def test_the_search_plays_other_episodes_than_the_score(tmp_path, monkeypatch):
    seen = {}
    played = baselines.evaluate

    def remember(policy, make, plan, *rest):
        records = played(policy, make, plan, *rest)
        seen.setdefault(plan.phase, set()).update(record.seed for record in records)
        return records

    monkeypatch.setattr("sacbbf.run.baselines.evaluate", remember)
    monkeypatch.setattr("sacbbf.run.scoring.evaluate", remember)
    run_quietly(toy_config("Favourite", 100, agent="blind"), tmp_path / "run")
    assert set(seen) == {"blind-search", "blind-final", "evaluate"}
    assert len(set.union(*seen.values())) == sum(map(len, seen.values()))


def test_the_steps_of_the_search_are_counted():
    calls = []
    plan = Plan(1, 0, 1)
    mix, steps = find_blind(lambda: make_env("toys/Favourite-v0"), plan, 4, lambda: calls.append(1))
    assert mix == Mix(2, 2, 1.0)
    finals = len(calls) - len(candidates(4))
    assert steps == 10 * (baselines.SEARCH_EPISODES * len(candidates(4)) + baselines.FINAL_EPISODES * finals)


def test_candidates_are_all_constants_and_even_mixes():
    mixes = candidates(3)
    assert len(mixes) == 3 + 3
    assert {(mix.first, mix.second) for mix in mixes} == {(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)}


def test_neighbours_of_a_mix_are_uneven():
    assert [mix.share for mix in neighbours(Mix(0, 1, 0.5))] == [0.25, 0.5, 0.75]
    assert neighbours(Mix(1, 1, 1.0)) == [Mix(1, 1, 1.0)]


def test_a_mix_plays_its_shares_and_says_so():
    mix = Mix(1, 2, 0.75)
    np.testing.assert_allclose(mix.policy(3).probabilities, [0, 0.75, 0.25])
    np.testing.assert_allclose(Mix(0, 0, 1.0).policy(3).probabilities, [1, 0, 0])
    assert mix.describe(NAMES) == "75% LEFT, 25% FIRE"
    assert Mix(2, 2, 1.0).describe(NAMES) == "always FIRE"
