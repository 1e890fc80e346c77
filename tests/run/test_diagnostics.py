"""Diagnostics by hand, and that measuring them leaves no trace in a run."""

from __future__ import annotations

import math
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from sacbbf.agents.presets import change
from sacbbf.learner.learner import Learner
from sacbbf.replay import Replay
from sacbbf.run import diagnostics
from sacbbf.run.diagnostics import (
    activity,
    diagnose,
    dormant_share,
    effective_rank,
    known_returns,
    network_metrics,
    per_channel,
    priority_metrics,
    value_metrics,
)
from sacbbf.run.loop import Training
from sacbbf.run.records import RECORDS, RunDirectory, read_lines
from sacbbf.run.settings import EvalConfig, RunConfig, resolve
from sacbbf.run.trackers import scalars
from toys import run_quietly

ALWAYS = {"dormant_encoder", "dormant_hidden", "effective_rank"}
VALUES = {"q_mean", "return_mean", "q_bias", "q_error", "q_correlation"}
PRIORITIES = {f"priority_{name}" for name in ("min", "p10", "median", "p90", "max", "effective_share")}
POLICY = {"entropy_mean", "entropy_min"}


def make_replay(*steps: dict, capacity: int = 16, prioritised: bool = True) -> Replay:
    """A replay with these steps; each says its reward and its ends."""
    replay = Replay(capacity=capacity, frame_shape=(1,), frame_dtype=np.float32, stack=1, k=0, prioritised=prioritised)
    for number, step in enumerate(steps):
        replay.add(np.full(1, number, np.float32), **{"action": number % 2, "reward": 0.0, **step})
    return replay


def small(agent: str, steps: int = 100, **fields) -> RunConfig:
    config, _ = resolve("toys/Catch-v0", size="tiny", steps=steps, agent=agent)
    tiny = {"network": {"hidden_dim": 16, "width_scale": 0.25}, "schedule": {"warmup": 64}}
    evaluation = EvalConfig(episodes=2)
    return replace(config, settings=change(config.settings, tiny), eval=evaluation, log_every=10, **fields)


def trained(agent: str) -> Training:
    training = Training(small(agent))
    for _ in range(70):
        training.advance(measure=False)
    return training


# --- units and ranks ---


def test_a_unit_is_dormant_below_a_fortieth_of_its_layers_mean():
    # Mean activities 1, 0.02, 0 and 3: their mean is 1.005, a fortieth of it 0.0251.
    units = torch.tensor([[2.0, 0.04, 0.0, -3.0], [0.0, 0.0, 0.0, 3.0]])
    assert dormant_share(units) == 0.5
    assert dormant_share(torch.ones(3, 7)) == 0.0
    assert dormant_share(torch.zeros(3, 7)) == 1.0


def test_channels_are_averaged_over_the_image_and_vectors_left_alone():
    image = torch.tensor([[[[1.0, -3.0]], [[0.0, 2.0]]]])  # (1, 2, 1, 2)
    assert per_channel(image).tolist() == [[2.0, 1.0]]
    assert per_channel(torch.tensor([[1.0, -2.0]])).tolist() == [[1.0, -2.0]]


@pytest.mark.parametrize(
    ("values", "rank"),
    [
        ([100.0, 50.0, 1.0, 0.4], 2),  # 150 of 151.4 is 99.08%
        ([100.0, 50.0, 1.0, 0.6], 3),  # 150 of 151.6 is 98.94%
        ([5.0, 0.0, 0.0, 0.0], 1),
        ([1.0, 1.0, 1.0, 1.0], 4),
        ([0.0, 0.0, 0.0, 0.0], 0),
    ],
)
def test_effective_rank_counts_singular_values_up_to_99_percent(values, rank):
    left, _ = torch.linalg.qr(torch.randn(6, 4, generator=torch.Generator().manual_seed(0)))
    right, _ = torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(1)))
    assert effective_rank(left @ torch.diag(torch.tensor(values)) @ right) == rank


