"""The policy's losses and its entropy against hand-computed numbers and closed forms, and properties in float64."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from properties import batches, check, random_tensor, seeds, sizes, tensor

from sacbbf.learner import losses

# --- gradient -----------------------------------------------------------------------------------------------


def policy_gradient(logits, q, action, variance_reduction):
    """Gradient (B, A) of the sampled surrogate with respect to the logits."""
    logits = logits.clone().requires_grad_()
    loss = losses.policy_gradient_sampled(logits, q, action, variance_reduction)
    return torch.autograd.grad(loss.sum(), logits)[0]


def gradients_of_all_actions(logits, q, variance_reduction):
    """Sampled gradients (A, B, A) of every action that could have been drawn."""
    batch, actions = logits.shape
    drawn = [torch.full((batch,), action) for action in range(actions)]
    return torch.stack([policy_gradient(logits, q, action, variance_reduction) for action in drawn])


def mean_and_variance(logits, q, variance_reduction):
    """Exact mean (B, A) and total variance (B,) of the sampled gradient."""
    gradients = gradients_of_all_actions(logits, q, variance_reduction)
    weights = torch.softmax(logits, dim=-1).T[:, :, None]  # (A, B, 1)
    average = (weights * gradients).sum(dim=0)
    return average, (weights * (gradients - average).square()).sum(dim=(0, 2))


def test_sampled_surrogate_hand_computed():
    logits, q, action = torch.log(tensor([0.25, 0.75])), tensor([2.0, 6.0]), torch.tensor([0])
    with_baseline = losses.policy_gradient_sampled(logits, q, action)  # baseline 0.5 + 4.5 = 5
    without = losses.policy_gradient_sampled(logits, q, action, variance_reduction=False)
    assert with_baseline.tolist() == pytest.approx([3.0 * math.log(0.25)])
    assert without.tolist() == pytest.approx([-2.0 * math.log(0.25)])


@pytest.mark.parametrize("variance_reduction", [True, False])
@check
@given(seeds, batches, sizes)
def test_sampled_gradient_has_its_closed_form(variance_reduction, seed, batch, actions):
    logits, q = random_tensor(seed, batch, actions), 5.0 * random_tensor(seed + 1, batch, actions)
    action = torch.from_numpy(np.random.default_rng(seed).integers(actions, size=batch))
    policy = torch.softmax(logits, dim=-1)
    advantage = q[range(batch), action]
    if variance_reduction:
        advantage = advantage - (policy * q).sum(dim=-1)
    expected = -advantage[:, None] * (torch.eye(actions, dtype=torch.float64)[action] - policy)
    torch.testing.assert_close(policy_gradient(logits, q, action, variance_reduction), expected)


@pytest.mark.parametrize(
    "surrogate",
    [
        lambda logits, q: losses.policy_gradient_sampled(logits, q, torch.tensor([0, 2])),
        lambda logits, q: losses.policy_gradient_sampled(logits, q, torch.tensor([0, 2]), False),
        losses.policy_gradient_expected,
    ],
)
def test_policy_loss_has_no_gradient_into_q(surrogate):
    logits, q = random_tensor(0, 2, 3).requires_grad_(), random_tensor(1, 2, 3).requires_grad_()
    into_logits, into_q = torch.autograd.grad(surrogate(logits, q).sum(), (logits, q), allow_unused=True)
    assert into_q is None
    assert (into_logits.abs() > 0.0).all()


def test_expected_surrogate_hand_computed():
    loss = losses.policy_gradient_expected(torch.log(tensor([0.25, 0.75])), tensor([2.0, 6.0]))
    assert loss.tolist() == pytest.approx([-5.0])


@pytest.mark.parametrize("variance_reduction", [True, False])
@check
@given(seeds, batches, sizes)
def test_expected_gradient_is_the_average_sampled_gradient(variance_reduction, seed, batch, actions):
    logits, q = random_tensor(seed, batch, actions), 5.0 * random_tensor(seed + 1, batch, actions)
    average, _ = mean_and_variance(logits, q, variance_reduction)
    logits.requires_grad_()
    (exact,) = torch.autograd.grad(losses.policy_gradient_expected(logits, q).sum(), logits)
    torch.testing.assert_close(exact, average)


@pytest.mark.parametrize("offset", [10.0, 100.0, -100.0])
def test_baseline_lowers_the_variance_when_q_has_a_common_offset(offset):
    logits, q = random_tensor(0, 200, 6), offset + random_tensor(1, 200, 6)
    mean_plain, plain = mean_and_variance(logits, q, variance_reduction=False)
    mean_reduced, reduced = mean_and_variance(logits, q, variance_reduction=True)
    torch.testing.assert_close(mean_reduced, mean_plain, rtol=1e-9, atol=1e-9)
    ratio = plain / reduced
    assert (reduced < plain).all(), (
        f"offset {offset}: variance {plain.mean():.3g} without, {reduced.mean():.3g} with the baseline; "
        f"ratio without/with from {ratio.min():.3g} to {ratio.max():.3g}, median {ratio.median():.3g}"
    )


def test_baseline_makes_the_gradient_blind_to_a_common_offset():
    logits, q, action = random_tensor(0, 8, 4), random_tensor(1, 8, 4), torch.arange(8) % 4
    near, far = (policy_gradient(logits, q + offset, action, True) for offset in (0.0, 1000.0))
    torch.testing.assert_close(far, near, rtol=1e-9, atol=1e-9)


# --- entropy ------------------------------------------------------------------------------------------------


def test_entropy_hand_computed():
    logits = torch.log(tensor([0.5, 0.25, 0.25], [0.98, 0.01, 0.01])) - 4.0
    expected = [1.5 * math.log(2), -0.98 * math.log(0.98) - 0.02 * math.log(0.01)]
    assert losses.entropy(logits).tolist() == pytest.approx(expected)


@check
@given(seeds, batches, sizes)
def test_entropy_is_largest_for_the_uniform_policy(seed, batch, actions):
    limit = math.log(actions)
    entropy = losses.entropy(random_tensor(seed, batch, actions))
    assert ((entropy > 0.0) & (entropy < limit)).all()
    uniform = losses.entropy(torch.full((batch, actions), 2.5, dtype=torch.float64))
    assert uniform.tolist() == pytest.approx([limit] * batch)


def test_entropy_of_a_nearly_certain_policy_is_zero_and_has_a_finite_gradient():
    logits = torch.tensor([[200.0, 0.0, -200.0]], requires_grad=True)
    entropy = losses.entropy(logits)
    entropy.sum().backward()
    assert entropy.item() == pytest.approx(0.0, abs=1e-6)
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("actions", [2, 6])
def test_descending_minus_the_entropy_ends_at_the_uniform_policy(actions):
    logits = random_tensor(0, 20, actions)
    before = losses.entropy(logits)
    for _ in range(300):
        logits.requires_grad_()
        (gradient,) = torch.autograd.grad(-losses.entropy(logits).sum(), logits)
        logits = (logits - gradient).detach()
        after = losses.entropy(logits)
        assert (after >= before - 1e-12).all()
        before = after
    uniform = torch.full((20, actions), 1.0 / actions, dtype=torch.float64)
    torch.testing.assert_close(torch.softmax(logits, dim=-1), uniform, rtol=0.0, atol=1e-6)
