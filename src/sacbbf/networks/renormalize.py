"""The latent's rescaling to [0, 1], with its gradient written out in a few passes."""

from __future__ import annotations

from typing import Any

import torch


def rescale(rows: torch.Tensor, out: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
    """Return (z - min) / (max - min + 1e-5) of each row of (N, D), in `out` if given; then min, max, scale (N, 1)."""
    low, high = rows.amin(dim=1, keepdim=True), rows.amax(dim=1, keepdim=True)  # far faster than aminmax
    scale = (high - low + 1e-5).reciprocal_()
    return torch.sub(rows, low, out=out).mul_(scale), low, high, scale


def extremes(rows: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Where rows (..., D) have their minimum, and where their maximum, as 0.0 and 1.0; how often each, (..., 1).

    After a relu the minimum is usually zero, and most entries tie for it.
    """
    at_low = torch.eq(rows, low, out=torch.empty_like(rows))  # sums of bools are slow
    at_high = torch.eq(rows, high, out=torch.empty_like(rows))
    return at_low, at_high, at_low.sum(dim=-1, keepdim=True), at_high.sum(dim=-1, keepdim=True)


def rescale_gradient(
    grad: torch.Tensor,
    scaled: torch.Tensor,
    scale: torch.Tensor,
    at_low: torch.Tensor,
    at_high: torch.Tensor,
    lows: torch.Tensor,
    highs: torch.Tensor,
) -> torch.Tensor:
    """Gradient at the rows (N, D) from the one at `scaled`, given scales (N, 1) and `extremes`; overwrites `at_low`.

    Entries that tie for the minimum or maximum share its gradient evenly, as JAX and PyTorch's own `amin` do.
    """
    total = grad.sum(dim=1, keepdim=True)
    along = (grad * scaled).sum(dim=1, keepdim=True)
    share_low = (along - total).div_(lows)
    share_high = along.div_(highs)
    return at_low.mul_(share_low).addcmul_(at_high, share_high, value=-1).add_(grad).mul_(scale)


class _Renormalize(torch.autograd.Function):
    @staticmethod
    def forward(rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return rescale(rows)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[torch.Tensor], output: tuple[torch.Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*inputs, *output)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, *unused: torch.Tensor) -> torch.Tensor:
        rows, scaled, low, high, scale = ctx.saved_tensors
        return rescale_gradient(grad, scaled, scale, *extremes(rows, low, high))


def renormalize(latent: torch.Tensor) -> torch.Tensor:
    """Rescale each sample to [0, 1] over all its entries: (z - min) / (max - min + 1e-5), any shape (N, ...)."""
    if latent.dim() == 2:
        return _Renormalize.apply(latent)[0]  # type: ignore[no-any-return, no-untyped-call]
    rows = latent.permute(0, 2, 3, 1)  # contiguous where the latent is channels-last
    scaled = _Renormalize.apply(rows.flatten(1))[0].view(rows.shape)  # type: ignore[no-untyped-call]
    return scaled.permute(0, 3, 1, 2)  # type: ignore[no-any-return]
