"""Rescaling rows in C, against PyTorch's own operations and their gradients in double precision."""

from __future__ import annotations

import pytest
import torch

from sacbbf.native import library
from sacbbf.native.rescaling import rescale, rescale_gradient

pytestmark = pytest.mark.skipif(library.library() is None, reason="no C functions here: no compiler, or not Linux")

WIDTHS = [1, 2, 7, 200, 1568]


def relu_rows(width, seed=0, count=9):
    """Rows as a relu leaves them: many zeros, one row all zero, one with a maximum that several entries have."""
    rows = torch.randn(count, width, generator=torch.Generator().manual_seed(seed)).relu_()
    rows[1] = 0.0
    rows[2, : max(1, width // 3)] = 5.0
    rows[3] = rows[3].abs() + 0.5  # no zero
    return rows


def plainly(rows):
    """The definition, in PyTorch's own operations."""
    low, high = rows.amin(1, keepdim=True), rows.amax(1, keepdim=True)
    return (rows - low) / (high - low + 1e-5)


def natively(rows):
    out = torch.empty_like(rows)
    low, high, scale = rows.new_empty(3, len(rows), 1).unbind(0)
    rescale(rows, out, low, high, scale)
    return out, low, high, scale


@pytest.mark.parametrize("width", WIDTHS)
def test_rows_are_rescaled(width):
    rows = relu_rows(width)
    before = rows.clone()
    out, low, high, scale = natively(rows)
    torch.testing.assert_close(out.double(), plainly(rows.double()), rtol=1e-5, atol=1e-6)
    assert torch.equal(low, rows.amin(1, keepdim=True)) and torch.equal(high, rows.amax(1, keepdim=True))
    torch.testing.assert_close(scale, 1.0 / (high - low + 1e-5))
    assert torch.equal(rows, before)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("in_place", [True, False])
def test_gradients_are_those_of_pytorch(width, relu, in_place):
    rows = relu_rows(width)
    grad = torch.randn(rows.shape, generator=torch.Generator().manual_seed(1))
    leaf = rows.double().requires_grad_()
    plainly(leaf).backward(grad.double())
    want = leaf.grad * (rows > 0) if relu else leaf.grad
    out = grad if in_place else torch.empty_like(rows)
    rescale_gradient(grad, rows, *natively(rows), out, relu=relu)
    reach = want.abs().amax(1, keepdim=True).clamp_min(1.0)
    torch.testing.assert_close(out.double() / reach, want / reach, rtol=1e-4, atol=1e-5)


def test_a_gradient_may_lie_anyhow_in_memory():
    rows = relu_rows(1568, count=40)
    grad = torch.randn(1568, len(rows), generator=torch.Generator().manual_seed(1)).t()
    found, want = torch.empty_like(rows), torch.empty_like(rows)
    rescale_gradient(grad, rows, *natively(rows), found, relu=True)
    rescale_gradient(grad.contiguous(), rows, *natively(rows), want, relu=True)
    assert torch.equal(found, want)


def test_threads_change_no_bit():
    rows, grad = relu_rows(1568, count=33), torch.randn(33, 1568)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            scaled = natively(rows)
            out = torch.empty_like(rows)
            rescale_gradient(grad, rows, *scaled, out, relu=True)
            found.append(torch.cat((out, *scaled), dim=1))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_what_is_not_a_number_stays_visible():
    rows = relu_rows(40)
    rows[4, 3] = float("nan")
    assert natively(rows)[0][4].isnan().any()


def test_which_rows_are_taken():
    rows = relu_rows(8)
    assert library.takes(rows)
    assert not library.takes(rows.double())
    assert not library.takes(rows.t())
    assert not library.takes(rows.to("meta"))
