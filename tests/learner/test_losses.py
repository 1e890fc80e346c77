"""Distributions, targets and losses of Q against hand-computed numbers, slow oracles in float64, and properties."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from properties import batches, check, random_probs, random_tensor, seeds, sizes, tensor
from scipy import stats

from sacbbf.learner import losses
from sacbbf.learner.noise import Noise, NoNoise

CPU = torch.device("cpu")
ATOMS = torch.linspace(-2.0, 2.0, 5, dtype=torch.float64)  # spacing 1: hand arithmetic stays exact


def wide_atoms(low=-30.0, high=30.0):
    """Atoms (B, N) anywhere between low and high."""
    shape = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=9)
    return hnp.arrays(np.float64, shape, elements=st.floats(low, high)).map(torch.from_numpy)


# --- distributions ------------------------------------------------------------------------------------------


def test_support_spans_v_max_evenly():
    torch.testing.assert_close(losses.support(51, 10.0, CPU), torch.arange(-25, 26) * 0.4)


def test_support_of_a_scalar_q_is_one_atom_at_one():
    assert losses.support(1, 10.0, CPU).tolist() == [1.0]


def test_expected_value_hand_computed():
    logits = torch.log(tensor(0.5, 0.0, 0.25, 0.0, 0.25))[None, None]  # (B, A, N)
    assert losses.expected_value(logits, ATOMS).tolist() == [[pytest.approx(-1.0 + 0.0 + 0.5)]]


def test_expected_value_keeps_leading_dimensions():
    logits = random_tensor(0, 3, 2, 4, 5)
    expected = (torch.softmax(logits, dim=-1) * ATOMS).sum(dim=-1)
    torch.testing.assert_close(losses.expected_value(logits, ATOMS), expected)


def test_expected_value_of_one_atom_is_the_scalar_itself():
    logits = tensor([[3.0], [-2.0]], [[0.5], [7.0]])
    assert losses.expected_value(logits, torch.ones(1)).tolist() == [[3.0, -2.0], [0.5, 7.0]]


def test_select_takes_each_samples_own_action():
    values = torch.arange(12).reshape(2, 3, 2)
    assert losses.select(values, torch.tensor([2, 0])).tolist() == [[4, 5], [6, 7]]


# --- draws --------------------------------------------------------------------------------------------------


def test_draws_follow_the_softmax():
    logits = torch.tensor([1.5, 0.0, -1.0, 0.5, -3.0])
    draws = 60_000
    noise = Noise(torch.Generator().manual_seed(0))
    actions = losses.draw_action(logits.expand(draws, -1), noise.gumbel((draws, 5)))
    counts = torch.bincount(actions, minlength=5).numpy()
    expected = draws * torch.softmax(logits.double(), dim=-1).numpy()
    p_value = stats.chisquare(counts, expected).pvalue
    assert p_value > 1e-3, f"counts {counts}, expected {expected.round(1)}, p = {p_value:.2g}"


def test_gumbel_noise_is_standard_gumbel():
    sample = Noise(torch.Generator().manual_seed(1)).gumbel((20_000,)).double().numpy()
    assert stats.kstest(sample, "gumbel_r").pvalue > 1e-3


def test_draws_are_reproducible_and_differ_between_samples():
    first, again = (Noise(torch.Generator().manual_seed(7)).gumbel((64, 4)) for _ in range(2))
    assert torch.equal(first, again)
    assert first.unique().numel() == first.numel()


def test_without_noise_the_most_likely_action_is_taken():
    logits = random_tensor(3, 50, 6)
    actions = losses.draw_action(logits, NoNoise(CPU).gumbel(logits.shape))
    assert torch.equal(actions, logits.argmax(dim=-1))


# --- backups ------------------------------------------------------------------------------------------------


def test_sampled_backup_takes_the_drawn_action():
    values = random_tensor(0, 2, 3, 4)
    backup = losses.backup_sampled(values, torch.tensor([2, 1]))
    assert torch.equal(backup, torch.stack([values[0, 2], values[1, 1]]))


@check
@given(seeds, batches, sizes, sizes)
def test_expected_backup_is_the_policys_average_of_sampled_backups(seed, batch, actions, atoms):
    values, logits = random_tensor(seed, batch, actions, atoms), random_tensor(seed + 1, batch, actions)
    average = torch.zeros(batch, atoms, dtype=torch.float64)
    for action in range(actions):
        weight = logits[:, action].exp() / logits.exp().sum(dim=-1)
        average += weight[:, None] * losses.backup_sampled(values, torch.full((batch,), action))
    torch.testing.assert_close(losses.backup_expected(values, logits), average)


def test_greedy_backup_follows_the_chooser_not_the_values():
    values = tensor([[9.0], [1.0], [2.0]], [[3.0], [8.0], [4.0]])  # (B, A, 1), best actions 0 and 1
    chooser = tensor([0.0, 5.0, 1.0], [1.0, 2.0, 3.0])  # best actions 1 and 2
    assert losses.backup_greedy(values, chooser).tolist() == [[1.0], [4.0]]


# --- projection ---------------------------------------------------------------------------------------------


def project_slowly(atoms_from, probs, atoms_to):
    """C51's projection, one atom at a time."""
    spacing = (atoms_to[-1] - atoms_to[0]) / (len(atoms_to) - 1)
    result = np.zeros((len(probs), len(atoms_to)))
    for row in range(len(probs)):
        for atom, mass in zip(atoms_from[row], probs[row], strict=True):
            position = (min(max(atom, atoms_to[0]), atoms_to[-1]) - atoms_to[0]) / spacing
            below = min(math.floor(position), len(atoms_to) - 2)
            result[row, below] += mass * (below + 1 - position)
            result[row, below + 1] += mass * (position - below)
    return torch.from_numpy(result)


