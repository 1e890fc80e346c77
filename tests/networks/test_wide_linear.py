"""Linear layers compute what PyTorch's own do, gradients included, whichever way the products are computed."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from sacbbf.networks import wide_linear
from sacbbf.networks.wide_linear import BLOCKS, ROWS, WideLinear

INPUTS, UNITS = 21, 3 * BLOCKS


@pytest.fixture(autouse=True)
def small_layers_count_as_large(monkeypatch):
    monkeypatch.setattr(wide_linear, "LARGE", INPUTS * UNITS)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(wide_linear, "by_amd", lambda: True)


def pair(inputs: int = INPUTS, units: int = UNITS) -> tuple[WideLinear, nn.Linear]:
    torch.manual_seed(0)
    ours, theirs = WideLinear(inputs, units).double(), nn.Linear(inputs, units).double()
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.mark.parametrize("shape", [(ROWS,), (ROWS + 5,), (3, ROWS), (2,)])
@pytest.mark.parametrize("input_wanted", [True, False])
def test_output_and_gradients_are_those_of_pytorch(shape, input_wanted):
    found = []
    for layer in pair():
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(*shape, INPUTS, generator=generator, dtype=torch.float64, requires_grad=input_wanted)
        answer = layer(x)
        weights = torch.randn(answer.shape, generator=generator, dtype=torch.float64)
        (answer.relu() * weights).sum().backward()
        found.append([answer, layer.weight.grad, layer.bias.grad, *([x.grad] if input_wanted else [])])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_gradients_that_lie_otherwise_in_memory():
    """A sum's gradient is one number seen everywhere, a transposed output's lies the other way."""
    for turn in (torch.sum, lambda answer: (answer.t() @ torch.eye(ROWS, dtype=torch.float64).roll(1, 0)).sum()):
        found = []
        for layer in pair():
            x = torch.randn(ROWS, 2 * INPUTS, generator=torch.Generator().manual_seed(1), dtype=torch.float64)[:, ::2]
            turn(layer(x)).backward()
            found.append(layer.weight.grad)
        torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)


def test_all_arithmetic_is_counted():
    counts = []
    for layer in pair():
        x = torch.randn(ROWS, INPUTS, dtype=torch.float64, requires_grad=True)
        with FlopCounterMode(display=False) as counter:
            layer(x).sum().backward()
        counts.append(counter.get_total_flops())
    assert counts == [3 * 2 * ROWS * INPUTS * UNITS] * 2


@pytest.mark.parametrize(
    ("rows", "inputs", "units", "threads", "expected"),
    [
        (ROWS, INPUTS, UNITS, 2, True),
        (ROWS, INPUTS, UNITS, BLOCKS, True),
        (ROWS - 1, INPUTS, UNITS, 2, False),  # few rows, as in acting
        (ROWS, INPUTS - 1, UNITS, 2, False),  # a small weight
        (ROWS, INPUTS, UNITS + 1, 2, False),  # units that blocks do not divide
        (ROWS, INPUTS, UNITS, 1, False),  # nothing to divide
        (ROWS, INPUTS, UNITS, BLOCKS + 1, False),  # threads without a block
    ],
)
def test_large_layers_go_in_blocks(monkeypatch, rows, inputs, units, threads, expected):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    called = []
    monkeypatch.setattr(wide_linear, "output", lambda x, weight, bias: called.append(1) or x @ weight.t() + bias)
    layer, _ = pair(inputs, units)
    layer(torch.randn(rows, inputs, dtype=torch.float64))
    assert bool(called) is expected


def test_mkl_is_left_to_it_elsewhere(monkeypatch):
    assert wide_linear.in_blocks(torch.zeros(ROWS, INPUTS), UNITS, INPUTS)
    monkeypatch.setattr(wide_linear, "by_amd", lambda: False)
    assert not wide_linear.in_blocks(torch.zeros(ROWS, INPUTS), UNITS, INPUTS)


@pytest.mark.parametrize("rows", [2, ROWS])
def test_an_exported_layer_takes_any_number_of_rows(rows):
    layer, _ = pair()
    some = torch.export.Dim("rows", min=1, max=4 * ROWS)
    x = torch.randn(rows, INPUTS, dtype=torch.float64)
    exported = torch.export.export(layer, (x,), dynamic_shapes=({0: some},))
    for other in (3, 2 * ROWS):
        x = torch.randn(other, INPUTS, dtype=torch.float64)
        torch.testing.assert_close(exported.module()(x), layer(x), rtol=1e-10, atol=1e-10)


def test_without_gradients_nothing_is_kept():
    layer, _ = pair()
    x = torch.randn(ROWS, INPUTS, dtype=torch.float64)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert layer(x).grad_fn is None
    layer.requires_grad_(False)
    assert layer(x).grad_fn is None
