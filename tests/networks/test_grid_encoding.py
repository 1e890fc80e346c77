"""Grids that learn and those that do not, encoded together: as one by one, with the gradient of the former."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from sacbbf.config import NetworkConfig
from sacbbf.networks import AgentNetwork, build_network, grid_encoding
from sacbbf.networks.encoders import flatten

CPU = torch.device("cpu")


def make(**changes) -> AgentNetwork:
    config = NetworkConfig(encoder="grid", width_scale=1.0, hidden_dim=8, **changes)
    generator = torch.Generator().manual_seed(0)
    return build_network(config, (3, 7, 6), 4, self_prediction=False, device=CPU, generator=generator).double()


def grids(count: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(count, 3, 7, 6, generator=generator) < 0.3).double()


@pytest.mark.parametrize(("learning", "others"), [(4, 4), (5, 2), (1, 3)])
def test_latents_and_gradients_are_those_of_separate_passes(learning, others):
    network, first, second = make(), grids(learning, 1), grids(others, 2)
    weights = torch.randn(learning, network.encoder.out_shape[0] * 4 * 3, dtype=torch.float64)
    parameters = list(network.encoder.parameters())
    together, without = network.encode_both(first, second)
    found = torch.autograd.grad((together * weights).sum(), parameters)
    alone = flatten(network.encode(first))
    want = torch.autograd.grad((alone * weights).sum(), parameters)
    torch.testing.assert_close(together, alone)
    torch.testing.assert_close(without, flatten(network.encode(second)).detach())
    torch.testing.assert_close(found, want)
    assert all(gradient.abs().sum() > 0 for gradient in found)
    assert together.requires_grad and not without.requires_grad


def test_the_states_that_do_not_learn_change_no_gradient():
    network, first = make(), grids(3, 1)
    gradients = []
    for seed in (2, 3):
        latent, _ = network.encode_both(first, grids(4, seed))
        gradients.append(torch.autograd.grad(latent.square().sum(), list(network.encoder.parameters())))
    torch.testing.assert_close(*gradients, rtol=0, atol=0)


@pytest.mark.parametrize("size", [(7, 6), (10, 10), (5, 3), (1, 2), (4, 1)])
@pytest.mark.parametrize("as_matrix", [True, False])
def test_gradient_at_the_input_of_a_strided_convolution(monkeypatch, size, as_matrix):
    monkeypatch.setattr(grid_encoding, "SHORT_ROWS", 10_000 if as_matrix else 0)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 4, *size, dtype=torch.float64, generator=generator, requires_grad=True)
    weight = torch.randn(5, 4, 3, 3, dtype=torch.float64, generator=generator)
    answer = F.conv2d(x, weight, stride=2, padding=1)
    grad = torch.randn(answer.shape, dtype=torch.float64, generator=generator)
    (wanted,) = torch.autograd.grad((answer * grad).sum(), x)
    found = grid_encoding.input_gradient(flatten(grad), x.detach(), weight)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(
    ("changes", "expected"), [({}, True), ({"renormalize": False}, False), ({"encoder": "nature"}, False)]
)
def test_only_rescaled_grids_are_encoded_together(changes, expected):
    config = replace(NetworkConfig(encoder="grid", width_scale=0.25, hidden_dim=8), **changes)
    network = build_network(
        config, (3, 7, 6), 4, self_prediction=False, device=CPU, generator=torch.Generator().manual_seed(0)
    )
    assert network.encodes_together == expected