def mean(probs, atoms):
    return (probs * atoms).sum(dim=-1)


@check
@given(wide_atoms(), seeds, st.integers(2, 12), st.floats(0.5, 20.0))
def test_projection_matches_the_slow_oracle(atoms_from, seed, num_atoms, v_max):
    probs = random_probs(seed, *atoms_from.shape)
    atoms_to = torch.linspace(-v_max, v_max, num_atoms, dtype=torch.float64)
    expected = project_slowly(atoms_from.numpy(), probs.numpy(), atoms_to.numpy())
    projected = losses.project_c51(atoms_from, probs, atoms_to)
    torch.testing.assert_close(projected, expected, rtol=1e-9, atol=1e-9)


@check
@given(wide_atoms(-1e6, 1e6), seeds)
def test_projection_conserves_mass(atoms_from, seed):
    projected = losses.project_c51(atoms_from, random_probs(seed, *atoms_from.shape), ATOMS)
    assert (projected >= 0.0).all()
    torch.testing.assert_close(projected.sum(dim=-1), torch.ones(len(projected), dtype=torch.float64))


@check
@given(wide_atoms(-2.0, 2.0), seeds)
def test_projection_conserves_the_mean_inside_the_support(atoms_from, seed):
    probs = random_probs(seed, *atoms_from.shape)
    projected = losses.project_c51(atoms_from, probs, ATOMS)
    torch.testing.assert_close(mean(projected, ATOMS), mean(probs, atoms_from), rtol=1e-9, atol=1e-9)


def test_projection_at_paper_size_keeps_mass_and_mean_in_float32():
    atoms = losses.support(51, 10.0, CPU)
    probs = random_probs(0, 32, 51).float()
    atoms_from = 0.3 + 0.9 * atoms.expand(32, -1)
    projected = losses.project_c51(atoms_from, probs, atoms)
    torch.testing.assert_close(projected.sum(dim=-1), torch.ones(32), rtol=0.0, atol=1e-5)
    torch.testing.assert_close(mean(projected, atoms), mean(probs, atoms_from), rtol=0.0, atol=1e-4)


def test_projection_hand_computed():
    projected = losses.project_c51(tensor([-1.75, 0.5, 1.0]), tensor([0.4, 0.2, 0.4]), ATOMS)
    assert projected[0].tolist() == pytest.approx([0.3, 0.1, 0.1, 0.5, 0.0])


def test_projection_moves_mass_outside_the_support_to_its_ends():
    projected = losses.project_c51(tensor([-7.0, -2.5, 2.01, 100.0]), tensor([0.1, 0.2, 0.3, 0.4]), ATOMS)
    assert projected[0].tolist() == pytest.approx([0.3, 0.0, 0.0, 0.0, 0.7])


def test_projection_is_exact_where_atoms_coincide():
    probs = random_probs(0, 3, 5)
    torch.testing.assert_close(losses.project_c51(ATOMS.expand(3, -1), probs, ATOMS), probs)
    order = torch.tensor([4, 2, 0, 1, 3])
    shuffled = losses.project_c51(ATOMS[order].expand(3, -1), probs[:, order], ATOMS)
    torch.testing.assert_close(shuffled, probs)


# --- targets ------------------------------------------------------------------------------------------------


def test_target_distribution_hand_computed():
    target = losses.target_distribution(
        tensor([0.0, 0.0, 0.0, 0.5, 0.5]), tensor(0.25), tensor(0.5), torch.tensor([False]), ATOMS
    )  # atoms 1 and 2 move to 0.75 and 1.25
    assert target[0].tolist() == pytest.approx([0.0, 0.0, 0.125, 0.75, 0.125])


@check
@given(seeds, batches, st.floats(-3.0, 3.0), st.floats(0.0, 1.0))
def test_target_distribution_matches_the_slow_oracle(seed, batch, reward, discount):
    bootstrap = random_probs(seed, batch, 5)
    return_n, discount_n = reward + random_tensor(seed + 1, batch), torch.full((batch,), discount).double()
    done = random_tensor(seed + 2, batch) > 0.0
    atoms_from = np.array(
        [
            [r + (0.0 if d else g * z) for z in ATOMS.tolist()]
            for r, g, d in zip(return_n, discount_n, done, strict=True)
        ]
    )
    expected = project_slowly(atoms_from, bootstrap.numpy(), ATOMS.numpy())
    target = losses.target_distribution(bootstrap, return_n, discount_n, done, ATOMS)
    torch.testing.assert_close(target, expected, rtol=1e-9, atol=1e-9)


