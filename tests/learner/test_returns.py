"""Scaled returns: what they are divided by, against returns by hand; what is kept; and that values tell their unit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_agents import ACTIONS, OBS, small_learner

from sacbbf.learner.state import read_learner, write_learner
from sacbbf.replay import Replay
from sacbbf.run.diagnostics import known_returns, value_metrics

SCALED = {"loss": {"returns": "scaled", "return_share": 0.5}, "network": {"v_max": 10.0}}
GAMMA = 0.997  # at the end of the schedule


def scaled_learner(agent="sac-bbf", **kwargs):
    return small_learner(agent, SCALED, **kwargs)


def make_replay(rewards, ends=(), capacity=500, k=2, **flags):
    replay = Replay(capacity=capacity, frame_shape=OBS, frame_dtype="float32", stack=1, k=k)
    add(replay, rewards, ends, **flags)
    return replay


def add(replay, rewards, ends=(), flag="terminated"):
    rng = np.random.default_rng(replay.steps_added)
    for number, reward in enumerate(rewards):
        frame = rng.standard_normal(OBS).astype(np.float32)
        replay.add(frame, int(rng.integers(ACTIONS)), reward, **{flag: number in ends})


def followed(rewards, ends=(), **flags):
    learner = scaled_learner()
    learner.returns.follow(make_replay(rewards, ends, **flags))
    return learner.returns.scale


@pytest.mark.parametrize(
    ("rewards", "ends", "largest"),
    [
        ([0.0, 0.0], (), 5.0),  # nothing was seen: rewards stay as they are
        ([0.0, 20.0, 0.0], (), 20.0),
        ([0.0, -20.0, 0.0], (), 20.0),
        ([0.002], (), 0.002),
        ([3.0, 2.0], (), 3.0 * GAMMA + 2.0),
        ([3.0, -2.0], (), 3.0),
        ([3.0, 2.0], (0,), 3.0),  # of two episodes
        ([1.0] * 50, (), (1 - GAMMA**50) / (1 - GAMMA)),
    ],
)
def test_the_largest_return_seen_takes_half_of_the_support(rewards, ends, largest):
    assert followed(rewards, ends) == pytest.approx(largest / 5.0, rel=1e-6)


@pytest.mark.parametrize("flag", ["terminated", "truncated", "life_lost"])
def test_a_return_ends_where_learning_ends_an_episode(flag):
    assert followed([3.0, 2.0], (0,), flag=flag) == pytest.approx(3.0 / 5.0)


def test_rewards_are_seen_once_however_they_come():
    rewards = np.random.default_rng(0).standard_normal(300).tolist()
    learner, replay = scaled_learner(), make_replay([], capacity=64)
    for start in range(0, 300, 7):
        add(replay, rewards[start : start + 7])
        learner.returns.follow(replay)
        learner.returns.follow(replay)
    assert learner.returns.scale == pytest.approx(followed(rewards))


def test_an_update_sees_returns_in_the_scale(monkeypatch):
    learner, replay = scaled_learner(), make_replay([40.0] * 100, set(range(0, 100, 5)))
    seen = []
    update = learner.update
    monkeypatch.setattr(learner, "update", lambda batch, *words: seen.append(batch) or update(batch, *words))
    metrics = learner.learn(replay, 0, np.random.default_rng(3), measure=True)
    raw = replay.assemble(seen[0].indices, 10, 0.97)
    scale = 40.0 * sum(GAMMA**step for step in range(5)) / 5.0
    assert metrics["replay/return_scale"] == pytest.approx(scale, rel=1e-6)
    torch.testing.assert_close(seen[0].return_n, raw.return_n / scale)
    assert float(seen[0].return_n.max()) <= 5.0


def test_raw_returns_stay_as_they_are():
    learner, replay = small_learner("sac-bbf"), make_replay([40.0] * 100)
    assert "replay/return_scale" not in learner.learn(replay, 0, np.random.default_rng(3), measure=True)
    assert learner.returns.scale == 1.0 and float(learner.online.return_scale) == 0.0


@pytest.mark.parametrize("agent", ["sac-bbf", "bbf", "drq-eps", "sac-discrete"])
def test_it_is_the_same_for_rewards_a_thousand_times_as_large(agent):
    """Up to rounding: a power of two."""
    results = []
    for factor in (1.0, 1024.0):
        rng = np.random.default_rng(5)
        learner = scaled_learner(agent)
        replay = make_replay((factor * rng.integers(-3, 4, 200)).tolist(), set(range(0, 200, 9)), k=learner.spr_steps)
        metrics = [learner.learn(replay, 0, rng, measure=True) for _ in range(3)][-1]
        assert metrics["q/max"] != 0.0
        results.append((metrics["q/max"] / factor, *learner.online.state_dict().values()))
    (q, *tensors), (q_large, *tensors_large) = results
    assert q == pytest.approx(q_large, rel=1e-6)
    names = list(learner.online.state_dict())
    for name, small, large in zip(names, tensors, tensors_large, strict=True):
        assert torch.equal(large, 1024.0 * small if name == "return_scale" else small), name


def test_it_is_kept_with_a_learner_and_followed_from_there():
    first, rewards = scaled_learner(), [1.0, 2.0, 3.0]
    replay = make_replay(rewards)
    first.returns.follow(replay)
    second = scaled_learner(seed=1)
    write_learner(second, *read_learner(first))
    assert second.returns.scale == first.returns.scale > 0
    add(replay, [4.0])
    for learner in (first, second):
        learner.returns.follow(replay)
    assert second.returns.scale == first.returns.scale == pytest.approx(followed([*rewards, 4.0]))


@pytest.mark.parametrize("kept", [{"steps_seen": -1, "current": 0.0}, {"steps_seen": 3, "current": "much"}])
def test_what_cannot_have_been_kept_is_refused(kept):
    with pytest.raises(ValueError, match="cannot be"):
        scaled_learner().returns.write(kept)


def test_a_reset_leaves_it():
    learner = scaled_learner()
    learner.returns.follow(make_replay([40.0]))
    learner.reset()
    assert learner.returns.scale == pytest.approx(8.0)
    assert learner.online.unit == learner.target.unit == pytest.approx(8.0)


def test_weights_bring_their_scale_where_returns_are_scaled():
    learner = scaled_learner()
    learner.returns.follow(make_replay([40.0]))
    other, raw = scaled_learner(seed=1), small_learner("sac-bbf")
    for one in (other, raw):
        one.start_from(learner.target)
    assert other.returns.scale == pytest.approx(8.0) and raw.returns.scale == 1.0
    assert raw.online.unit == raw.target.unit == 1.0


def test_diagnostics_are_in_learning_rewards():
    learner, replay = scaled_learner(), make_replay([40.0] * 60, set(range(0, 60, 5)))
    steps, returns = known_returns(replay, 0.97)
    before = value_metrics(learner, replay, steps, returns)
    learner.returns.follow(replay)
    after = value_metrics(learner, replay, steps, returns)
    assert after["q_mean"] == pytest.approx(learner.returns.scale * before["q_mean"])
    assert after["return_mean"] == before["return_mean"] > 40.0