def test_entropy_is_the_mean_and_the_least_over_states(monkeypatch):
    logits = torch.log(torch.tensor([[0.5, 0.5], [1.0, 1e-30]]))
    layers = {"encoder": torch.ones(2, 3), "hidden": torch.eye(2)}
    monkeypatch.setattr(diagnostics, "activity", lambda *args: (layers, torch.zeros(2, 2), logits))
    found = network_metrics(None, None, None)
    assert found["entropy_mean"] == pytest.approx(math.log(2) / 2)
    assert found["entropy_min"] == pytest.approx(0, abs=1e-6)
    assert (found["dormant_encoder"], found["dormant_hidden"], found["effective_rank"]) == (0.0, 0.0, 2.0)


@pytest.mark.parametrize("agent", ["der", "sac-bbf", "drq-eps", "sac-discrete"])
def test_what_is_measured_is_the_online_network_without_noise(agent):
    training = trained(agent)
    network, steps = training.learner.online, np.arange(10, 20)
    layers, q, logits = activity(training.learner, training.replay, steps)
    states = training.replay.states(steps).float()
    network.set_noise(None)
    with torch.no_grad():
        if agent == "sac-discrete":
            want = torch.minimum(*(critic(states) for critic in network.critics))
        else:
            want = network.q_logits(network.q_features(network.encode(states)))
            want = want.squeeze(-1) if agent == "drq-eps" else want.softmax(-1) @ training.learner.atoms
    torch.testing.assert_close(q, want)
    assert layers["encoder"].shape == (10, 2) and layers["hidden"].shape == (10, 16)
    assert (layers["hidden"] >= 0).all() and (logits is None) == (agent in ("der", "drq-eps"))


@pytest.mark.parametrize(("agent", "encoders"), [("der", 1), ("sac-bbf", 1), ("sac-discrete", 3)])
def test_each_encoder_reads_the_states_once(agent, encoders):
    training = trained(agent)
    calls = []
    for name, module in training.learner.online.named_modules():
        if name.split(".")[-1] == "encoder":
            module.register_forward_hook(lambda *args, name=name: calls.append(name))
    activity(training.learner, training.replay, np.arange(10, 20))
    assert len(calls) == len(set(calls)) == encoders


# --- returns and values ---

HISTORY = (
    {"reward": 1.0},
    {"reward": 2.0, "terminated": True},
    {"reward": 4.0},
    {"reward": 1.0, "truncated": True},
    {"reward": 3.0, "life_lost": True},
    {"reward": 8.0},
    {"reward": 2.0, "terminated": True, "truncated": True},
    {"reward": 5.0},
)


def test_returns_are_known_where_an_end_came_and_not_where_it_was_cut_off_or_is_to_come():
    steps, returns = known_returns(make_replay(*HISTORY), gamma=0.5)
    assert steps.tolist() == [0, 1, 4, 5, 6]
    assert returns.tolist() == [1 + 0.5 * 2, 2.0, 3.0, 8 + 0.5 * 2, 2.0]


def test_returns_reach_back_only_so_far(monkeypatch):
    monkeypatch.setattr(diagnostics, "RECENT", 4)
    assert known_returns(make_replay(*HISTORY), gamma=0.5)[0].tolist() == [4, 5, 6]


def test_returns_of_overwritten_steps_are_gone():
    replay = make_replay(*HISTORY, capacity=5)
    steps, returns = known_returns(replay, gamma=0.5)
    assert replay.oldest == 3 and steps.tolist() == [4, 5, 6] and returns.tolist() == [3.0, 9.0, 2.0]


def test_values_against_returns_by_hand(monkeypatch):
    replay = make_replay({}, {}, {})  # actions 0, 1, 0
    q = torch.tensor([[1.0, 9.0], [9.0, 2.0], [3.0, 9.0]])
    monkeypatch.setattr(diagnostics, "activity", lambda *args: ({}, q, None))
    found = value_metrics(None, replay, np.arange(3), np.array([2.0, 2.0, 5.0]))
    assert (found["q_mean"], found["return_mean"], found["q_bias"]) == (2.0, 3.0, -1.0)
    assert found["q_error"] == pytest.approx(math.sqrt((1 + 0 + 4) / 3))
    assert found["q_correlation"] == pytest.approx(1 / math.sqrt(2 / 3 * 2))  # covariance 1, variances 2/3 and 2


