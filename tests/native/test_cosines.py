"""Cosines in C, against PyTorch's own operations and their gradients in double precision."""

from __future__ import annotations

import pytest
import torch

from sacbbf.native import library
from sacbbf.native.cosines import cosine, cosine_gradient

pytestmark = pytest.mark.skipif(library.library() is None, reason="no C functions here: no compiler, or not Linux")


def rows(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def plainly(x, y):
    length, other = (torch.linalg.vector_norm(each, dim=-1).clamp_min(1e-8) for each in (x, y))
    return length, other, (x * y).sum(-1) / (length * other)


@pytest.mark.parametrize("width", [1, 3, 128, 257])
def test_cosines_and_their_gradients_are_those_of_pytorch(width):
    x, y, grad = rows(2, 5, 7, width), rows(2, 5, 7, width, seed=1), rows(2, 5, 7, seed=2)
    leaf = x.double().requires_grad_()
    want = plainly(leaf, y.double())
    want[2].backward(grad.double())
    found = cosine(x, y)
    for part, other in zip(found, want, strict=True):
        torch.testing.assert_close(part.double(), other.detach(), rtol=1e-5, atol=1e-6)
    gradient = cosine_gradient(grad, x, y, *found)
    torch.testing.assert_close(gradient.double(), leaf.grad, rtol=1e-4, atol=1e-5)


def test_a_row_of_zeros_has_no_direction():
    x, y = torch.zeros(2, 4), rows(2, 4)
    y[1] = 0.0
    length, other, found = cosine(x, y)
    assert found.tolist() == [0.0, 0.0]
    assert length.tolist() == pytest.approx([1e-8, 1e-8]) and other[1].item() == pytest.approx(1e-8)
    assert cosine_gradient(torch.ones(2), x, y, length, other, found)[1].tolist() == [0.0] * 4


def test_one_gradient_for_several_rows():
    x, y = rows(3, 4, 6), rows(3, 4, 6, seed=1)
    same = torch.tensor([1.0, 2.0, 3.0, 4.0])
    found = cosine_gradient(same.expand(3, 4), x, y, *cosine(x, y))
    assert torch.equal(found, cosine_gradient(same.repeat(3, 1), x, y, *cosine(x, y)))
