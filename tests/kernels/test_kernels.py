"""Every kernel against the plain function that it replaces: values, gradients, updates; and where it steps aside."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from sacbbf.agents.ladder import change
from sacbbf.agents.presets import preset
from sacbbf.kernels import KERNELS
from sacbbf.learner.learner import Learner
from sacbbf.networks.layers import Conv2d
from sacbbf.networks.replacements import replace_forwards
from sacbbf.networks.transition import TransitionModel
from sacbbf.types import Batch


@dataclass(frozen=True)
class Case:
    """A module, the kernel that is for it, and what it is called with; the first input gets a gradient too."""

    kernel: str
    build: Callable[[], nn.Module]
    inputs: Callable[[], tuple[torch.Tensor, ...]]


def transition(shape, actions, rescaled) -> Case:
    def inputs():
        return torch.rand(4, *shape), torch.randint(actions, (3, 4))

    return Case("small_map", lambda: TransitionModel(shape, actions, rescaled), inputs)


CASES = {
    "roll-out of a grid": transition((8, 5, 5), 3, True),
    "roll-out of an oblong": transition((4, 3, 7), 6, True),
    "roll-out of a point": transition((5, 1, 1), 2, True),
    "roll-out that is not rescaled": transition((2, 2, 4), 1, False),
}


@pytest.fixture(params=CASES)
def case(request) -> Iterator[Case]:
    """Each case, with inputs and weights that are always the same."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield CASES[request.param]


def with_biases(module: nn.Module) -> nn.Module:
    """A module whose biases are no longer zero."""
    for name, parameter in module.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter, std=0.1)
    return module