def test_a_finished_return_is_split_between_its_two_atoms():
    target = losses.target_distribution(
        random_probs(0, 3, 5), tensor(-0.75, 1.0, 5.0), tensor(0.9, 0.9, 0.9), torch.ones(3, dtype=torch.bool), ATOMS
    )
    split = tensor([0.0, 0.75, 0.25, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0])
    torch.testing.assert_close(target, split)


def test_target_value_bootstraps_unless_done():
    target = losses.target_value(tensor(10.0, 10.0), tensor(1.0, 1.0), tensor(0.5, 0.5), torch.tensor([False, True]))
    assert target.tolist() == [6.0, 1.0]


# --- TD losses ----------------------------------------------------------------------------------------------


def test_cross_entropy_hand_computed():
    logits = torch.log(tensor([0.5, 0.25, 0.25], [0.1, 0.8, 0.1])) + 3.0  # a shift changes nothing
    target = tensor([0.5, 0.5, 0.0], [0.0, 1.0, 0.0])
    expected = [0.5 * math.log(2) + 0.5 * math.log(4), -math.log(0.8)]
    assert losses.td_cross_entropy(logits, target).tolist() == pytest.approx(expected)


@check
@given(seeds, batches, sizes)
def test_cross_entropys_gradient_is_prediction_minus_target(seed, batch, atoms):
    logits, target = random_tensor(seed, batch, atoms).requires_grad_(), random_probs(seed + 1, batch, atoms)
    (gradient,) = torch.autograd.grad(losses.td_cross_entropy(logits, target).sum(), logits)
    torch.testing.assert_close(gradient, torch.softmax(logits.detach(), dim=-1) - target)


def test_huber_is_quadratic_up_to_one_and_linear_beyond():
    q = tensor(1.0, 1.0, 1.0, 1.0, -4.0)
    target = tensor(1.0, 1.5, 2.0, 3.0, 0.0)
    assert losses.td_huber(q, target).tolist() == pytest.approx([0.0, 0.125, 0.5, 1.5, 3.5])


# --- self-prediction ----------------------------------------------------------------------------------------


def spr_slowly(prediction, target, mask):
    """Mean over branches and steps of 2 - 2 cos, a masked step counting as zero."""
    branches, steps, batch, _ = prediction.shape
    result = np.zeros(batch)
    for b in range(batch):
        for v in range(branches):
            for j in range(steps):
                p, g = prediction[v, j, b], target[v, j, b]
                cosine = (p @ g) / math.sqrt((p @ p) * (g @ g))
                result[b] += (2.0 - 2.0 * cosine) * mask[j, b] / (branches * steps)
    return torch.from_numpy(result)


def test_spr_hand_computed():
    prediction = tensor([[[3.0, 4.0]], [[1.0, 0.0]]], [[[0.0, 2.0]], [[5.0, 0.0]]])  # V = 2, k = 2, B = 1
    target = tensor([[[3.0, 4.0]], [[0.0, 7.0]]], [[[0.0, -1.0]], [[4.0, 3.0]]])
    everywhere, first_only = torch.ones(2, 1, dtype=torch.bool), torch.tensor([[True], [False]])
    # 2 - 2 cos is 0 and 2 on the first branch, 4 and 0.4 on the second.
    assert losses.spr_loss(prediction, target, everywhere).tolist() == pytest.approx([6.4 / 4])
    assert losses.spr_loss(prediction, target, first_only).tolist() == pytest.approx([4.0 / 4])


@check
@given(seeds, st.integers(1, 2), st.integers(1, 5), batches, sizes)
def test_spr_is_the_mean_of_two_minus_two_cosines(seed, branches, steps, batch, features):
    shape = (branches, steps, batch, features)
    prediction, target = 5.0 * random_tensor(seed, *shape), random_tensor(seed + 1, *shape)
    mask = random_tensor(seed + 2, steps, batch) > 0.0
    expected = spr_slowly(prediction.numpy(), target.numpy(), mask.numpy())
    torch.testing.assert_close(losses.spr_loss(prediction, target, mask), expected)


def test_spr_divides_by_k_whatever_the_mask():
    prediction = tensor([1.0, 0.0]).expand(2, 5, 6, 2)
    mask = torch.arange(5)[:, None] < torch.arange(6)[None, :]  # sample b keeps its first b steps
    expected = [2.0 * 2.0 * kept / 5 for kept in range(6)]
    assert losses.spr_loss(prediction, -prediction, mask).tolist() == pytest.approx(expected)


def test_spr_has_no_gradient_where_masked():
    prediction, target = random_tensor(0, 2, 5, 3, 4).requires_grad_(), random_tensor(1, 2, 5, 3, 4)
    mask = torch.arange(5)[:, None] < torch.tensor([5, 2, 0])[None, :]
    (gradient,) = torch.autograd.grad(losses.spr_loss(prediction, target, mask).sum(), prediction)
    moved = gradient.abs().sum(dim=-1) > 0.0  # (V, k, B)
    assert torch.equal(moved, mask.expand(2, -1, -1))
