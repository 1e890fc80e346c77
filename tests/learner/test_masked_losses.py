"""Masked equations against the same equations on the legal actions alone, row by row: values and gradients."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from properties import batches, check, random_tensor, seeds, sizes

from sacbbf.learner import losses, sac_discrete

ATOMS = 5


def problem(seed, batch, actions):
    """Logits and Q (B, A), values (B, A, N), and a mask with at least one legal action a row."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(batch, actions, generator=generator) < 0.5
    mask[torch.arange(batch), torch.randint(actions, (batch,), generator=generator)] = True
    logits, q = 3.0 * random_tensor(seed, batch, actions), 5.0 * random_tensor(seed + 1, batch, actions)
    values = torch.softmax(random_tensor(seed + 2, batch, actions * ATOMS).unflatten(1, (actions, ATOMS)), -1)
    return logits, q, values, mask


def policy_losses(logits, q, action):
    """Each of the policy's losses, (B,)."""
    alpha = torch.tensor(7.0, dtype=logits.dtype)
    return {
        "sampled": losses.policy_gradient_sampled(logits, q, action),
        "without baseline": losses.policy_gradient_sampled(logits, q, action, variance_reduction=False),
        "expected": losses.policy_gradient_expected(logits, q),
        "entropy": losses.entropy(logits),
        "SAC-Discrete": sac_discrete.policy_loss(logits, torch.stack([q, q + 1.0]), alpha),
    }


@check
@given(seeds, batches, sizes)
def test_losses_and_gradients_are_those_of_the_legal_actions_alone(seed, batch, actions):
    logits, q, _, mask = problem(seed, batch, actions)
    action = mask.double().argmax(dim=1)  # the first legal one
    whole = logits.clone().requires_grad_()
    for name, loss in policy_losses(losses.mask_illegal(whole, mask), q, action).items():
        (gradient,) = torch.autograd.grad(loss.sum(), whole, retain_graph=True)
        assert (gradient[~mask] == 0).all(), name
        for row in range(batch):
            legal = mask[row]
            alone = logits[row : row + 1, legal].clone().requires_grad_()
            want = policy_losses(alone, q[row : row + 1, legal], torch.zeros(1, dtype=torch.int64))[name]
            (want_gradient,) = torch.autograd.grad(want.sum(), alone)
            torch.testing.assert_close(loss[row : row + 1], want, msg=name)
            torch.testing.assert_close(gradient[row, legal], want_gradient[0], msg=name)


@check
@given(seeds, batches, sizes)
def test_backups_are_those_of_the_legal_actions_alone(seed, batch, actions):
    logits, q, values, mask = problem(seed, batch, actions)
    expected = losses.backup_expected(values, losses.mask_illegal(logits, mask))
    greedy = losses.backup_greedy(values, losses.mask_illegal(q, mask))
    soft = sac_discrete.soft_value(torch.stack([q, -q]), losses.mask_illegal(logits, mask), torch.tensor(3.0))
    for row in range(batch):
        legal = mask[row]
        own, mine = values[row : row + 1, legal], logits[row : row + 1, legal]
        torch.testing.assert_close(expected[row : row + 1], losses.backup_expected(own, mine))
        torch.testing.assert_close(greedy[row : row + 1], losses.backup_greedy(own, q[row : row + 1, legal]))
        both = torch.stack([q, -q])[:, row : row + 1, legal]
        torch.testing.assert_close(soft[row : row + 1], sac_discrete.soft_value(both, mine, torch.tensor(3.0)))


def test_what_is_illegal_is_never_drawn_and_the_rest_as_often_as_it_should():
    mask = torch.tensor([[True, False, True]])
    logits = losses.mask_illegal(torch.tensor([[0.0, 50.0, math.log(3.0)]]), mask)
    draws = 40_000
    noise = -torch.empty(draws, 3).exponential_(generator=torch.Generator().manual_seed(0)).log()
    counts = torch.bincount(losses.draw_action(logits.expand(draws, 3), noise), minlength=3) / draws
    assert counts[1] == 0
    assert counts.tolist() == pytest.approx([0.25, 0.0, 0.75], abs=0.01)


def test_the_only_legal_action_has_no_entropy_and_no_gradient():
    logits = torch.tensor([[2.0, -1.0, 30.0]], requires_grad=True)
    masked = losses.mask_illegal(logits, torch.tensor([[False, True, False]]))
    assert losses.entropy(masked).item() == 0.0
    for loss in policy_losses(masked, torch.tensor([[9.0, 1.0, -9.0]]), torch.tensor([1])).values():
        (gradient,) = torch.autograd.grad(loss.sum(), logits, retain_graph=True)
        assert gradient.tolist() == [[0.0, 0.0, 0.0]]


def test_minus_infinity_would_not_do():
    """Why illegal logits are finite: 0 times minus infinity is no number."""
    logits = torch.zeros(1, 2).masked_fill(torch.tensor([[False, True]]), -torch.inf)
    assert losses.entropy(logits).isnan().all()
    assert losses.entropy(losses.mask_illegal(torch.zeros(1, 2), torch.tensor([[True, False]]))).item() == 0.0


def test_without_a_mask_nothing_is_computed():
    logits = torch.zeros(2, 3)
    assert losses.mask_illegal(logits, None) is logits


def test_the_largest_entropy_counts_legal_actions():
    mask = torch.tensor([[True, True, True], [True, False, True], [False, True, False]])
    assert losses.largest_entropy(mask).tolist() == pytest.approx([math.log(3), math.log(2), 0.0])


def test_a_mask_that_allows_all_changes_no_bit():
    logits = random_tensor(3, 4, 5).float()
    assert torch.equal(losses.mask_illegal(logits, torch.ones(4, 5, dtype=torch.bool)), logits)
