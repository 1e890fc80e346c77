"""The paper's ablations by their settings: each changes what it says in an update, and that alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_agents import ACTIONS, BATCH, OBS, gradients, parameters, small_batch, small_learner

from sacbbf.learner.noise import Noise, NoNoise
from sacbbf.replay import Replay

CPU = torch.device("cpu")


def quiet_learner(changes):
    """A learner whose draws are the most likely actions."""
    return small_learner("sac-bbf", changes, noise=NoNoise(CPU))


# --- the policy's gradient ---


def test_without_variance_reduction_the_gradient_differs_by_the_baseline():
    with_it, without = (quiet_learner({"loss": {"variance_reduction": reduce}}) for reduce in (True, False))
    batch = small_batch(with_it)
    first, second = gradients(with_it, batch), gradients(without, batch)
    _, terms = with_it.compute(batch, beta=0.0)
    policy = torch.softmax(terms.policy_logits, -1)
    baseline = (policy * terms.q_values).sum(-1)  # what the paper subtracts from Q
    score = torch.eye(ACTIONS)[terms.policy_action] - policy  # gradient of log pi(a) by the logits
    want = (batch.weights[:, None] * baseline[:, None] * score).mean(0)
    torch.testing.assert_close(first["policy_head.bias"] - second["policy_head.bias"], want, atol=1e-6, rtol=1e-4)
    assert want.abs().sum() > 0
    assert torch.equal(first["q_advantage.weight"], second["q_advantage.weight"])


def test_the_expected_gradient_is_minus_the_policys_mean_q():
    learner = quiet_learner({"loss": {"policy_gradient": "expected"}})
    _, terms = learner.compute(small_batch(learner), beta=0.0)
    torch.testing.assert_close(terms.policy, -(torch.softmax(terms.policy_logits, -1) * terms.q_values).sum(-1))
    assert terms.policy_action is None


@pytest.mark.parametrize(
    ("gradient", "backup", "draws"),
    [("sampled", "sampled", 2), ("expected", "sampled", 1), ("sampled", "expected", 1), ("expected", "expected", 0)],
)
def test_what_is_expected_draws_nothing(gradient, backup, draws):
    drawn = []

    class Counting(Noise):
        def gumbel(self, shape):
            drawn.append(tuple(shape))
            return super().gumbel(shape)

    noise = Counting(torch.Generator().manual_seed(0))
    before = noise.generator.get_state()
    learner = small_learner("sac-bbf", {"loss": {"policy_gradient": gradient, "backup": backup}}, noise=noise)
    learner.update(small_batch(learner), beta=0.01)
    assert drawn == [(BATCH, ACTIONS)] * draws
    assert torch.equal(noise.generator.get_state(), before) == (draws == 0)


# --- schedules ---


def test_equal_ends_keep_beta_constant():
    annealed, constant = (small_learner("sac-bbf", {"schedule": {"beta_end": end}}) for end in (0.0, 0.01))
    steps = (0, 30_000, 80_000, 99_999)
    assert [constant.temperature.beta(step) for step in steps] == [0.01] * 4
    assert [annealed.temperature.beta(step) for step in steps] == pytest.approx([0.01, 0.00625, 0.0, 0.0])


def test_beta_weighs_the_entropy_in_the_loss():
    learner = quiet_learner({})
    (_, cold), (_, warm) = (learner.compute(small_batch(learner), beta) for beta in (0.0, 0.5))
    torch.testing.assert_close(cold.policy - warm.policy, 0.5 * cold.entropy)


def test_without_annealing_n_and_gamma_stay():
    learner = small_learner("sac-bbf", {"schedule": {"n_start": 3, "gamma_start": 0.997, "cycle": 4}})
    seen = set()
    for _ in range(6):
        seen.add((learner.n, round(learner.gamma, 12)))
        learner.update(small_batch(learner), beta=0.0)
    assert seen == {(3, 0.997)}


def test_without_resets_none_is_due():
    assert small_learner("sac-bbf", {"schedule": {"reset_every": 0}}).reset_steps == frozenset()
    assert small_learner("sac-bbf").reset_steps == {20_000, 40_000, 60_000}


@pytest.mark.parametrize("ratio", [1, 4, 16])
def test_the_replay_ratio_is_the_number_of_updates_per_step(ratio):
    changes = {"schedule": {"replay_ratio": ratio, "n_start": 2, "n_end": 2}, "loss": {"spr_weight": 0.0}}
    learner = small_learner("sac-bbf", changes)
    replay = Replay(capacity=100, frame_shape=OBS, frame_dtype=np.float32, stack=1, k=learner.spr_steps)
    for step in range(40):
        replay.add(np.full(OBS, step, np.float32), step % ACTIONS, 0.0)
    learner.learn(replay, 0, np.random.default_rng(0))
    assert learner.updates == ratio


# --- networks and optimiser ---


def test_without_self_prediction_nothing_of_it_is_left():
    with_it, without = small_learner("sac-bbf"), small_learner("sac-bbf", {"loss": {"spr_weight": 0.0}})
    gone = {name.split(".")[0] for name in parameters(with_it.online).keys() - parameters(without.online).keys()}
    assert gone == {"transition", "q_predictor", "policy_predictor"}
    update = without.update(small_batch(without), beta=0.01)
    assert without.spr_steps == 0 and not update.terms.spr.any() and update.terms.spr_prediction is None
    expected = (update.terms.weights * (update.terms.td + update.terms.policy)).mean()
    torch.testing.assert_close(update.terms.total, expected)


def test_without_weight_decay_matrices_do_not_shrink():
    rate, decay = 1e-2, 0.1
    with_it, without = (
        quiet_learner({"optimiser": {"learning_rate": rate, "weight_decay": value}}) for value in (decay, 0.0)
    )
    before = parameters(with_it.online)
    for learner in (with_it, without):
        learner.update(small_batch(learner), beta=0.01)
    decayed, kept = parameters(with_it.online), parameters(without.online)
    for name, value in before.items():
        shrunk = rate * decay * value if value.dim() > 1 else torch.zeros_like(value)
        torch.testing.assert_close(kept[name] - decayed[name], shrunk, atol=1e-7, rtol=1e-4)


@pytest.mark.parametrize("network", ["online", "target"])
def test_the_network_that_acts_is_the_one_named(network):
    learner = small_learner("sac-bbf", {"acting": {"network": network}})
    assert learner.actor is getattr(learner, network)
