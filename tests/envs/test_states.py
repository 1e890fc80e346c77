"""Environments in Gymnasium's own form: they keep its rules, and show exactly the states that an agent sees."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from sacbbf import EnvSettings, StateEnv
from sacbbf.envs.base import EnvError
from sacbbf.envs.make import make_env
from sacbbf.envs.stack import FrameStack
from toys import Lives

SHORT = EnvSettings(max_steps=12)
SHAPES = {
    "CartPole-v1": ((4,), np.float32),
    "toys/Catch-v0": ((2, 5, 5), np.uint8),
    "MinAtar/Breakout-v1": ((4, 10, 10), np.uint8),
    "Pong": ((4, 84, 84), np.uint8),
}


@pytest.fixture(params=SHAPES)
def name(request):
    if request.param.startswith("MinAtar"):
        pytest.importorskip("minatar", reason="MinAtar is not installed")
    return request.param


def test_it_keeps_gymnasiums_rules(name):
    env = StateEnv(name, settings=SHORT)
    check_env(env, skip_render_check=True)
    assert (env.observation_space.shape, env.observation_space.dtype) == SHAPES[name]
    assert isinstance(env.action_space, gymnasium.spaces.Discrete)


def test_its_states_are_those_of_the_evaluation(name):
    env, plain = StateEnv(name, settings=SHORT), make_env(name, settings=SHORT)
    frames = FrameStack.of(plain.spec)
    generator = np.random.default_rng(0)
    state, _ = env.reset(seed=5)
    expected, over, steps = frames.begin(plain.reset(5)), False, 0
    while not over:
        assert np.array_equal(state, expected) and state in env.observation_space
        action = int(generator.integers(env.action_space.n))
        state, reward, terminated, truncated, _ = env.step(action)
        step = plain.step(action)
        assert (reward, terminated, truncated) == (step.reward, step.terminated, step.truncated)
        expected, over, steps = frames.observe(step), step.over, steps + 1
    assert 2 < steps <= 12


def play(env, seed, actions=(0, 1, 0, 0, 1, 1)):
    states = [env.reset(seed=seed)[0]]
    return np.stack([*states, *(env.step(action)[0] for action in actions)])


def test_an_episode_belongs_to_its_seed():
    env = StateEnv("CartPole-v1")
    assert np.array_equal(play(env, 1), play(env, 1))
    assert not np.array_equal(play(env, 1), play(env, 2))


def test_without_a_seed_the_episodes_follow_from_the_last_one_given():
    one, two = StateEnv("CartPole-v1"), StateEnv("CartPole-v1")
    series = []
    for env in (one, two):
        env.reset(seed=4)
        series.append([env.reset()[0] for _ in range(3)])
    assert np.array_equal(series[0], series[1])
    assert not np.array_equal(series[0][0], series[0][1])


def test_grids_of_booleans_are_shown_as_bytes_of_zeros_and_ones():
    state, _ = StateEnv("toys/Catch-v0").reset(seed=0)
    assert state.dtype == np.uint8 and state.sum() == 2 and state.max() == 1


def test_rewards_are_not_clipped():
    env = StateEnv("toys/Jackpot-v0")
    env.reset(seed=0)
    assert env.step(np.int64(1))[1] == 5.0


def test_the_number_of_frames_can_be_chosen():
    env = StateEnv("CartPole-v1", stack=3)
    state, _ = env.reset(seed=0)
    assert state.shape == env.observation_space.shape == (12,)
    assert not state[:8].any() and state[8:].any()


def test_a_lost_life_is_told_and_does_not_end_the_episode(monkeypatch):
    monkeypatch.setattr("sacbbf.envs.states.make_env", lambda *args, **kwargs: Lives())
    env = StateEnv("Lives")
    assert env.reset(seed=0)[0].tolist() == [0, 0, 10]
    seen = [env.step(0) for _ in range(6)]
    assert [info["life_lost"] for *_, info in seen] == [False, False, True, False, False, False]
    assert [terminated for _, _, terminated, *_ in seen] == [False] * 5 + [True]
    assert seen[1][0].tolist() == [10, 11, 12] and seen[2][0].tolist() == [0, 0, 13]


def test_an_environment_that_is_made_already_is_shown_with_its_own_actions():
    raw = gymnasium.make("CartPole-v1")
    raw.action_space = gymnasium.spaces.Discrete(2, start=5)
    env = StateEnv(make_env(raw), stack=2)
    assert env.action_space == raw.action_space
    env.reset(seed=0)
    with pytest.raises(EnvError, match=r"action = 4: must be one of Discrete\(2, start=5\)"):
        env.step(4)
    with pytest.raises(EnvError, match="settings: must be left out"):
        StateEnv(make_env("CartPole-v1"), settings=EnvSettings())
