"""The optimiser that is shipped: the numbers of PyTorch's own, without loading the compiler."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from sacbbf.agents.config import OptimiserConfig
from sacbbf.learner.optim import LightAdamW, make_optimiser

CONFIG = replace(OptimiserConfig(), learning_rate=1e-2, weight_decay=0.3)


def small_network() -> nn.Module:
    """A network of two layers, always the same."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def learn(network: nn.Module, optimiser: torch.optim.Optimizer, steps: int) -> None:
    """Take steps, each on other inputs."""
    for step in range(steps):
        optimiser.zero_grad()
        assert all(parameter.grad is None for parameter in network.parameters())
        network(torch.linspace(-1, step, 3)).square().sum().backward()
        optimiser.step()


def pytorchs(optimiser: torch.optim.Optimizer, network: nn.Module) -> torch.optim.AdamW:
    """PyTorch's own with the settings of another."""
    parameters = dict(network.named_parameters())
    decayed = [value for name, value in parameters.items() if name.endswith("weight")]
    others = [value for name, value in parameters.items() if name.endswith("bias")]
    groups = [{"params": decayed, "weight_decay": 0.3}, {"params": others, "weight_decay": 0.0}]
    first = optimiser.param_groups[0]
    return torch.optim.AdamW(groups, lr=1e-2, betas=first["betas"], eps=first["eps"], fused=first["fused"])


@pytest.mark.parametrize("pytorchs_first", [False, True])  # the first of a class to be made wraps its step
def test_steps_and_state_are_those_of_pytorchs_adamw(pytorchs_first):
    plain, network = small_network(), small_network()
    if pytorchs_first:
        wanted = pytorchs(make_optimiser(CONFIG, network), plain)
    optimiser = make_optimiser(CONFIG, network)
    if not pytorchs_first:
        wanted = pytorchs(optimiser, plain)
    assert isinstance(optimiser, LightAdamW)
    learn(network, optimiser, 5)
    learn(plain, wanted, 5)
    for found, parameter in zip(network.parameters(), plain.parameters(), strict=True):
        assert torch.equal(found, parameter)
        assert not torch.equal(optimiser.state[found]["exp_avg_sq"], torch.zeros_like(found))
    found, want = optimiser.state_dict(), wanted.state_dict()
    assert found["param_groups"] == want["param_groups"]
    assert found["state"].keys() == want["state"].keys()
    for number, kept in want["state"].items():
        assert kept.keys() == found["state"][number].keys()
        assert all(torch.equal(found["state"][number][name], value) for name, value in kept.items())


def test_a_closure_is_given_gradients_and_hooks_are_called():
    network = small_network()
    optimiser, called = make_optimiser(CONFIG, network), []
    optimiser.register_step_pre_hook(lambda *args: called.append("before"))
    optimiser.register_step_post_hook(lambda *args: called.append("after"))

    def closure():
        loss = network(torch.ones(3)).square().sum()
        loss.backward()
        return loss

    before = [parameter.detach().clone() for parameter in network.parameters()]
    assert optimiser.step(closure).item() > 0
    assert called == ["before", "after"]
    assert not any(torch.equal(old, new) for old, new in zip(before, network.parameters(), strict=True))
    assert torch.is_grad_enabled()


def test_a_group_that_makes_no_sense_is_refused_as_by_pytorch():
    with pytest.raises(ValueError, match="more than one parameter group"):
        parameter = nn.Parameter(torch.zeros(2))
        LightAdamW([{"params": [parameter]}, {"params": [parameter]}])
