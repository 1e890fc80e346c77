"""SAC-Discrete's equations by hand, where its gradients go, and a whole update against an explicit loop."""

from __future__ import annotations

import math
from math import log

import pytest
import torch
from small_agents import ACTIONS, gradients, parameters, small_batch, small_learner

from sacbbf.learner import sac_discrete
from sacbbf.learner.losses import entropy

PI = [0.25, 0.75]
LOGITS = torch.log(torch.tensor([PI], dtype=torch.float64)) + 2.0  # a shift changes nothing
Q = torch.tensor([[[2.0, 6.0]], [[3.0, 4.0]]], dtype=torch.float64)  # (2, B, A); the smaller ones are 2 and 4
ALPHA = torch.tensor(0.5, dtype=torch.float64)


def random(seed, *shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# --- by hand ---


def test_soft_value_by_hand():
    want = 0.25 * (2.0 - 0.5 * log(0.25)) + 0.75 * (4.0 - 0.5 * log(0.75))  # 3.5 + 0.5 * H
    assert sac_discrete.soft_value(Q, LOGITS, ALPHA).tolist() == pytest.approx([want])


def test_the_smaller_q_counts_action_by_action():
    cold = torch.tensor(0.0, dtype=torch.float64)
    assert sac_discrete.soft_value(Q, LOGITS, cold).tolist() == pytest.approx([0.25 * 2 + 0.75 * 4])
    assert sac_discrete.soft_value(Q.flip(0), LOGITS, cold).tolist() == pytest.approx([0.25 * 2 + 0.75 * 4])


def test_twin_loss_by_hand():
    # At action 1: errors 6 - 3.5 and 4 - 3.5, each squared and halved.
    loss = sac_discrete.twin_loss(Q, torch.tensor([1]), torch.tensor([3.5], dtype=torch.float64))
    assert loss.tolist() == pytest.approx([0.5 * 2.5**2 + 0.5 * 0.5**2])


def test_policy_loss_by_hand():
    want = 0.25 * (0.5 * log(0.25) - 2.0) + 0.75 * (0.5 * log(0.75) - 4.0)
    assert sac_discrete.policy_loss(LOGITS, Q, ALPHA).tolist() == pytest.approx([want])


def test_temperature_loss_by_hand():
    spread = torch.tensor([0.5, 0.1])
    loss = sac_discrete.temperature_loss(torch.tensor(log(2.0)), spread, target_entropy=0.3)
    assert loss.tolist() == pytest.approx([2.0 * 0.2, 2.0 * -0.2])


# --- gradients ---


def test_policy_gradient_is_that_of_finite_differences():
    logits, q, alpha = random(0, 3, 4), random(1, 2, 3, 4), torch.tensor(0.3, dtype=torch.float64)
    moving = logits.clone().requires_grad_()
    (found,) = torch.autograd.grad(sac_discrete.policy_loss(moving, q, alpha).sum(), moving)
    for row in range(3):
        for action in range(4):
            step = torch.zeros_like(logits)
            step[row, action] = 1e-6
            up, down = (sac_discrete.policy_loss(logits + sign * step, q, alpha).sum() for sign in (1, -1))
            assert found[row, action].item() == pytest.approx(((up - down) / 2e-6).item(), abs=1e-8)


def test_policy_gradient_is_that_of_the_explicit_sum():
    logits, q, alpha = random(2, 2, 3).requires_grad_(), random(3, 2, 2, 3), torch.tensor(0.7, dtype=torch.float64)
    explicit = torch.zeros((), dtype=torch.float64)
    for row in range(2):
        total = logits[row].exp().sum()
        for action in range(3):
            pi = logits[row, action].exp() / total
            explicit = explicit + pi * (alpha * pi.log() - min(q[0, row, action], q[1, row, action]))
    found = torch.autograd.grad(sac_discrete.policy_loss(logits, q, alpha).sum(), logits)
    torch.testing.assert_close(found, torch.autograd.grad(explicit, logits))


def test_the_policy_loss_moves_neither_q_nor_the_temperature():
    logits, q, alpha = random(0, 2, 3).requires_grad_(), random(1, 2, 2, 3).requires_grad_(), ALPHA.clone()
    alpha.requires_grad_()
    loss = sac_discrete.policy_loss(logits, q, alpha).sum()
    moved = torch.autograd.grad(loss, (logits, q, alpha), allow_unused=True)
    assert moved[0].abs().sum() > 0 and moved[1] is None and moved[2] is None


def test_the_temperatures_loss_moves_the_temperature_alone():
    log_alpha, logits = torch.zeros((), requires_grad=True), random(0, 2, 3).requires_grad_()
    loss = sac_discrete.temperature_loss(log_alpha, entropy(logits), 0.5).sum()
    moved = torch.autograd.grad(loss, (log_alpha, logits), allow_unused=True)
    assert moved[0] is not None and moved[1] is None


# --- a whole update ---


def slow_losses(learner, batch):
    """TD, policy and temperature loss of each sample, one number at a time, with their graphs."""
    online, target, alpha = learner.online, learner.target, learner.online.log_alpha.exp()
    wanted = learner.config.loss.target_entropy * math.log(ACTIONS)
    rows = []
    for b in range(len(batch.return_n)):
        now, then = batch.states[0, b][None], batch.states[-1, b][None]
        with torch.no_grad():
            probs = torch.softmax(online.policy_head(online.policy_projection(online.encoder(then)).relu()), -1)[0]
            q_then = [critic(then)[0] for critic in target.critics]
            value = sum(p * (min(q[a] for q in q_then) - alpha * p.log()) for a, p in enumerate(probs))
            goal = batch.return_n[b] + (0.0 if batch.done[b] else batch.discount_n[b]) * value
        q_now = [critic(now)[0] for critic in online.critics]
        td = sum(0.5 * (q[batch.actions[0, b]] - goal) ** 2 for q in q_now)
        probs = torch.softmax(online.policy_head(online.policy_projection(online.encoder(now)).relu()), -1)[0]
        lower = [min(q[a].item() for q in q_now) for a in range(ACTIONS)]
        policy = sum(p * (alpha.item() * p.log() - lower[a]) for a, p in enumerate(probs))
        spread = -sum(p.item() * math.log(p.item()) for p in probs)
        rows.append((td, policy, alpha * (spread - wanted)))
    return rows


@pytest.fixture
def learner():
    """A learner some updates on, so that target and online network differ."""
    made = small_learner("sac-discrete", {"optimiser": {"learning_rate": 1e-2}})
    for seed in range(5):
        made.update(small_batch(made, seed=seed), beta=0.0)
    return made


def test_an_update_is_the_explicit_loop(learner):
    batch = small_batch(learner, seed=9)
    assert batch.done.any() and not batch.done.all()
    total, terms = learner.compute(batch, beta=0.0)
    rows = slow_losses(learner, batch)
    torch.testing.assert_close(terms.td, torch.stack([td for td, *_ in rows]).detach())
    torch.testing.assert_close(terms.policy, torch.stack([policy for _, policy, _ in rows]).detach())
    want = sum(weight * sum(row) for weight, row in zip(batch.weights, rows, strict=True)) / len(rows)
    torch.testing.assert_close(total, want)


@pytest.mark.parametrize(("part", "number"), [("critics.", 0), ("encoder.", 1), ("policy_", 1), ("log_alpha", 2)])
def test_each_part_learns_from_its_own_loss_alone(part, number, learner):
    batch = small_batch(learner, seed=9)
    found = gradients(learner, batch)
    own = {name: value for name, value in learner.online.named_parameters() if name.startswith(part)}
    rows = slow_losses(learner, batch)
    loss = sum(weight * row[number] for weight, row in zip(batch.weights, rows, strict=True)) / len(rows)
    for name, want in zip(own, torch.autograd.grad(loss, list(own.values())), strict=True):
        torch.testing.assert_close(found[name], want, rtol=1e-4, atol=1e-6)
    assert all(parameter.grad is None for parameter in learner.target.parameters())


@pytest.mark.parametrize(("share", "rises"), [(1.0, True), (0.0, False)])
def test_temperature_rises_below_its_entropy_and_falls_above(share, rises):
    learner = small_learner("sac-discrete", {"loss": {"target_entropy": share}})
    learner.update(small_batch(learner), beta=0.0)  # no policy is exactly uniform, none exactly certain
    assert (learner.online.log_alpha.item() > 0.0) == rises
    assert learner.online.log_alpha.item() != 0.0


def test_temperature_stays_positive():
    learner = small_learner("sac-discrete", {"loss": {"target_entropy": 0.0}, "optimiser": {"learning_rate": 0.1}})
    alphas = [learner.update(small_batch(learner), beta=0.0).terms.temperature.item() for _ in range(40)]
    assert alphas[0] == 1.0 and alphas[-1] < 0.5 and min(alphas) > 0.0


def test_the_entropy_settles_at_its_target():
    learner = small_learner("sac-discrete", {"loss": {"target_entropy": 0.6}, "optimiser": {"learning_rate": 1e-2}})
    batch = small_batch(learner, done=torch.ones(6, dtype=torch.bool), weights=torch.ones(6))
    entropies = [learner.update(batch, beta=0.0).terms.entropy.mean().item() for _ in range(250)]
    assert sum(entropies[-50:]) / 50 == pytest.approx(0.6 * math.log(ACTIONS), abs=0.1)


def test_metrics_name_the_temperature():
    learner = small_learner("sac-discrete")
    metrics = learner.update(small_batch(learner), beta=0.0).metrics()
    assert metrics["policy/temperature"] == 1.0 and metrics["loss/spr"] == 0.0


def test_policy_and_both_critics_share_no_parameter():
    learner = small_learner("sac-discrete")
    online, before = learner.online, parameters(learner.online)
    parts = (online.encoder, online.policy_projection, online.policy_head, *online.critics)
    held = [parameter for part in parts for parameter in part.parameters()]
    assert len({id(parameter) for parameter in held}) == len(held) == len(before) - 1  # and the temperature
    first, second = (dict(critic.named_parameters()) for critic in learner.online.critics)
    assert not torch.equal(first["head.weight"], second["head.weight"])
    learner.update(small_batch(learner), beta=0.0)
    after = parameters(learner.online)
    assert all(not torch.equal(before[name], after[name]) for name in before if name.endswith("weight"))
