"""The latent's rescaling to [0, 1], with its gradient written out: one pass each in C, a few in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from sacbbf.constants import number
from sacbbf.native import library, rescaling
from sacbbf.networks.precision import plainly_on_cpu

Back = Callable[[int, torch.Tensor, torch.Tensor], None]  # from a step's number and gradient to `out`


def natively(rows: torch.Tensor) -> bool:
    """Whether rows (..., D) are rescaled by the C functions."""
    return plainly_on_cpu(rows.device) and library.takes(rows)


def rescale(rows: torch.Tensor, out: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
    """Return (z - min) / (max - min + 1e-5) of each row of (N, D), in `out` if given; then min, max, scale (N, 1)."""
    if natively(rows):
        out = torch.empty_like(rows) if out is None else out
        low, high, scale = rows.new_empty(3, len(rows), 1).unbind(0)
        rescaling.rescale(rows, out, low, high, scale)
        return out, low, high, scale
    low, high = rows.amin(dim=1, keepdim=True), rows.amax(dim=1, keepdim=True)  # far faster than aminmax
    scale = (high - low).add_(number(1e-5, rows.device)).reciprocal_()
    return torch.sub(rows, low, out=out).mul_(scale), low, high, scale


def rescale_gradient(
    grad: torch.Tensor,
    rows: torch.Tensor,
    scaled: torch.Tensor,
    low: torch.Tensor,
    high: torch.Tensor,
    scale: torch.Tensor,
) -> torch.Tensor:
    """Gradient at the rows (N, D) from the one at `scaled`, given all that `rescale` returned."""
    if natively(rows):
        out = torch.empty_like(rows)
        rescaling.rescale_gradient(grad, rows, scaled, low, high, scale, out, relu=False)
        return out
    return _gradient(grad, scaled, scale, *_extremes(rows, low, high, scale))


def steps_back(rows: torch.Tensor, scaled: torch.Tensor, bounds: Sequence[torch.Tensor]) -> Back:
    """Return what takes a gradient back through one step's rescaling and the relu before it.

    `rows` (k, N, D) are the relu's answers of k steps and `scaled` what the rescaling made of them; `bounds` are their
    minimum, maximum and scale, (k, N, 1) each, or nothing if they were not rescaled. Gradients given are written to.
    """
    if bounds and natively(rows):
        of_rows, of_scaled, lows, highs, scales = (part.unbind(0) for part in (rows, scaled, *bounds))

        def back(step: int, grad: torch.Tensor, out: torch.Tensor) -> None:
            given = of_rows[step], of_scaled[step], lows[step], highs[step], scales[step]
            rescaling.rescale_gradient(grad, *given, out, relu=True)

        return back
    passed = torch.gt(rows, 0.0, out=torch.empty_like(rows))  # by the relus, as 0.0 and 1.0
    parts = (scaled, bounds[2], *_extremes(rows, *bounds)) if bounds else ()
    needed = [part.unbind(0) for part in parts]  # by `_gradient`, step by step

    def back_in_passes(step: int, grad: torch.Tensor, out: torch.Tensor) -> None:
        if needed:
            of_scaled, scales, at_low, at_ends = needed
            _gradient(grad, of_scaled[step], scales[step], at_low[step], at_ends[step], out=grad)
        torch.mul(grad, passed[step], out=out)

    return back_in_passes


def _extremes(
    rows: torch.Tensor, low: torch.Tensor, high: torch.Tensor, scale: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """What `_gradient` needs to know of rows (..., D), given their minimum, maximum and scale (..., 1).

    The first is the scale where a row has its minimum, shared evenly by all entries that tie for it, as JAX and
    PyTorch's own `amin` do, and 0 elsewhere; the second is that less the same for the maximum. After a relu the minimum
    is usually zero, and most entries tie for it.
    """
    at_low = torch.eq(rows, low, out=torch.empty_like(rows))  # sums of bools are slow
    at_high = torch.eq(rows, high, out=torch.empty_like(rows))
    at_low.mul_(scale / at_low.sum(dim=-1, keepdim=True))
    at_high.mul_(scale / at_high.sum(dim=-1, keepdim=True))
    return at_low, torch.sub(at_low, at_high, out=at_high)


def _gradient(
    grad: torch.Tensor,
    scaled: torch.Tensor,
    scale: torch.Tensor,
    at_low: torch.Tensor,
    at_ends: torch.Tensor,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Gradient at the rows (N, D) from the one at `scaled`, given scales (N, 1) and what `_extremes` returned.

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
        return rescale_gradient(grad, *ctx.saved_tensors)


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
