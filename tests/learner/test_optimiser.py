"""AdamW's kernel without what PyTorch does around it: the same bits, whatever has come before."""

import pytest
import torch

from sacbbf.config import NetworkConfig, OptimiserConfig
from sacbbf.learner.optimiser import descend, make_optimiser
from sacbbf.networks import build_network

CPU = torch.device("cpu")


def make():
    generator = torch.Generator().manual_seed(0)
    config = NetworkConfig(encoder="mlp", width_scale=0.1, hidden_dim=8)
    network = build_network(config, (4,), 3, self_prediction=True, device=CPU, generator=generator)
    return network, make_optimiser(OptimiserConfig(learning_rate=1e-2, weight_decay=0.1), network)


def draw_gradients(network, seed, left_out=()):
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in network.named_parameters():
        drawn = torch.randn(parameter.shape, generator=generator)
        parameter.grad = None if name in left_out else drawn


@pytest.mark.parametrize("left_out", [[(), (), ()], [("policy_head.bias",), (), ()], [(), ("q_value.weight",), ()]])
def test_steps_are_those_of_pytorch_bit_for_bit(left_out):
    ours, theirs = make(), make()
    before = [parameter.clone() for parameter in ours[0].parameters()]
    for number, names in enumerate(left_out):
        for network, _ in (ours, theirs):
            draw_gradients(network, number, names)
        descend(ours[1])
        theirs[1].step()
    for (name, one), other, old in zip(ours[0].named_parameters(), theirs[0].parameters(), before, strict=True):
        assert torch.equal(one, other) and not torch.equal(one, old), name
        mine, its = ours[1].state[one], theirs[1].state[other]
        assert mine.keys() == its.keys()
        assert all(torch.equal(mine[key], its[key]) for key in mine), name


def test_the_kernel_alone_is_called_from_the_second_step_on(monkeypatch):
    network, optimiser = make()
    whole = []
    monkeypatch.setattr(optimiser, "step", lambda step=optimiser.step: whole.append(step()))
    for number in range(3):
        draw_gradients(network, number)
        descend(optimiser)
    assert len(whole) == 1
    assert {float(state["step"]) for state in optimiser.state.values()} == {3.0}
