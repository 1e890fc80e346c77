"""Constants are made once per device, and can be part of a gradient wherever they were first asked for."""

import pytest
import torch

from sacbbf.constants import counting, number

CPU = torch.device("cpu")


def test_they_are_made_once_for_each_device():
    assert number(0.37, CPU) is number(0.37, CPU)
    assert counting(11, CPU) is counting(11, CPU)
    assert number(0.37, torch.device("meta")).device.type == "meta"
    assert counting(11, torch.device("meta")).device.type == "meta"


def test_values_and_kinds():
    assert number(0.1, CPU).dtype == torch.float32 and number(0.1, CPU).item() == pytest.approx(0.1)
    assert counting(4, CPU).dtype == torch.int64 and counting(4, CPU).tolist() == [0, 1, 2, 3]


def test_a_number_leaves_the_type_of_what_it_meets():
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        assert (torch.ones(2, dtype=dtype) * number(0.5, CPU)).dtype == dtype


def test_first_asked_for_without_gradients_they_serve_with_them_too():
    with torch.inference_mode():
        factor, rows = number(123.5, CPU), counting(123, CPU)
    values = torch.ones(123, 2, requires_grad=True)
    (values[rows, rows % 2] * factor).sum().backward()
    assert values.grad is not None and values.grad.sum() == 123 * 123.5


def test_compiled_code_gets_them_plain():
    found = torch.compile(lambda x: x * number(3.0, CPU) + counting(2, CPU), backend="eager", fullgraph=True)
    assert found(torch.ones(2)).tolist() == [3.0, 4.0]
