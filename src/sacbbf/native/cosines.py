"""Cosines of rows in one pass, and the gradient of them in another."""

from __future__ import annotations

import torch

from sacbbf.native import library


def cosine(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Lengths of the last dimension's rows of x and y (..., D), at least 1e-8 each, and their cosines, (...) each."""
    functions = library.library()
    assert functions is not None, "library.takes was not asked"
    lengths, others, cosines = x.new_empty(3, *x.shape[:-1]).unbind(0)
    pointers = (each.data_ptr() for each in (x, y, lengths, others, cosines))
    functions.cosine(*pointers, cosines.numel(), x.shape[-1], torch.get_num_threads())
    return lengths, others, cosines


def cosine_gradient(
    grad: torch.Tensor,
    x: torch.Tensor,
    y: torch.Tensor,
    lengths: torch.Tensor,
    others: torch.Tensor,
    cosines: torch.Tensor,
) -> torch.Tensor:
    """Gradient at x (..., D), from the one at the cosines (...) and all that `cosine` returned."""
    functions = library.library()
    assert functions is not None, "library.takes was not asked"
    out = torch.empty_like(x)
    grad = grad.contiguous()  # held by a name until the call is over
    pointers = (each.data_ptr() for each in (grad, x, y, lengths, others, cosines, out))
    functions.cosine_gradient(*pointers, cosines.numel(), x.shape[-1], torch.get_num_threads())
    return out
