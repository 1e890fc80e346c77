"""The latent's rescaling to [0, 1], with its gradient written out in a few passes."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from sacbbf.constants import number


def rescale(rows: torch.Tensor, out: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
    """Return (z - min) / (max - min + 1e-5) of each row of (N, D), in `out` if given; then min, max, scale (N, 1)."""
    low, high = rows.amin(dim=1, keepdim=True), rows.amax(dim=1, keepdim=True)  # far faster than aminmax
    scale = (high - low).add_(number(1e-5, rows.device)).reciprocal_()
    return torch.sub(rows, low, out=out).mul_(scale), low, high, scale


def extremes(
    rows: torch.Tensor, low: torch.Tensor, high: torch.Tensor, scale: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """What `rescale_gradient` needs to know of rows (..., D), given their minimum, maximum and scale (..., 1).

    The first is the scale where a row has its minimum, shared evenly by all entries that tie for it, as JAX and
    PyTorch's own `amin` do, and 0 elsewhere; the second is that less the same for the maximum. After a relu the minimum
    is usually zero, and most entries tie for it.
    """
    at_low = torch.eq(rows, low, out=torch.empty_like(rows))  # sums of bools are slow
    at_high = torch.eq(rows, high, out=torch.empty_like(rows))
    at_low.mul_(scale / at_low.sum(dim=-1, keepdim=True))
    at_high.mul_(scale / at_high.sum(dim=-1, keepdim=True))
    return at_low, torch.sub(at_low, at_high, out=at_high)


def rescale_gradient(
    grad: torch.Tensor,
    scaled: torch.Tensor,
    scale: torch.Tensor,
    at_low: torch.Tensor,
    at_ends: torch.Tensor,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Gradient at the rows (N, D) from the one at `scaled`, given scales (N, 1) and what `extremes` returned.

    It comes in `out` if given, which may be `grad` itself.
    """
    total = grad.sum(dim=1, keepdim=True)
    along = (grad * scaled).sum(dim=1, keepdim=True)
    return torch.mul(grad, scale, out=out).addcmul_(at_ends, along).addcmul_(at_low, total, value=-1)


class _Renormalize(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor) -> torch.Tensor:
        scaled, *bounds = rescale(rows)
        ctx.save_for_backward(rows, scaled, *bounds)
        return scaled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        rows, scaled, low, high, scale = ctx.saved_tensors
        return rescale_gradient(grad, scaled, scale, *extremes(rows, low, high, scale))


def renormalize(latent: torch.Tensor) -> torch.Tensor:
    """Rescale each sample to [0, 1] over all its entries: (z - min) / (max - min + 1e-5), any shape (N, ...)."""
    if latent.dim() == 2:
        return _rescaled(latent)
    rows = latent.permute(0, 2, 3, 1)  # contiguous where the latent is channels-last
    return _rescaled(rows.flatten(1)).view(rows.shape).permute(0, 3, 1, 2)


def _rescaled(rows: torch.Tensor) -> torch.Tensor:
    if not torch.is_grad_enabled():
        return rescale(rows)[0]
    return _Renormalize.apply(rows)  # type: ignore[no-any-return, no-untyped-call]
