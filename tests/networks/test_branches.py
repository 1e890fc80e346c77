"""Both branches of a roll-out compute what their layers do one by one, gradients included."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from sacbbf.networks import wide_linear
from sacbbf.networks.branches import read_branches

STEPS, SIZE, INPUTS, UNITS = 3, 16, 9, 8


def make(count: int) -> tuple[torch.Tensor, list[tuple[nn.Linear, nn.Linear]]]:
    torch.manual_seed(0)
    latents = torch.randn(STEPS + 1, SIZE, INPUTS, dtype=torch.float64, requires_grad=True)
    branches = [(nn.Linear(INPUTS, UNITS).double(), nn.Linear(UNITS, UNITS).double()) for _ in range(count)]
    return latents, branches


def one_by_one(latents, branches):
    features = [project(latents) for project, _ in branches]
    predictions = [predict(found[1:]) for found, (_, predict) in zip(features, branches, strict=True)]
    return torch.stack(predictions), [found[0] for found in features]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("in_blocks", [False, True])
def test_outputs_and_gradients_are_those_of_the_layers(monkeypatch, count, in_blocks):
    if in_blocks:
        monkeypatch.setattr(wide_linear, "LARGE", UNITS * UNITS)
        monkeypatch.setattr(wide_linear, "by_amd", lambda: True)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    found = []
    for read in (read_branches, one_by_one):
        latents, branches = make(count)
        prediction, features = read(latents, branches)
        generator = torch.Generator().manual_seed(1)
        weighed = [each * torch.randn(each.shape, generator=generator) for each in (prediction, *features)]
        sum(each.sum() for each in weighed).backward()
        parameters = [each.grad for branch in branches for layer in branch for each in layer.parameters()]
        found.append([prediction, *features, latents.grad, *parameters])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_all_arithmetic_is_counted():
    """As much as that of the layers one by one."""
    counts = []
    for read in (read_branches, one_by_one):
        latents, branches = make(2)
        with FlopCounterMode(display=False) as counter:
            prediction, features = read(latents, branches)
            (prediction.sum() + sum(found.sum() for found in features)).backward()
        counts.append(counter.get_total_flops())
    rows = (STEPS + 1) * SIZE * INPUTS * UNITS + STEPS * SIZE * UNITS * UNITS  # of a projection and its predictor
    assert counts == [2 * 3 * 2 * rows] * 2


def test_a_branch_that_no_loss_reads_has_no_gradient():
    latents, branches = make(2)
    prediction, features = read_branches(latents, branches)
    (prediction[0].sum() + features[0].sum()).backward()
    assert all(parameter.grad.abs().sum() > 0 for layer in branches[0] for parameter in layer.parameters())
    assert all(parameter.grad.abs().sum() == 0 for layer in branches[1] for parameter in layer.parameters())
