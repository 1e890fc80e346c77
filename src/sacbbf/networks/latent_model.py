"""The transition model: latents of the next k steps from a latent and actions.

The model is a layer of the latent joined by the one-hot action, relu, a second layer, relu; layers are 3x3
convolutions for images, with the action as constant planes, and matrices for vectors. What an action adds to the first
layer depends on nothing else, so it is computed once for all steps. The roll-out's gradient is written out: weights
get theirs from all k steps at once, which is faster than step by step. On a small map a convolution is one matrix for
the whole map (small_map.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from sacbbf.networks import convolution
from sacbbf.networks.encoders import flatten, images
from sacbbf.networks.precision import in_one_precision
from sacbbf.networks.renormalize import rescale, steps_back
from sacbbf.networks.small_map import SmallMap, Taps

Shape = tuple[int, ...]  # of one latent: (C, H, W) or (D,)
Steps = tuple[torch.Tensor, ...]  # one tensor for each step

SMALL_MAP = 256  # entries of a map up to which a convolution is computed as one matrix


def by_step(rows: torch.Tensor, shape: Shape) -> tuple[Steps, Steps]:
    """Latents (k, N, D) step by step: as rows (N, D), and as layers read them, which may be as images (N, C, H, W)."""
    one_by_one = rows.unbind(0)
    if len(shape) == 1:
        return one_by_one, one_by_one
    channels, height, width = shape
    return one_by_one, rows.view(*rows.shape[:2], height, width, channels).permute(0, 1, 4, 2, 3).unbind(0)


def add_layer(sum_: torch.Tensor, latents: torch.Tensor, weight: torch.Tensor) -> None:
    """Add one layer's answer to latents in place to `sum_`, and take the relu; both as layers read them (`by_step`).

    A layer is a matrix (D, D), turned already, or a 3x3 convolution.
    """
    if latents.dim() == 2:
        torch.addmm(sum_, latents, weight, out=sum_).relu_()
    elif convolution.fuses(latents):
        convolution.add_onto(sum_, latents, weight, relu=True)
    else:
        sum_.add_(F.conv2d(latents, weight, padding=1)).relu_()


def input_gradient(
    grad: torch.Tensor, latents: torch.Tensor, weight: torch.Tensor, out: torch.Tensor | None
) -> torch.Tensor:
    """Gradient of a layer's input, as layers read it; a matrix's comes in `out`."""
    if latents.dim() == 2:
        return torch.mm(grad, weight, out=out)
    return convolution.input_gradient(grad, latents, weight)


def weight_gradient(grad: torch.Tensor, rows: torch.Tensor, weight: torch.Tensor, shape: Shape) -> torch.Tensor:
    """Gradient of a layer's weight, summed over all rows (N, D)."""
    if len(shape) == 1:
        return grad.t() @ rows
    return convolution.weight_gradient(images(grad, shape), images(rows, shape), weight)


