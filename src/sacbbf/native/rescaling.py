"""Rows rescaled to [0, 1] in one pass, and the gradient of it in another."""

from __future__ import annotations

import torch

from sacbbf.native import library


def rescale(rows: torch.Tensor, out: torch.Tensor, low: torch.Tensor, high: torch.Tensor, scale: torch.Tensor) -> None:
    """Write (z - min) / (max - min + 1e-5) of each row of (N, D) to `out`, and min, max and scale to (N, 1) each."""
    functions = library.library()
    assert functions is not None, "library.takes was not asked"
    pointers = (each.data_ptr() for each in (rows, out, low, high, scale))
    functions.rescale(*pointers, *rows.shape, torch.get_num_threads())


def rescale_gradient(
    grad: torch.Tensor,
    rows: torch.Tensor,
    scaled: torch.Tensor,
    low: torch.Tensor,
    high: torch.Tensor,
    scale: torch.Tensor,
    out: torch.Tensor,
    *,
    relu: bool,
) -> None:
    """Write the gradient at rows (N, D) to `out`, given the one at what `rescale` made of them and all that it wrote.

    Ties for a row's minimum or maximum share its gradient evenly. With `relu` the rows are a relu's answer, and the
    gradient is the one before it. `out` may be `grad`.
    """
    functions = library.library()
    assert functions is not None, "library.takes was not asked"
    grad = grad.contiguous()  # held by a name until the call is over
    pointers = (each.data_ptr() for each in (grad, rows, scaled, low, high, scale, out))
    functions.rescale_gradient(*pointers, *rows.shape, relu, torch.get_num_threads())
