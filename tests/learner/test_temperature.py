"""Beta: annealed as the paper has it, or learned so that the policy's entropy follows a schedule."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch
from small_agents import small_batch, small_learner

from sacbbf.agents.config import ScheduleConfig
from sacbbf.learner.schedules import wanted_entropy
from sacbbf.learner.state import read_learner, write_learner
from sacbbf.learner.temperature import HIGHEST, LOWEST, Temperature

TARGET = replace(ScheduleConfig(), temperature="target", beta_start=0.1, entropy_start=0.6, entropy_end=0.2)


def make(**changes) -> Temperature:
    return Temperature(replace(TARGET, **changes), 1_000, 4, torch.device("cpu"))


@pytest.mark.parametrize(("step", "share"), [(0, 0.6), (500, 0.4), (1_000, 0.2), (2_000, 0.2)])
def test_the_entropy_wanted_is_linear_over_the_run(step, share):
    assert wanted_entropy(TARGET, step, 1_000) == pytest.approx(share)


def test_log_beta_moves_by_the_rate_times_what_is_lacking():
    temperature = make(entropy_rate=0.5)
    assert float(temperature.beta(0)) == pytest.approx(0.1)
    temperature.follow(torch.tensor([0.2, 0.4]) * math.log(4), 0)  # mean 0.3 of log 4, wanted 0.6
    assert float(temperature.log_beta) == pytest.approx(math.log(0.1) + 0.5 * 0.3)
    temperature.follow(torch.full((2,), 0.9 * math.log(4)), 500)  # wanted 0.4
    assert float(temperature.log_beta) == pytest.approx(math.log(0.1) + 0.5 * 0.3 - 0.5 * 0.5)


@pytest.mark.parametrize(("entropy", "bound"), [(0.0, HIGHEST), (math.log(4), LOWEST)])
def test_log_beta_stays_within_bounds(entropy, bound):
    temperature = make(entropy_rate=1.0)
    for _ in range(200):
        temperature.follow(torch.full((2,), entropy), 0)
    assert float(temperature.log_beta) == pytest.approx(bound)


def test_an_annealed_beta_takes_no_notice_of_the_entropy():
    temperature = make(temperature="annealed", beta_end=0.0, beta_final_updates=0)
    temperature.follow(torch.zeros(2), 0)
    assert temperature.beta(500) == pytest.approx(0.05)


def test_a_single_action_has_no_entropy_to_follow():
    temperature = Temperature(replace(TARGET, beta_end=0.0, beta_final_updates=0), 1_000, 1, torch.device("cpu"))
    temperature.follow(torch.zeros(2), 0)
    assert temperature.beta(500) == pytest.approx(0.05)


@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_a_softmax_policy_ends_at_the_wanted_entropy_whatever_the_scale_of_q(scale):
    """The policy that maximises pi Q + beta H is softmax(Q / beta): following its entropy finds that beta."""
    q = scale * torch.tensor([[0.0, 1.0, 2.0, 4.0], [3.0, 0.0, 0.0, 1.0]])
    temperature = make(entropy_rate=0.1, entropy_end=0.6)
    for _ in range(2_000):
        policy = torch.distributions.Categorical(logits=q / temperature.beta(0))
        temperature.follow(policy.entropy(), 0)
    assert float(policy.entropy().mean()) == pytest.approx(0.6 * math.log(4), rel=1e-3)


def test_a_learned_beta_is_part_of_a_learners_state():
    changes = {"schedule": {"temperature": "target", "entropy_rate": 0.5}}
    learner, other = small_learner("sac-bbf", changes), small_learner("sac-bbf", changes, seed=1)
    update = learner.update(small_batch(learner), learner.temperature.beta(0))
    before = float(learner.temperature.log_beta)
    learner.temperature.follow(update.terms.entropy, 0)
    assert float(learner.temperature.log_beta) != before
    assert update.metrics()["schedule/beta"] == pytest.approx(math.exp(before))
    write_learner(other, *copy.deepcopy(read_learner(learner)))
    assert torch.equal(other.temperature.log_beta, learner.temperature.log_beta)