class _RollOut(torch.autograd.Function):
    """Latents (k + 1, N, D) from the first one (N, D) and actions (k, N), given what each action adds (A, D).

    `bias1` is (D,). Every step writes into memory that is there already, which holds what its layer's answer is added
    to: what is small is soonest found in the cache again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        first: torch.Tensor,
        added: torch.Tensor,
        weight0: torch.Tensor,
        weight1: torch.Tensor,
        bias1: torch.Tensor,
        actions: torch.Tensor,
        shape: Shape,
        renormalize: bool,
    ) -> torch.Tensor:
        steps = actions.shape[0]
        latents = first.new_empty(steps + 1, *first.shape)
        latents[0] = first
        hidden = added.index_select(0, actions.flatten()).view(steps, *first.shape)
        raw = bias1.expand_as(hidden).contiguous()
        bounds = []
        first_layer, second_layer = (weight.t() if len(shape) == 1 else weight for weight in (weight0, weight1))
        # Once for all steps: views cost as much as small layers.
        (z, before), (_, within), (y, after) = (by_step(rows, shape) for rows in (latents, hidden, raw))
        for now in range(steps):
            add_layer(within[now], before[now], first_layer)
            add_layer(after[now], within[now], second_layer)
            if renormalize:
                bounds.append(rescale(y[now], out=z[now + 1])[1:])
            else:
                z[now + 1].copy_(y[now])
        stacked = [torch.stack(parts) for parts in zip(*bounds, strict=True)]  # low, high and scale, (k, N, 1) each
        ctx.save_for_backward(latents, hidden, raw, weight0, weight1, actions, *stacked)
        ctx.shape = shape
        ctx.num_actions = added.shape[0]
        return latents

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        latents, hidden, raw, weight0, weight1, actions, *bounds = ctx.saved_tensors
        shape = ctx.shape
        steps = raw.shape[0]
        # Gradients at the layers' outputs; the first one's are at first what its relus let through, as 0.0 and 1.0.
        grad0, grad1 = torch.gt(hidden, 0.0, out=torch.empty_like(hidden)), torch.empty_like(raw)
        (_, before), (_, within) = by_step(latents, shape), by_step(hidden, shape)
        (_, g0), (rows1, g1) = by_step(grad0, shape), by_step(grad1, shape)
        back = steps_back(raw, latents[1:], bounds)
        *later, last = grad.unbind(0)
        carried = last.clone()
        for now in reversed(range(steps)):
            back(now, carried, rows1[now])
            inner = input_gradient(g1[now], within[now], weight1, out=carried)
            outer = input_gradient(g0[now].mul_(inner), before[now], weight0, out=carried)
            carried = flatten(outer).add_(later[now])
        flat0, flat1 = grad0.flatten(0, 1), grad1.flatten(0, 1)
        grad_weight0 = weight_gradient(flat0, latents[:steps].flatten(0, 1), weight0, shape)
        grad_weight1 = weight_gradient(flat1, hidden.flatten(0, 1), weight1, shape)
        grad_added = grad0.new_zeros(ctx.num_actions, flat0.shape[1]).index_add_(0, actions.flatten(), flat0)
        return carried, grad_added, grad_weight0, grad_weight1, flat1.sum(dim=0), None, None, None


class TransitionModel(nn.Module):
    """Predicts the next latent from a latent, (C, H, W) or (D,), and an action."""

    def __init__(self, latent_shape: Sequence[int], num_actions: int) -> None:
        super().__init__()
        self.shape = tuple(latent_shape)
        self.num_actions = num_actions
        width = self.shape[0]
        kind, make = ("conv", convolution.Conv3x3) if len(self.shape) == 3 else ("linear", nn.Linear)
        self.add_module(f"{kind}0", make(width + num_actions, width))
        self.add_module(f"{kind}1", make(width, width))
        self.taps = Taps(*self.shape[1:]) if len(self.shape) == 3 else None
        small = len(self.shape) == 3 and math.prod(self.shape) <= SMALL_MAP
        self.small_map = SmallMap(width, *self.shape[1:]) if small else None

    def forward(self, latent: torch.Tensor, actions: torch.Tensor, renormalize: bool) -> torch.Tensor:
        """Latents of this and the next k steps, (k + 1, N, D) flattened, from (N, ...) and actions (k, N)."""
        first, second = (cast("nn.Linear | nn.Conv2d", child) for child in list(self.children())[:2])
        weight0, by_action = first.weight.split([self.shape[0], self.num_actions], dim=1)  # type: ignore[no-untyped-call]
        weight1, shape = second.weight, self.shape
        assert second.bias is not None
        bias1 = second.bias.expand(math.prod(shape[1:]), -1).flatten()  # (D,): the same at each place
        if self.small_map is not None:
            weight0, weight1 = self.small_map.matrices(torch.stack((weight0, weight1))).unbind(0)
            shape = (math.prod(shape),)
        elif len(shape) == 3:
            weight0 = weight0.contiguous(memory_format=torch.channels_last)
        tensors = (flatten(latent), self._added(by_action, first.bias), weight0, weight1, bias1)
        return in_one_precision(lambda *cast: _RollOut.apply(*cast, actions, shape, renormalize), *tensors)  # type: ignore[no-any-return, no-untyped-call]

    def _added(self, by_action: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """What each action adds to the first layer's output, bias included: (A, D)."""
        assert bias is not None
        return by_action.t() + bias if self.taps is None else self.taps.planes(by_action, bias)
