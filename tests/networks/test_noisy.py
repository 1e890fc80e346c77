"""Noisy layers: what their noise is made of, when it changes, and that it is gone in evaluation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from sacbbf.agents.config import NetworkConfig
from sacbbf.learner.noise import Noise
from sacbbf.networks import AgentNetwork, build_network
from sacbbf.networks.noisy import NoisyLinear, factor
from sacbbf.policy import NetworkPolicy

CPU = torch.device("cpu")
INPUTS, OUTPUTS = 5, 3
SPREAD = 2.0 / math.pi  # E[f^2]^2 with f = sign(x) sqrt|x|: E[f^2] = E|x| = sqrt(2 / pi)


def noise(seed=0) -> Noise:
    return Noise(torch.Generator().manual_seed(seed))


@pytest.fixture
def layer() -> NoisyLinear:
    torch.manual_seed(0)
    made = NoisyLinear(INPUTS, OUTPUTS)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():  # sigmas that differ, so that none is taken for another
        for sigma in (made.weight_sigma, made.bias_sigma):
            sigma.uniform_(0.5, 1.5, generator=generator)
    return made


@torch.no_grad()
def effective(layer: NoisyLinear) -> tuple[torch.Tensor, torch.Tensor]:
    """The weight (out, in) and bias (out,) that a layer acts with, read off unit vectors and zero."""
    bias = layer(torch.zeros(1, INPUTS))[0]
    return (layer(torch.eye(INPUTS)) - bias).T, bias


@torch.no_grad()
def drawn(layer: NoisyLinear) -> tuple[torch.Tensor, torch.Tensor]:
    """The noise of weights and biases, in units of their sigmas."""
    weight, bias = effective(layer)
    return (weight - layer.weight) / layer.weight_sigma, (bias - layer.bias) / layer.bias_sigma


def noisy_network(sigma=1.0) -> AgentNetwork:
    """A network without a policy whose noise is large enough to change its mind."""
    config = NetworkConfig(encoder="mlp", width_scale=0.25, hidden_dim=16, num_atoms=5, policy=False, noisy=True)
    network = build_network(
        config, (4,), 3, self_prediction=False, device=CPU, generator=torch.Generator().manual_seed(0)
    )
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith("sigma"):
                parameter.fill_(sigma)
    return network


# --- the noise itself ---


def test_factor_is_the_signed_root():
    assert factor(torch.tensor([4.0, -9.0, 0.0])).tolist() == [2.0, -3.0, 0.0]


def test_weights_average_to_their_means_with_the_variance_of_a_product_of_factors(layer):
    source, draws = noise(), []
    for _ in range(2_000):
        layer.noise = layer.draw(source.normal)
        draws.append(drawn(layer)[0])
    found = torch.stack(draws)
    # A draw's variance is 2/pi and its fourth moment E[x^2]^2 = 1: standard errors 0.018 and 0.017.
    torch.testing.assert_close(found.mean(0), torch.zeros(OUTPUTS, INPUTS), rtol=0, atol=0.08)
    torch.testing.assert_close(found.square().mean(0), torch.full((OUTPUTS, INPUTS), SPREAD), rtol=0, atol=0.08)


def test_the_noise_of_weights_is_an_outer_product_whose_output_factor_the_bias_shares(layer):
    layer.noise = layer.draw(noise().normal)
    weights, biases = drawn(layer)
    assert torch.linalg.matrix_rank(weights, atol=1e-4) == 1
    first = weights[0] / biases[0]  # the input factor
    torch.testing.assert_close(weights, biases[:, None] * first[None, :], atol=1e-5, rtol=1e-4)


def test_draws_are_the_factors_of_normal_numbers_inputs_first(layer):
    layer.noise = layer.draw(noise(3).normal)
    source = noise(3)
    inputs, outputs = factor(source.normal((INPUTS,))), factor(source.normal((OUTPUTS,)))
    weight, bias = effective(layer)
    torch.testing.assert_close(weight, layer.weight + layer.weight_sigma * outputs[:, None] * inputs[None, :])
    torch.testing.assert_close(bias, layer.bias + layer.bias_sigma * outputs)


def test_without_noise_it_is_a_linear_layer_of_the_means(layer):
    x = torch.randn(7, INPUTS, generator=torch.Generator().manual_seed(2))
    assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))
    layer.noise = layer.draw(noise().normal)
    assert not torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))


def test_noise_stays_until_it_is_drawn_again(layer):
    x, source = torch.ones(1, INPUTS), noise()
    layer.noise = layer.draw(source.normal)
    first = layer(x)
    assert torch.equal(layer(x), first)
    layer.noise = layer.draw(source.normal)
    assert not torch.equal(layer(x), first)


def test_gradients_reach_means_and_sigmas(layer):
    x = torch.randn(4, INPUTS, generator=torch.Generator().manual_seed(2))
    layer.noise = layer.draw(noise().normal)
    layer(x).sum().backward()
    inputs, outputs = layer.noise
    torch.testing.assert_close(layer.weight.grad, x.sum(0).expand(OUTPUTS, -1))
    torch.testing.assert_close(layer.weight_sigma.grad, outputs[:, None] * (x.sum(0) * inputs)[None, :])
    torch.testing.assert_close(layer.bias_sigma.grad, 4 * outputs)


# --- in a network ---


def test_means_start_uniform_within_and_sigmas_at_a_tenth_of_the_root_of_the_inputs():
    config = NetworkConfig(encoder="mlp", width_scale=1.0, hidden_dim=400, num_atoms=51, policy=False, noisy=True)
    network = build_network(
        config, (4,), 6, self_prediction=False, device=CPU, generator=torch.Generator().manual_seed(0)
    )
    for layer in (network.q_projection, network.q_value, network.q_advantage):
        bound = 1 / math.sqrt(layer.in_features)
        for mean in (layer.weight, layer.bias):
            assert 0.9 * bound < mean.abs().max() <= bound
            assert mean.min() < 0 < mean.max()
        assert abs(layer.weight.std().item() / (bound / math.sqrt(3)) - 1) < 0.05
        for sigma in (layer.weight_sigma, layer.bias_sigma):
            torch.testing.assert_close(sigma, torch.full_like(sigma, 0.1 * bound))
    assert not network.encoder.linear0.bias.any()  # the rest starts as everywhere


def test_only_the_q_branch_is_noisy():
    with torch.device("meta"):  # with all that there may be: a policy and self-prediction too
        network = AgentNetwork(NetworkConfig(encoder="mlp", noisy=True), (4,), 3, self_prediction=True)
    assert network.policy_head is not None and network.policy_predictor is not None
    noisy = {name for name, module in network.named_modules() if isinstance(module, NoisyLinear)}
    assert noisy == {"q_projection", "q_value", "q_advantage"}


@pytest.mark.parametrize("rows", [1, 16])
def test_a_policy_without_noise_is_quiet_and_one_with_it_changes_its_mind(rows):
    network = noisy_network()
    states = np.random.default_rng(0).standard_normal((40, 4)).astype(np.float32)
    quiet, loud = NetworkPolicy(network, CPU, rows), NetworkPolicy(network, CPU, rows, noise=noise())
    first = quiet.logits(states)
    assert not np.array_equal(loud.logits(states), loud.logits(states))
    np.testing.assert_array_equal(quiet.logits(states), first)  # though the same network has just been noisy
    network.set_noise(None)
    with torch.no_grad():
        q = network.q_logits(network.q_features(network.encode(torch.from_numpy(states)))).softmax(-1)
    np.testing.assert_array_equal(first.argmax(1), (q @ torch.linspace(-1, 1, 5)).argmax(1).numpy())


def test_the_same_seed_draws_the_same_noise():
    states = np.random.default_rng(0).standard_normal((40, 4)).astype(np.float32)
    played = [NetworkPolicy(noisy_network(), CPU, noise=noise(seed)).logits(states) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(played[0], played[1])
    assert not np.array_equal(played[0], played[2])
