"""AdamW's kernel without what PyTorch does around it: the same bits as torch.optim.AdamW's."""

import pytest
import torch

from sacbbf.config import NetworkConfig, OptimiserConfig
from sacbbf.learner import optimiser
from sacbbf.learner.optimiser import Descent
from sacbbf.networks import Network, build_network

CPU = torch.device("cpu")
CONFIG = OptimiserConfig(learning_rate=1e-2, weight_decay=0.1)


def make_network() -> Network:
    generator = torch.Generator().manual_seed(0)
    config = NetworkConfig(encoder="mlp", width_scale=0.1, hidden_dim=8)
    return build_network(config, (4,), 3, self_prediction=True, device=CPU, generator=generator)


def pytorchs(network: Network) -> torch.optim.AdamW:
    decays = {True: 0.1, False: 0.0}
    groups = [
        {"params": [each for each in network.parameters() if (each.dim() > 1) == matrix], "weight_decay": decay}
        for matrix, decay in decays.items()
    ]
    betas = (CONFIG.adam_beta1, CONFIG.adam_beta2)
    return torch.optim.AdamW(groups, lr=CONFIG.learning_rate, betas=betas, eps=CONFIG.adam_eps, fused=True)


def draw_gradients(network, seed, left_out=()):
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in network.named_parameters():
        drawn = torch.randn(parameter.shape, generator=generator)
        parameter.grad = None if name in left_out else drawn


def both(steps: int) -> tuple[tuple[Network, Descent], tuple[Network, torch.optim.AdamW]]:
    ours, theirs = make_network(), make_network()
    descent, adam = Descent(CONFIG, ours), pytorchs(theirs)
    for number in range(steps):
        for network in (ours, theirs):
            draw_gradients(network, number)
        descent.step()
        adam.step()
    return (ours, descent), (theirs, adam)


def test_steps_are_those_of_pytorch_bit_for_bit():
    before = [parameter.clone() for parameter in make_network().parameters()]
    (ours, descent), (theirs, adam) = both(3)
    moments = descent.moments()
    for (name, one), other, old in zip(ours.named_parameters(), theirs.parameters(), before, strict=True):
        assert torch.equal(one, other) and not torch.equal(one, old), name
        state = adam.state[other]
        assert torch.equal(moments[one][0], state["exp_avg"]), name
        assert torch.equal(moments[one][1], state["exp_avg_sq"]), name
        assert descent.count == state["step"]


def test_without_a_kernel_for_the_device_steps_are_the_same_but_for_rounding(monkeypatch):
    monkeypatch.setattr(optimiser, "FUSED", ())
    (ours, descent), (theirs, _) = both(3)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    assert descent.count == 3


@pytest.mark.parametrize("name", ["policy_head.bias", "q_value.weight"])
def test_a_parameter_that_no_gradient_reached_has_a_gradient_of_zero(name):
    ours, theirs = make_network(), make_network()
    descents = [Descent(CONFIG, network) for network in (ours, theirs)]
    for number in range(3):
        for network in (ours, theirs):
            draw_gradients(network, number, [name] if number == 1 else ())
        missing = dict(theirs.named_parameters())[name]
        missing.grad = torch.zeros_like(missing) if number == 1 else missing.grad
        for descent in descents:
            descent.step()
    assert all(torch.equal(one, other) for one, other in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_frozen_parameters_stay():
    network = make_network()
    network.encoder.requires_grad_(False)
    before = {name: value.clone() for name, value in network.named_parameters()}
    descent = Descent(CONFIG, network)
    draw_gradients(network, 0)
    descent.step()
    changed = {name for name, value in network.named_parameters() if not torch.equal(value, before[name])}
    assert changed == {name for name in before if not name.startswith("encoder.")}


def test_restarted_it_is_as_new():
    (network, descent), _ = both(2)
    descent.restart()
    other = make_network()
    other.load_state_dict(network.state_dict())
    fresh = Descent(CONFIG, other)
    for each in (network, other):
        draw_gradients(each, 7)
    descent.step()
    fresh.step()
    assert all(torch.equal(one, two) for one, two in zip(network.parameters(), other.parameters(), strict=True))
