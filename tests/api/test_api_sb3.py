"""Stable-Baselines3's evaluation plays an agent of this package, and finds what the package's own finds."""

from __future__ import annotations

import json
import math

import gymnasium
import numpy as np
import pytest
from small_api import Motion, Strict

from sacbbf import SACBBF
from sacbbf.cli import run
from sacbbf.policy import NetworkPolicy

pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed")
SETTINGS = {"network.hidden_dim": 16, "network.width_scale": 0.25, "schedule.n_start": 5, "schedule.warmup": 100}


@pytest.fixture(scope="module")
def agent():
    return SACBBF("CartPole-v1", seed=1, settings=SETTINGS).learn(400)


def scores_by_sb3(agent, episodes, deterministic, make=None):
    """What Stable-Baselines3 finds on an agent's own environments, or on raw ones."""
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv

    envs = DummyVecEnv([lambda: Monitor((make or agent.make_env)()) for _ in range(5)])
    envs.seed(0)
    return evaluate_policy(
        agent, envs, n_eval_episodes=episodes, deterministic=deterministic, return_episode_rewards=True
    )[0]


def agree(first, second):
    """Whether two means lie within two standard errors of their difference."""
    error = math.sqrt(sum(np.var(scores, ddof=1) / len(scores) for scores in (first, second)))
    assert error > 0
    return abs(np.mean(first) - np.mean(second)) < 2 * error


def test_both_evaluations_agree(agent, tmp_path):
    own = agent.evaluate(100).scores
    assert agree(scores_by_sb3(agent, 50, deterministic=False), own)
    words = ["--episodes", "100", "--json", str(tmp_path / "scores.json")]
    assert run(["evaluate", str(agent.save(tmp_path / "agent")), *words]) == 0
    assert tuple(json.loads((tmp_path / "scores.json").read_text())["returns"]) == own


def test_both_agree_on_the_most_likely_actions(agent):
    own = agent.evaluate(100, greedy=True).scores
    assert agree(scores_by_sb3(agent, 100, deterministic=True), own)
    assert own != agent.evaluate(100).scores  # drawing is another policy


# --- on raw environments ---


def test_raw_vectors_are_played_as_well(agent):
    own = agent.evaluate(50).scores
    assert agree(scores_by_sb3(agent, 50, False, lambda: gymnasium.make("CartPole-v1")), own)


def test_the_object_that_an_agent_learned_on_can_be_played():
    from stable_baselines3.common.evaluation import evaluate_policy

    env = gymnasium.make("CartPole-v1")
    agent = SACBBF(env, seed=1, settings=SETTINGS).learn(120)
    with pytest.warns(UserWarning, match="not wrapped with a ``Monitor``"):
        scores, _ = evaluate_policy(agent, env, n_eval_episodes=30, deterministic=False, return_episode_rewards=True)
    assert agree(scores, agent.evaluate(50).scores)
    assert agent.learn(20).steps == 140


def test_actions_that_do_not_begin_at_0_are_right_everywhere(monkeypatch):
    monkeypatch.setattr(
        NetworkPolicy, "logits", lambda self, states, masks: states
    )  # the action of the symbol's number
    agent = SACBBF(Strict, settings=SETTINGS)
    assert set(agent.evaluate(10, greedy=True).scores) == {10.0}
    assert set(scores_by_sb3(agent, 10, True, Strict)) == set(scores_by_sb3(agent, 10, True)) == {10.0}


def test_raw_frames_are_stacked_as_in_learning(monkeypatch):
    """A light that moves: one frame alone does not tell which way, and who knows the last two is right by 80%."""

    def logits(self, states, masks):
        frames = states.reshape(-1, 3, 5)
        moved = (frames[:, 2].argmax(1) - frames[:, 1].argmax(1)) % 5 == 1
        return np.stack([~moved, moved], axis=1).astype(np.float32)

    monkeypatch.setattr(NetworkPolicy, "logits", logits)
    agent = SACBBF(Motion, settings=SETTINGS | {"stack": 3})
    own = agent.evaluate(200, greedy=True).scores
    assert np.mean(own) > 8.8  # 0.5 and 11 times 0.8 of 12; chance has 6
    assert agree(scores_by_sb3(agent, 200, True, Motion), own)
    assert agree(scores_by_sb3(agent, 200, True), own)


def test_raw_grids_of_minatar_are_played():
    pytest.importorskip("minatar", reason="MinAtar is not installed")
    from minatar.gym import BaseEnv  # what it registers with Gymnasium

    settings = {"network.hidden_dim": 16, "schedule.warmup": 64, "eval.parallel": 4, "environment.max_steps": 200}
    agent = SACBBF("MinAtar/Breakout-v1", size="tiny", seed=1, settings=settings)
    raw = BaseEnv("breakout", use_minimal_action_set=True)
    assert agent.action_space == raw.action_space and agent.observation_space.shape == raw.observation_space.shape
    own = agent.evaluate(100).scores
    limited = lambda: gymnasium.wrappers.TimeLimit(BaseEnv("breakout", use_minimal_action_set=True), 200)  # noqa: E731
    assert agree(scores_by_sb3(agent, 60, False, limited), own)
