"""Policies: from states to actions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sacbbf.agents.config import NetworkConfig
from sacbbf.errors import UsageError
from sacbbf.networks import build_network
from sacbbf.policy import FixedPolicy, NetworkPolicy, any_action, choose, masks_for, rate, uniform_policy
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


# --- masks of legal actions ---

MASKS = np.array([[True, False, True, False], [False, True, False, False], [True, True, True, True]])


def network_of(**changes):
    config = NetworkConfig(encoder="mlp", width_scale=0.25, hidden_dim=16, num_atoms=5, **changes)
    generator = torch.Generator().manual_seed(0)
    return build_network(config, (3,), 4, self_prediction=False, device=CPU, generator=generator)


@pytest.mark.parametrize(("by_critic", "policy"), [(False, True), (True, True), (False, False)])
def test_illegal_actions_have_no_probability_and_the_rest_is_as_without_them(policy, by_critic):
    network = network_of(policy=policy)
    states = np.random.default_rng(0).standard_normal((3, 3)).astype(np.float32)
    free = NetworkPolicy(network, CPU, rows=2, by_critic=by_critic).logits(states)
    rows = NetworkPolicy(network, CPU, rows=2, by_critic=by_critic).logits(states, MASKS)
    assert (rows[~MASKS] == -np.inf).all()
    np.testing.assert_array_equal(rows[2], free[2])
    if policy and not by_critic:
        np.testing.assert_array_equal(rows[MASKS], free[MASKS])
    else:
        with torch.no_grad():
            q = rate(network, torch.from_numpy(states)).numpy()
        assert rows.argmax(1).tolist() == np.where(MASKS, q, -np.inf).argmax(1).tolist()
        assert (rows == 0.0).sum(1).tolist() == [1, 1, 1]


def test_a_fixed_mix_keeps_to_what_is_legal():
    mix = FixedPolicy([0.5, 0.25, 0.25, 0.0])
    likely = np.exp(mix.logits(np.zeros((3, 1)), MASKS))
    shares = likely / likely.sum(1, keepdims=True)
    np.testing.assert_allclose(shares, [[2 / 3, 0, 1 / 3, 0], [0, 1, 0, 0], [0.5, 0.25, 0.25, 0]])
    nothing_left = FixedPolicy([0.0, 1.0, 0.0, 0.0]).logits(np.zeros((1, 1)), MASKS[:1])
    assert nothing_left.tolist() == [[0.0, -np.inf, 0.0, -np.inf]]
    np.testing.assert_allclose(np.exp(uniform_policy(4).logits(np.zeros((3, 1)), MASKS)), MASKS / 4)


@pytest.mark.parametrize(("greedy", "epsilon"), [(False, 0.0), (True, 0.0), (False, 1.0), (True, 0.5)])
def test_no_illegal_action_is_chosen(greedy, epsilon):
    generator = np.random.default_rng(0)
    logits = np.where(MASKS[0], 0.0, -np.inf).astype(np.float32)
    chosen = {choose(logits, generator, greedy, epsilon, MASKS[0]) for _ in range(200)}
    assert chosen == ({0} if greedy and not epsilon else {0, 2})


def test_any_legal_action_is_as_likely_as_the_others():
    generator = np.random.default_rng(0)
    counts = np.bincount([any_action(4, generator, MASKS[0]) for _ in range(4_000)], minlength=4)
    assert counts[1] == counts[3] == 0 and abs(counts[0] - 2_000) < 150
    ours, theirs = np.random.default_rng(1), np.random.default_rng(1)
    assert [any_action(4, ours) for _ in range(50)] == [int(theirs.integers(4)) for _ in range(50)]


def test_masks_that_a_caller_gives():
    assert masks_for(1, 4, None, wanted=False) is None
    assert masks_for(1, 4, [1, 0, 1, 0], wanted=True).tolist() == [[True, False, True, False]]
    assert masks_for(3, 4, MASKS, wanted=False).tolist() == MASKS.tolist()
    with pytest.raises(UsageError, match="action_masks is not given"):
        masks_for(3, 4, None, wanted=True)
    with pytest.raises(UsageError, match=r"action_masks has shape \(4,\): must be \(3, 4\)"):
        masks_for(3, 4, MASKS[0], wanted=True)
