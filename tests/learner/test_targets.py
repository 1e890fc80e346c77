"""What an update aims at: noise of its own for each pass, double Q-learning, scalar Q, and when the target moves."""

from __future__ import annotations

import pytest
import torch
from encoder_calls import encoder_calls
from small_agents import ACTIONS, gradients, parameters, small_batch, small_learner

from sacbbf.learner import losses
from sacbbf.learner.learner import Learner
from sacbbf.learner.noise import Noise
from sacbbf.networks import AgentNetwork
from sacbbf.networks.noisy import NoisyLinear

# --- noisy layers in an update ---


def noise_of(network) -> list[torch.Tensor]:
    """The noise in effect, layer by layer."""
    layers = [module for module in network.modules() if isinstance(module, NoisyLinear)]
    return [part for layer in layers for part in layer.noise]


@pytest.mark.parametrize("agent", ["der", "spr"])
def test_each_pass_of_an_update_has_noise_of_its_own(agent, monkeypatch):
    seen = []
    encode = AgentNetwork.encode

    def noting(self, obs):
        seen.append((self, torch.cat(noise_of(self))))
        return encode(self, obs)

    monkeypatch.setattr(AgentNetwork, "encode", noting)
    learner = small_learner(agent)
    learner.update(small_batch(learner), beta=0.0)
    assert [network for network, _ in seen] == [learner.target, learner.online, learner.online]
    first, second, third = (noise for _, noise in seen)
    assert not (first == second).any() and not (second == third).any() and not (first == third).any()


def test_an_update_draws_one_factor_per_side_of_each_noisy_layer_and_pass():
    shapes = []

    class Counting(Noise):
        def normal(self, shape):
            shapes.append(tuple(shape))
            return super().normal(shape)

    learner = small_learner("der", noise=Counting(torch.Generator().manual_seed(0)))
    learner.update(small_batch(learner), beta=0.0)
    per_pass = [(16,), (16,), (16,), (11,), (16,), (3 * 11,)]  # projection, value, advantage: inputs, outputs
    assert shapes == 3 * per_pass


def test_noise_reaches_the_sigmas_gradients_and_the_seed_decides_it():
    steps = []
    for seed in (1, 1, 2):
        learner = small_learner("der", seed=seed)
        found = gradients(learner, small_batch(learner))
        assert all(found[f"{layer}.weight_sigma"].abs().sum() > 0 for layer in ("q_projection", "q_advantage"))
        for _ in range(3):
            learner.update(small_batch(learner), beta=0.0)
        steps.append(parameters(learner.online))
    assert all(torch.equal(steps[0][name], steps[1][name]) for name in steps[0])
    assert not torch.equal(steps[0]["q_advantage.weight_sigma"], steps[2]["q_advantage.weight_sigma"])


def test_agents_without_noisy_layers_draw_none():
    class Silent(Noise):
        def normal(self, shape):
            raise AssertionError("nothing is noisy")

    learner = small_learner("sr-spr", noise=Silent(torch.Generator().manual_seed(0)))
    learner.update(small_batch(learner), beta=0.0)


# --- double Q-learning and the scalar Q, on hand-made Q values ---


def with_q(monkeypatch, online_n, target_n, online_t) -> None:
    """Let the networks say these Q (B, A, N): online and target at s_{t+n}, online at s_t."""

    def q_logits(self, features):
        if not self.training:
            return torch.tensor(target_n)
        return torch.tensor(online_t if torch.is_grad_enabled() else online_n)

    monkeypatch.setattr(AgentNetwork, "q_logits", q_logits)


SCALAR = {
    "online_n": [[[0.0], [5.0], [1.0]], [[4.0], [0.0], [1.0]]],  # best actions 1 and 0
    "target_n": [[[9.0], [2.0], [3.0]], [[1.0], [8.0], [6.0]]],  # best actions 0 and 1
    "online_t": [[[1.5], [0.0], [0.0]], [[0.0], [0.0], [5.0]]],
}


def hand_batch(learner: Learner, **fields):
    hand = {
        "actions": torch.tensor([[0, 2]]),
        "return_n": torch.tensor([1.0, 1.0]),
        "discount_n": torch.tensor([0.5, 0.5]),
        "done": torch.tensor([False, False]),
        "weights": torch.tensor([1.0, 0.5]),
    }
    return small_batch(learner, size=2, **{**hand, **fields})


@pytest.mark.parametrize(
    ("double", "done", "targets"),
    [
        (True, [False, False], [1 + 0.5 * 2, 1 + 0.5 * 1]),  # the online network's choice, the target's rating
        (False, [False, False], [1 + 0.5 * 9, 1 + 0.5 * 8]),  # the target's choice and rating
        (True, [True, False], [1.0, 1.5]),
    ],
)
def test_scalar_targets_by_hand(double, done, targets, monkeypatch):
    with_q(monkeypatch, **SCALAR)
    learner = small_learner("drq-eps", {"loss": {"double": double}})
    _, terms = learner.compute(hand_batch(learner, done=torch.tensor(done)), beta=0.0)
    assert terms.target.tolist() == targets


