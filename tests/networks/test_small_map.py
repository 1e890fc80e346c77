"""Convolutions of small maps as matrices: the same numbers and gradients, on any way to a device."""

import pytest
import torch
from torch.nn import functional as F

from sacbbf.config import NetworkConfig
from sacbbf.networks import build_network
from sacbbf.networks.encoders import flatten
from sacbbf.networks.small_map import SmallMap, Taps

SHAPES = [(8, 5, 5), (3, 4, 2), (2, 1, 6), (1, 1, 1)]


@pytest.mark.parametrize("shape", SHAPES)
def test_matrices_and_their_gradient_are_those_of_convolutions(shape):
    channels = shape[0]
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(2, channels, channels, 3, 3, dtype=torch.float64, generator=generator).requires_grad_()
    images = torch.randn(4, *shape, dtype=torch.float64, generator=generator)
    found = [flatten(images) @ matrix.t() for matrix in SmallMap(*shape).double().matrices(weights)]
    wanted = [flatten(F.conv2d(images, weight, padding=1)) for weight in weights]
    torch.testing.assert_close(found, wanted)
    slopes = torch.randn(4, flatten(images).shape[1], dtype=torch.float64, generator=generator)
    totals = [(slopes * (rows[0] + 2 * rows[1])).sum() for rows in (found, wanted)]
    gradients = [torch.autograd.grad(total, weights)[0] for total in totals]
    torch.testing.assert_close(*gradients)
    assert gradients[0].abs().min() > 0 or min(shape[1:]) < 2  # a map of one row has taps that read nothing


@pytest.mark.parametrize("shape", SHAPES)
def test_planes_are_what_a_convolution_makes_of_constant_ones(shape):
    weight, bias = torch.randn(shape[0], 3, 3, 3), torch.randn(shape[0])
    ones = torch.eye(3)[:, :, None, None].expand(-1, -1, *shape[1:])
    wanted = flatten(F.conv2d(ones, weight, bias, padding=1))
    torch.testing.assert_close(Taps(*shape[1:]).planes(weight, bias), wanted)


def test_a_network_has_its_tables_filled_and_does_not_save_them():
    generator = torch.Generator().manual_seed(0)
    config = NetworkConfig(encoder="grid", width_scale=1.0, hidden_dim=16)
    network = build_network(
        config, (6, 10, 10), 4, self_prediction=True, device=torch.device("cpu"), generator=generator
    )
    transition = network.transition
    for found, wanted in ((transition.small_map, SmallMap(8, 5, 5)), (transition.taps, Taps(5, 5))):
        for name, table in wanted.named_buffers():
            assert torch.equal(getattr(found, name), table), name
    assert not any("small_map" in name or "taps" in name for name in network.state_dict())
