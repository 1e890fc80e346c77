"""Roll-outs on small maps: a 3x3 convolution of so few pixels as one matrix for the whole map.

Replaces `TransitionModel.forward` where a latent has at most 256 entries, on a CPU. Which tap of a kernel joins which
two places of a map depends on the map's size alone, so a matrix is one small product of the weights with that table,
made once for all k steps; so is what an action's plane adds.
"""

from __future__ import annotations

from functools import lru_cache
from typing import cast

import torch
from torch.nn import functional as F

from sacbbf.networks.layers import Conv2d, renormalize, to_maps, to_rows
from sacbbf.networks.transition import TransitionModel

REPLACES = TransitionModel
LARGEST = 256  # entries of a latent


def applies(model: TransitionModel) -> bool:
    """Whether a model's latents are small maps, and its layers are like those that it came with."""
    if not model.spatial or model.latent_entries > LARGEST:
        return False
    return all(is_padded_3x3(layer) and layer.weight.device.type == "cpu" for layer in (model.conv0, model.conv1))


def is_padded_3x3(layer: Conv2d) -> bool:
    """Whether a layer is our convolution with a 3x3 kernel, a bias, padding by one, and nothing else."""
    shape = (layer.kernel_size, layer.padding, layer.stride, layer.dilation, layer.groups, layer.padding_mode)
    plain = ((3, 3), (1, 1), (1, 1), (1, 1), 1, "zeros")
    return type(layer) is Conv2d and shape == plain and layer.bias is not None


def forward(model: TransitionModel, latent: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
    """Latents of the next k steps, (k, N, C, H, W), from a latent (N, C, H, W) and actions (k, N)."""
    shape = tuple(latent.shape[1:])
    channels, places = shape[0], shape[1] * shape[2]
    taps = table(shape[1], shape[2], latent.device)  # (9, P, P)
    from_latent, from_action = model.conv0.weight.split([channels, model.num_actions], dim=1)  # type: ignore[no-untyped-call]
    weights = torch.stack((from_latent, model.conv1.weight)).reshape(-1, 9)  # (2 * C * C, 9)
    entries = (weights @ taps.flatten(1)).view(
        2, channels, channels, places, places
    )  # layer, to C, from C, from P, to P
    matrix0, matrix1 = entries.permute(0, 3, 2, 4, 1).reshape(2, channels * places, channels * places)  # (D, D) each
    planes = (from_action.flatten(2) @ taps.sum(1)).permute(1, 2, 0)  # (A, P, C)
    added = (planes + model.conv0.bias).flatten(1)[actions]  # (k, N, D)
    bias1 = cast(torch.Tensor, model.conv1.bias).repeat(places)  # (D,)
    rows, latents = to_rows(latent), []
    for shift in added:
        rows = F.relu_(torch.addmm(shift, rows, matrix0))
        rows = F.relu_(torch.addmm(bias1, rows, matrix1))
        rows = renormalize(rows) if model.renormalize else rows
        latents.append(rows)
    return torch.unflatten(to_maps(torch.cat(latents), shape), 0, actions.shape)


@lru_cache
@torch.inference_mode(False)
def table(height: int, width: int, device: torch.device) -> torch.Tensor:
    """Return (9, P, P): 1 where a tap of a padded 3x3 convolution takes the first place to the second, else 0."""
    places = height * width
    units = torch.eye(places, device=device).view(places, 1, height, width)
    return F.unfold(units, 3, padding=1).transpose(0, 1).contiguous()