def test_scalar_loss_by_hand(monkeypatch):
    with_q(monkeypatch, **SCALAR)
    learner = small_learner("drq-eps")
    total, terms = learner.compute(hand_batch(learner), beta=0.0)
    # Targets 2 and 1.5; Q of the actions taken 1.5 and 5: 0.5^2 / 2, and 3.5 - 1/2.
    assert terms.td.tolist() == [0.125, 3.0]
    assert total.item() == (1.0 * 0.125 + 0.5 * 3.0) / 2
    assert terms.q_values.tolist() == [[1.5, 0.0, 0.0], [0.0, 0.0, 5.0]]


@pytest.mark.parametrize(("double", "action"), [(True, 1), (False, 0)])
def test_a_distribution_is_that_of_the_action_chosen(double, action, monkeypatch):
    low, middle, high = [30.0, 0.0, 0.0], [0.0, 30.0, 0.0], [0.0, 0.0, 30.0]  # nearly all mass at -10, 0, 10
    with_q(monkeypatch, [[low, high, middle]], [[high, low, middle]], [[middle, middle, middle]])
    learner = small_learner("der", {"network": {"num_atoms": 3}, "loss": {"double": double}})
    batch = small_batch(
        learner, size=1, return_n=torch.zeros(1), discount_n=torch.ones(1), done=torch.zeros(1, dtype=torch.bool)
    )
    _, terms = learner.compute(batch, beta=0.0)
    want = {1: [1.0, 0.0, 0.0], 0: [0.0, 0.0, 1.0]}[action]
    assert terms.target[0].tolist() == pytest.approx(want, abs=1e-6)


def test_without_double_the_online_network_is_not_asked_about_the_next_state(monkeypatch):
    calls = encoder_calls(monkeypatch)
    learner = small_learner("otrainbow")
    update = learner.update(small_batch(learner), beta=0.0)
    assert [encoder for encoder, _ in calls] == [learner.target.encoder, learner.online.encoder]
    assert learner.online.q_value is None and update.terms.q_logits.shape[1:] == (ACTIONS, 11)


@pytest.mark.parametrize("agent", ["der", "drq-eps"])
@pytest.mark.parametrize("precision", ["bf16", "float32"])
def test_only_the_networks_passes_are_in_reduced_precision(agent, precision, monkeypatch):
    seen = []

    def noting(module, name):
        real = getattr(module, name)

        def wrapper(*args):
            seen.append((name, torch.is_autocast_enabled("cpu")))
            with torch.autocast("cpu", enabled=False):  # whatever was found: not every CPU can compute it
                return real(*args)

        monkeypatch.setattr(module, name, wrapper)

    passes = ("encode", "roll_out", "project", "q_features", "q_logits")
    arithmetic = ("expected_value", "backup_greedy", "select")
    arithmetic += ("target_distribution", "td_loss") if agent == "der" else ("target_value", "td_loss")
    for name in passes:
        noting(AgentNetwork, name)
    for name in arithmetic:
        noting(losses, name)
    learner = small_learner(agent, {"compute": {"precision": precision}})
    learner.update(small_batch(learner), beta=0.0)
    expected = {(name, precision == "bf16") for name in passes} | {(name, False) for name in arithmetic}
    assert set(seen) == expected


# --- when the target moves ---


def test_hard_copies_come_every_so_many_updates_and_nothing_moves_between():
    learner = small_learner("der", {"optimiser": {"target_every": 3, "learning_rate": 1e-2}})
    expected = parameters(learner.target)
    for update in range(1, 8):
        learner.update(small_batch(learner, seed=update), beta=0.0)
        online, target = parameters(learner.online), parameters(learner.target)
        if update % 3 == 0:
            expected = online
        assert all(torch.equal(target[name], expected[name]) for name in target), update
        assert update % 3 == 0 or not torch.equal(target["q_advantage.weight"], online["q_advantage.weight"])


def test_a_copy_each_update_makes_the_target_the_online_network():
    learner = small_learner("drq-eps")
    for update in range(2):
        learner.update(small_batch(learner, seed=update), beta=0.0)
        online, target = parameters(learner.online), parameters(learner.target)
        assert all(torch.equal(target[name], online[name]) for name in target)


@pytest.mark.parametrize("agent", ["bbf", "sac-discrete"])
def test_a_moving_average_moves_at_every_update(agent):
    learner = small_learner(agent, {"optimiser": {"learning_rate": 1e-2}})  # so that moves stand out from rounding
    for update in range(3):
        before = parameters(learner.target)
        learner.update(small_batch(learner, seed=update), beta=0.0)
        online, target = parameters(learner.online), parameters(learner.target)
        for name in before:
            want = 0.995 * before[name] + 0.005 * online[name]
            torch.testing.assert_close(target[name], want, atol=1e-6, rtol=0)
            assert (target[name] - before[name]).abs().max() > 1e-5, name