def test_constant_values_correlate_with_nothing(monkeypatch):
    monkeypatch.setattr(diagnostics, "activity", lambda *args: ({}, torch.ones(2, 2), None))
    assert value_metrics(None, make_replay({}, {}), np.arange(2), np.array([1.0, 2.0]))["q_correlation"] == 0.0


# --- priorities ---


def test_priorities_by_hand():
    replay = make_replay({}, {}, {}, {})
    replay.set_priorities(np.arange(4), np.array([2.0, 1.0, 4.0, 1.0]))
    assert priority_metrics(replay) == pytest.approx(
        {
            "priority_min": 1.0,
            "priority_p10": 1.0,
            "priority_median": 1.5,
            "priority_p90": 2.0 + 0.7 * 2.0,
            "priority_max": 4.0,
            "priority_effective_share": 8.0**2 / (4 + 1 + 16 + 1) / 4,
        }
    )


def test_equal_priorities_amount_to_all_steps_and_uniform_replay_has_none():
    assert priority_metrics(make_replay({}, {}, {}))["priority_effective_share"] == pytest.approx(1.0)
    assert priority_metrics(make_replay({}, {}, prioritised=False)) == {}


# --- in a run ---


@pytest.mark.parametrize(
    ("agent", "names"),
    [
        ("der", ALWAYS | VALUES | PRIORITIES),
        ("drq-eps", ALWAYS | VALUES),
        ("sac-bbf", ALWAYS | VALUES | PRIORITIES | POLICY),
        ("sac-discrete", ALWAYS | VALUES | POLICY),
    ],
)
def test_each_agent_has_the_diagnostics_that_concern_it_and_they_repeat(agent, names):
    training = trained(agent)
    found = diagnose(training.learner, training.replay, seed=0, step=70)
    assert set(found) == names and all(math.isfinite(value) for value in found.values())
    assert diagnose(training.learner, training.replay, seed=0, step=70) == found


COMPARED = ("episodes", "metrics", "evaluations")


def contents(path, names=COMPARED):
    run = RunDirectory(path)
    return {name: run.record(name).read_bytes() for name in names} | {"policy": run.policy.read_bytes()}


@pytest.mark.parametrize("agent", ["der", "sac-bbf"])
def test_a_run_is_the_same_with_and_without_them(agent, tmp_path):
    without = run_quietly(small(agent), tmp_path / "without")
    measured = run_quietly(small(agent, diagnose_every=7), tmp_path / "with")
    assert contents(tmp_path / "without") == contents(tmp_path / "with")
    assert measured["returns"] == without["returns"]
    lines = list(read_lines(RunDirectory(tmp_path / "with").record("diagnostics")))
    assert [line["step"] for line in lines] == [70, 77, 84, 91, 98]  # since the first update
    assert list(read_lines(RunDirectory(tmp_path / "without").record("diagnostics"))) == []


def test_a_run_taken_up_has_the_same_diagnostics(tmp_path, monkeypatch):
    config = small("der", diagnose_every=5)
    run_quietly(config, tmp_path / "whole")
    update, calls = Learner.update, []

    def interrupted(self, *args, **kwargs):
        calls.append(1)
        if len(calls) == 20:
            os.kill(os.getpid(), signal.SIGINT)
        return update(self, *args, **kwargs)

    monkeypatch.setattr(Learner, "update", interrupted)
    assert not run_quietly(config, tmp_path / "halved")["finished"]
    assert run_quietly(config, tmp_path / "halved")["finished"]
    names = (*COMPARED, "diagnostics")
    assert contents(tmp_path / "halved", names) == contents(tmp_path / "whole", names)


def test_they_are_a_record_of_their_own_and_go_to_tensorboard():
    assert "diagnostics" in RECORDS
    line = {"step": 7, "q_bias": 0.5, "effective_rank": 3.0}
    assert scalars("diagnostics", line, None) == {"diagnostics/q_bias": 0.5, "diagnostics/effective_rank": 3.0}