def values_and_gradients(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """What a module computes, and the gradients of its parameters and first input."""
    first = inputs[0].clone().requires_grad_()
    found = module(first, *inputs[1:])
    weights = torch.arange(found.numel()).view(found.shape).sin()
    return [found, *torch.autograd.grad((weights * found).sum(), [first, *module.parameters()])]


def in_use(module: nn.Module, monkeypatch, name: str) -> Callable[..., object]:
    """Replace what can be of a module; returns a function that calls it and tells whether the kernel computed it."""
    calls = []
    kernel = KERNELS[name].forward
    monkeypatch.setattr(KERNELS[name], "forward", lambda *args: calls.append(1) or kernel(*args))
    replace_forwards(module)

    def call(*inputs):
        calls.clear()
        return module(*inputs), bool(calls)

    return call


def test_every_kernel_has_a_case():
    assert {case.kernel for case in CASES.values()} == set(KERNELS)


def test_a_kernel_computes_what_the_plain_function_does(case):
    module, inputs = with_biases(case.build()), case.inputs()
    plain = values_and_gradients(module, inputs)
    assert replace_forwards(module) == [case.kernel]
    found = values_and_gradients(module, inputs)
    torch.testing.assert_close(found, plain, rtol=1e-4, atol=1e-5)
    assert all(tensor.abs().sum() > 0 for tensor in plain)


def test_a_subclass_is_never_replaced(case):
    module = case.build()
    module.__class__ = type("Own", (type(module),), {})
    assert replace_forwards(module) == []
    assert "forward" not in vars(module)


@pytest.mark.parametrize("hook", ["forward", "forward_pre", "full_backward", "full_backward_pre"])
def test_a_module_with_hooks_within_is_computed_plainly(case, hook, monkeypatch):
    module, inputs = case.build(), case.inputs()
    call = in_use(module, monkeypatch, case.kernel)
    assert call(*inputs)[1]
    layer = next(module.children())
    handle = getattr(layer, f"register_{hook}_hook")(lambda *args: None)
    assert not call(*inputs)[1]
    handle.remove()
    assert call(*inputs)[1]


def test_a_module_whose_layers_were_exchanged_is_computed_plainly(case, monkeypatch):
    module, inputs = case.build(), case.inputs()
    call = in_use(module, monkeypatch, case.kernel)
    name, layer = next(module.named_children())
    own = type("Own", (type(layer),), {"forward": lambda self, x: 0.0 * super(type(self), self).forward(x)})
    exchanged = own(layer.in_channels, layer.out_channels, kernel_size=3, padding=1)
    setattr(module, name, exchanged)
    found, by_kernel = call(*inputs)
    assert not by_kernel
    assert torch.equal(found, type(module).forward(module, *inputs))


def test_a_parametrised_layer_is_computed_plainly(case, monkeypatch):
    module, inputs = case.build(), case.inputs()
    call = in_use(module, monkeypatch, case.kernel)
    nn.utils.parametrizations.weight_norm(next(module.children()))
    assert not call(*inputs)[1]


def test_hooks_on_all_modules_are_heard(case, monkeypatch):
    call, heard = in_use(module := case.build(), monkeypatch, case.kernel), []
    handle = nn.modules.module.register_module_forward_hook(lambda layer, *args: heard.append(layer))
    assert not call(*case.inputs())[1]
    handle.remove()
    assert set(module.children()) <= set(heard)


def test_a_layer_without_a_bias_is_computed_plainly(case, monkeypatch):
    module, inputs = case.build(), case.inputs()
    call = in_use(module, monkeypatch, case.kernel)
    module.conv1 = Conv2d(module.conv1.in_channels, module.conv1.out_channels, kernel_size=3, padding=1, bias=False)
    found, by_kernel = call(*inputs)
    assert not by_kernel
    assert torch.equal(found, type(module).forward(module, *inputs))


def test_a_network_with_kernels_can_be_copied(case):
    module, inputs = case.build(), case.inputs()
    replace_forwards(module)
    copied = copy.deepcopy(module)
    nn.init.zeros_(module.conv1.weight)
    torch.testing.assert_close(copied(*inputs), type(copied).forward(copied, *inputs), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(copied(*inputs), module(*inputs))


def test_large_maps_are_left_to_convolutions():
    assert replace_forwards(TransitionModel((32, 7, 7), 3, True)) == []
    assert isinstance(TransitionModel((32, 7, 7), 3, True).conv0, Conv2d)


# --- whole updates ---

SMALLER = {"replay": {"batch_size": 4}}
PRESETS = {  # size, kind, shape of a state, dtype, changes
    "tiny grid": ("tiny-paper", "grid", (4, 10, 10), np.bool_, {}),
    "tiny vector": ("tiny-paper", "vector", (4,), np.float32, {}),
    "tiny image": ("tiny", "image", (4, 84, 84), np.uint8, {}),
    "laptop image": ("laptop", "image", (4, 84, 84), np.uint8, {}),
    "paper image": ("paper", "image", (4, 84, 84), np.uint8, {"network": {"width_scale": 0.25, "hidden_dim": 64}}),
}
ACTIONS = 3


def make_batch(learner: Learner, shape, dtype, seed: int) -> Batch:
    rng, k, size = np.random.default_rng(seed), learner.spr_steps, 4
    states = rng.integers(0, 2 if dtype is np.bool_ else 256, (k + 2, size, *shape)).astype(dtype)
    return Batch(
        states=torch.from_numpy(states),
        actions=torch.from_numpy(rng.integers(0, ACTIONS, (k + 1, size))),
        return_n=torch.from_numpy(rng.standard_normal(size).astype(np.float32)),
        discount_n=torch.full((size,), 0.9),
        done=torch.from_numpy(rng.random(size) < 0.3),
        same_episode=torch.ones(k, size),
        weights=torch.from_numpy(rng.uniform(0.3, 1.0, size).astype(np.float32)),
        bootstrap_step=10,
        indices=np.arange(size),
    )


@pytest.mark.parametrize("name", PRESETS)
def test_three_updates_of_a_preset_are_the_same_with_and_without_kernels(name):
    size, kind, shape, dtype, changes = PRESETS[name]
    config = change(change(preset(size, kind, 1_000), SMALLER), changes)
    learners = [
        Learner(change(config, {"compute": {"kernels": kernels}}), shape, ACTIONS) for kernels in ("auto", "off")
    ]
    assert learners[1].kernels == [] and (learners[0].kernels or name != "tiny grid")
    for seed in range(3):
        terms = [learner.update(make_batch(learner, shape, dtype, seed), 0.01).terms for learner in learners]
        for part in ("td", "spr", "policy", "total"):
            found, want = (getattr(each, part) for each in terms)
            torch.testing.assert_close(found, want, rtol=1e-5, atol=1e-5)
    for network in ("online", "target"):
        found, want = (getattr(learner, network).state_dict() for learner in learners)
        torch.testing.assert_close(found, want, rtol=1e-5, atol=1e-5)
