"""Evaluation: which episodes are played, in which environments, and what is made of their scores."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from sacbbf.agents.config import NetworkConfig
from sacbbf.envs.make import make_env
from sacbbf.errors import UsageError
from sacbbf.networks import build_network
from sacbbf.policy import FixedPolicy, NetworkPolicy, uniform_policy
from sacbbf.run.evaluate import ROWS, Plan, evaluate, plan_of, play_episodes, summarise
from sacbbf.seeding import episode_seed
from toys import Lives, toy_config

PLAN = Plan(episodes=9, seed=5, stack=1)


def test_a_runs_plan_is_its_own_but_for_what_is_given():
    config = toy_config("Identity", 100, {"acting": {"epsilon_eval": 0.25}}, seed=6, stack=3, parallel=5)
    assert plan_of(config, 7) == Plan(7, 6, 3, greedy=False, parallel=5, phase="evaluate", epsilon=0.25)
    found = plan_of(config, 7, seed=0, greedy=True, parallel=2, phase="interval")
    assert found == Plan(7, 0, 3, greedy=True, parallel=2, phase="interval", epsilon=0.25)
    greedy = replace(config, eval=replace(config.eval, greedy=True))
    assert plan_of(greedy, 7, greedy=False).greedy


class Counted:
    """Makes environments, and remembers how many there were, which are closed, and how many played at a time."""

    def __init__(self, name):
        self.name, self.made, self.closed = name, 0, 0

    def __call__(self):
        env, close = make_env(self.name), None
        self.made += 1
        close = env.close

        def count():
            self.closed += 1
            close()

        env.close = count
        return env


def catch():
    return make_env("toys/Catch-v0")


@pytest.fixture(scope="module")
def grid_policy():
    config = NetworkConfig(encoder="grid", width_scale=0.5, hidden_dim=16)
    generator = torch.Generator().manual_seed(4)
    network = build_network(
        config, (2, 5, 5), 3, self_prediction=False, device=torch.device("cpu"), generator=generator
    )
    return NetworkPolicy(network, torch.device("cpu"), ROWS)


def test_the_same_seed_plays_the_same_episodes(grid_policy):
    first = evaluate(grid_policy, catch, PLAN)
    assert first == evaluate(grid_policy, catch, PLAN)
    assert first != evaluate(grid_policy, catch, replace(PLAN, seed=6))
    assert first != evaluate(grid_policy, catch, replace(PLAN, phase="interval"))


@pytest.mark.parametrize("parallel", [3, 8, 20])
def test_episodes_do_not_depend_on_their_neighbours(parallel, grid_policy):
    plan = replace(PLAN, episodes=20)
    alone = evaluate(grid_policy, catch, replace(plan, parallel=1))
    assert len({record.score for record in alone}) == 2  # hits and misses: there is something to tell apart
    assert evaluate(grid_policy, catch, replace(plan, parallel=parallel)) == alone


def test_more_episodes_begin_with_the_same_ones(grid_policy):
    assert evaluate(grid_policy, catch, replace(PLAN, episodes=14))[:9] == evaluate(grid_policy, catch, PLAN)


def test_records_come_in_the_order_of_their_numbers_with_their_own_seeds():
    policy = FixedPolicy([0.3, 0.7])
    plan = replace(PLAN, parallel=4)
    played = list(play_episodes(policy, lambda: make_env("toys/Corridor-v0"), plan))
    assert [record.number for record in played] != list(range(9))  # some are longer than others
    records = evaluate(policy, lambda: make_env("toys/Corridor-v0"), plan)
    assert [record.number for record in records] == list(range(9))
    assert [record.seed for record in records] == [episode_seed(5, "evaluate", number) for number in range(9)]
    assert sorted(played, key=lambda record: record.number) == records
    assert all(record.truncated == (record.length == 30 and record.score == 0) for record in records)


@pytest.mark.parametrize(("episodes", "parallel", "made"), [(9, 4, 4), (2, 8, 2), (1, 1, 1)])
def test_no_more_environments_than_needed_and_all_are_closed(episodes, parallel, made):
    counted = Counted("toys/Catch-v0")
    evaluate(uniform_policy(3), counted, replace(PLAN, episodes=episodes, parallel=parallel))
    assert (counted.made, counted.closed) == (made, made)


def test_an_environment_without_an_episode_drops_out():
    sizes = []

    class Watched:
        def logits(self, states, masks=None):
            sizes.append(len(states))
            return uniform_policy(3).logits(states)

    evaluate(Watched(), catch, replace(PLAN, episodes=5, parallel=3))  # each takes 4 steps
    assert sizes == [3] * 4 + [2] * 4


def test_environments_are_closed_when_play_breaks_off():
    counted = Counted("toys/Catch-v0")
    episodes = play_episodes(uniform_policy(3), counted, replace(PLAN, parallel=3))
    next(episodes)
    episodes.close()
    assert counted.closed == 3


def test_greedy_play_takes_the_most_likely_actions(grid_policy):
    taken = {}
    for greedy in (False, True):
        env, actions, most_likely = catch(), [], []
        step = env.step

        class Watched:
            def logits(self, states, masks=None, seen=most_likely):
                logits = grid_policy.logits(states)
                seen.append(int(logits[0].argmax()))
                return logits

        def remember(action, seen=actions, go=step):
            seen.append(action)
            return go(action)

        env.step = remember
        evaluate(Watched(), lambda made=env: made, replace(PLAN, parallel=1, greedy=greedy))
        taken[greedy] = (actions, most_likely)
    assert taken[True][0] == taken[True][1]
    assert taken[False][0] != taken[False][1]


def test_the_stack_is_zeroed_at_a_lost_life_and_the_episode_goes_on():
    states = []

    class Watched:
        def logits(self, batch, masks=None):
            states.append(batch[0].tolist())
            return uniform_policy(2).logits(batch)

    (record,) = evaluate(Watched(), Lives, replace(PLAN, episodes=1, stack=3))
    assert states == [[0, 0, 10], [0, 10, 11], [10, 11, 12], [0, 0, 13], [0, 13, 14], [13, 14, 15]]
    assert (record.score, record.length, record.truncated) == (18.0, 6, False)


def test_summary_by_hand():
    summary = summarise([1.0, 2.0, 6.0, 3.0])
    assert (summary.mean, summary.median, summary.episodes) == (3.0, 2.5, 4)
    error = math.sqrt((4 + 1 + 9 + 0) / 3) / 2
    assert summary.standard_error == pytest.approx(error)
    assert summary.interval == pytest.approx((3 - 1.96 * error, 3 + 1.96 * error))


def test_summary_of_one_episode_has_no_error():
    assert summarise([7.0]).standard_error == 0.0


@pytest.mark.parametrize("name", ["episodes", "parallel"])
def test_no_episodes_or_environments_are_refused(name):
    with pytest.raises(UsageError, match=f"{name} = 0: must be at least 1"):
        evaluate(uniform_policy(3), catch, replace(PLAN, **{name: 0}))


def test_states_reach_the_policy_as_they_are_stored():
    kinds = set()

    class Watched:
        def logits(self, states, masks=None):
            kinds.add((states.dtype, states.shape[1:]))
            return uniform_policy(3).logits(states)

    evaluate(Watched(), catch, replace(PLAN, episodes=2))
    assert kinds == {(np.dtype(np.bool_), (2, 5, 5))}
