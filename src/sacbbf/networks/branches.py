"""Both branches of a roll-out: projections of its latents, and what the predictors make of them.

One function with its gradient written out. The latents' gradients add up within the branches' products, the
projections' lie in one block, and predictions are written where the loss reads them: no gradient is joined or added
afterwards, which takes a small network as long as the products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from sacbbf.networks.precision import in_one_precision
from sacbbf.networks.wide_linear import input_gradient, output, weight_gradient

Branch = tuple[nn.Linear, nn.Linear]  # projection (D -> H) and predictor (H -> H), both with a bias


def read_branches(latents: torch.Tensor, branches: Sequence[Branch]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Predictions (V, k, B, H) and each branch's projection (B, H) of the first step, from latents (k + 1, B, D)."""
    parameters = [parameter for branch in branches for layer in branch for parameter in (layer.weight, layer.bias)]
    prediction, *features = in_one_precision(_Branches.apply, latents, *parameters)
    return prediction, features


class _Branches(torch.autograd.Function):
    """Takes weight and bias of each branch's projection and predictor, one branch after the other."""

    @staticmethod
    def forward(ctx: Any, latents: torch.Tensor, *parameters: torch.Tensor) -> tuple[torch.Tensor, ...]:
        size, rows = latents.shape[1], latents.flatten(0, 1)
        weights, biases, predictors, predictor_biases = (parameters[kind::4] for kind in range(4))
        features = [output(rows, *layer) for layer in zip(weights, biases, strict=True)]  # ((k + 1) * B, H) each
        prediction = latents.new_empty(len(features), latents.shape[0] - 1, size, predictors[0].shape[0])
        layers = zip(predictors, predictor_biases, strict=True)
        for found, layer, out in zip(features, layers, prediction.flatten(1, 2), strict=True):
            output(found[size:], *layer, out=out)
        ctx.save_for_backward(latents, *features, *weights, *predictors)
        return prediction, *(found[:size] for found in features)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor, *grad_now: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        latents, *saved = ctx.saved_tensors
        count, size, rows = len(grad_now), latents.shape[1], latents.flatten(0, 1)
        features, weights, predictors = (saved[first : first + count] for first in range(0, 3 * count, count))
        total, grads = None, []
        for branch, later in enumerate(grad.flatten(1, 2)):  # (k * B, H)
            found = features[branch]
            back = torch.empty_like(found)  # the gradient at the projections
            back[:size] = grad_now[branch]
            input_gradient(later, predictors[branch], out=back[size:])
            total = input_gradient(back, weights[branch], onto=total)
            grads += [weight_gradient(back, rows), back.sum(0), weight_gradient(later, found[size:]), later.sum(0)]
        assert total is not None
        return total.view(latents.shape), *grads
