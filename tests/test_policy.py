"""Policies: from states to actions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sacbbf.agents.config import NetworkConfig
from sacbbf.networks import build_network
from sacbbf.policy import FixedPolicy, NetworkPolicy, choose, uniform_policy
from sacbbf.seeding import numpy_generator

CPU = torch.device("cpu")


@pytest.fixture
def network():
    config = NetworkConfig(encoder="grid", width_scale=0.5, hidden_dim=16, num_atoms=5)
    generator = torch.Generator().manual_seed(0)
    return build_network(config, (2, 5, 5), 3, self_prediction=False, device=CPU, generator=generator)


@pytest.fixture
def states():
    return np.random.default_rng(0).random((7, 2, 5, 5)) < 0.5


def test_a_state_has_the_same_logits_whatever_stands_beside_it(network, states):
    policy = NetworkPolicy(network, CPU, rows=4)
    together = policy.logits(states)
    alone = np.concatenate([policy.logits(state[None]) for state in states])
    assert together.shape == (7, 3) and together.dtype == np.float32
    np.testing.assert_array_equal(together, alone)


def test_logits_are_those_of_the_policy_branch(network, states):
    with torch.no_grad():
        latent = network.encode(torch.from_numpy(states).float())
        want = network.policy_logits(network.policy_features(latent)).numpy()
    np.testing.assert_allclose(NetworkPolicy(network, CPU, rows=3).logits(states), want, atol=1e-6)


def test_the_critic_puts_all_on_its_best_action(network, states):
    with torch.no_grad():
        logits = network.q_logits(network.q_features(network.encode(torch.from_numpy(states).float())))
        best = (logits.softmax(-1) @ torch.linspace(-1, 1, 5)).argmax(1)
    rows = NetworkPolicy(network, CPU, rows=3, by_critic=True).logits(states)
    assert (rows.argmax(1) == best.numpy()).all() and (np.exp(rows).sum(1) == 1).all()
    policy = NetworkPolicy(network, CPU, rows=3).logits(states)
    assert (policy.argmax(1) != best.numpy()).any()  # or the test would show nothing


def test_of_two_critics_the_smaller_counts(states):
    config = NetworkConfig(encoder="grid", width_scale=0.5, hidden_dim=16, num_atoms=1, twin_q=True)
    generator = torch.Generator().manual_seed(0)
    network = build_network(config, (2, 5, 5), 3, self_prediction=False, device=CPU, generator=generator)
    with torch.no_grad():
        first, second = network.q_values(torch.from_numpy(states).float())
    rows = NetworkPolicy(network, CPU, rows=7, by_critic=True).logits(states)
    assert (rows.argmax(1) == torch.minimum(first, second).argmax(1).numpy()).all()


def test_fixed_probabilities_are_drawn_as_often_as_they_say():
    policy, generator = FixedPolicy([0.0, 0.25, 0.75]), numpy_generator(0, "draws")
    rows = policy.logits(np.zeros((4_000, 1)))
    counts = np.bincount([choose(row, generator) for row in rows], minlength=3)
    assert counts[0] == 0  # never, not just seldom
    assert counts[2] / 4_000 == pytest.approx(0.75, abs=0.03)  # more than 4 standard errors


def test_chance_is_uniform():
    np.testing.assert_allclose(np.exp(uniform_policy(4).logits(np.zeros((2, 1)))), np.full((2, 4), 0.25))


def test_greedy_takes_the_most_likely_action_and_draws_nothing():
    generator = numpy_generator(0, "draws")
    before = generator.bit_generator.state
    assert choose(np.array([0.0, 0.2, 0.1], np.float32), generator, greedy=True) == 1
    assert generator.bit_generator.state == before


def test_the_same_generator_draws_the_same_actions():
    rows = uniform_policy(5).logits(np.zeros((50, 1)))
    first, second = ([choose(row, generator) for row in rows] for generator in (numpy_generator(3), numpy_generator(3)))
    assert first == second and len(set(first)) == 5
