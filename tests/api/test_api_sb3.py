"""Stable-Baselines3's evaluation plays an agent of this package, and finds what the package's own finds."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from sacbbf import SACBBF
from sacbbf.cli import run

pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed")
SETTINGS = {"network.hidden_dim": 16, "network.width_scale": 0.25, "schedule.n_start": 5, "schedule.warmup": 100}


@pytest.fixture(scope="module")
def agent():
    return SACBBF("CartPole-v1", seed=1, settings=SETTINGS).learn(400)


def scores_by_sb3(agent, episodes, deterministic):
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv

    envs = DummyVecEnv([lambda: Monitor(agent.make_env()) for _ in range(5)])
    envs.seed(0)
    scores, lengths = evaluate_policy(
        agent, envs, n_eval_episodes=episodes, deterministic=deterministic, return_episode_rewards=True
    )
    assert scores == lengths  # a pole that stands earns 1 a step
    return scores


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
    own = agent.evaluate(50, greedy=True).scores
    assert agree(scores_by_sb3(agent, 50, deterministic=True), own)
    assert own != agent.evaluate(50).scores  # drawing is another policy
