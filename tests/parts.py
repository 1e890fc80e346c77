"""Parts of one's own as users write them, one of each kind."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import gymnasium
import torch
from torch import nn
from torch.nn import functional as F

import sacbbf
from sacbbf.learner.auxiliary import AUXILIARY_LOSSES
from sacbbf.learner.optim import OPTIMISERS
from sacbbf.networks.encoders import ENCODERS, GridEncoder
from sacbbf.networks.heads import POLICY_HEADS, PROJECTIONS


class NormedEncoder(nn.Module):
    """For grids, with a batch, a group and a layer norm, and a buffer of threes."""

    def __init__(self, in_shape, width_scale):
        super().__init__()
        self.out_shape = (10,)
        self.conv0 = nn.Conv2d(in_shape[0], 4, 3, padding=1)
        self.batch_norm = nn.BatchNorm2d(4)
        self.conv1 = nn.Conv2d(4, 4, 3, padding=1)
        self.group_norm = nn.GroupNorm(2, 4)
        self.dense = nn.Linear(4 * math.prod(in_shape[1:]), 10)
        self.layer_norm = nn.LayerNorm(10)
        self.register_buffer("threes", torch.full((2,), 3.0))

    def forward(self, x):
        x = torch.relu(self.batch_norm(self.conv0(x)))
        x = torch.relu(self.group_norm(self.conv1(x)))
        return torch.relu(self.layer_norm(self.dense(x.flatten(1))))


class SameGrid(GridEncoder):
    """A subclass that changes nothing."""


class OwnProjection(nn.Module):
    """A projection that remembers how many rows it was called with, in training and in eval mode."""

    def __init__(self, inputs, hidden):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(inputs, hidden), nn.LayerNorm(hidden))
        self.called = {True: [], False: []}

    def forward(self, rows):
        self.called[self.training].append(len(rows))
        return self.layers(rows)


def own_head(hidden, actions):
    return nn.Sequential(nn.Linear(hidden, 6), nn.ReLU(), nn.Linear(6, actions))


class EndPrediction(nn.Module):
    """Whether the episode ends within n steps, from the latent of s_t."""

    def __init__(self, network):
        super().__init__()
        self.layer = nn.Linear(math.prod(network.encoder.out_shape), 1)

    def forward(self, terms, batch):
        logits = self.layer(terms.latent).squeeze(1)
        return F.binary_cross_entropy_with_logits(logits, batch.done.float(), reduction="none")


def latent_size(network):
    """A loss that is a plain function."""
    return lambda terms, batch: terms.latent.square().sum(dim=1)


def momentum(groups, settings):
    return torch.optim.SGD(groups, lr=settings.learning_rate, momentum=settings.adam_beta1)


REGISTRIES = (ENCODERS, PROJECTIONS, POLICY_HEADS, OPTIMISERS, AUXILIARY_LOSSES)
OWN = {
    "network": {"encoder": "normed", "projection": "own", "policy_head": "own"},
    "optimiser": {"name": "nadam"},
    "loss": {"auxiliary": "ends"},
}


@contextmanager
def registries_kept() -> Iterator[None]:
    """Forget afterwards what is registered meanwhile."""
    with ExitStack() as stack:
        for registry in REGISTRIES:
            stack.enter_context(patch.dict(registry.parts))
        stack.enter_context(patch.dict(gymnasium.registry))
        yield


@contextmanager
def registered() -> Iterator[None]:
    """Know these parts meanwhile, by the names in `OWN` and some more."""
    with registries_kept():
        _register()
        yield


def _register() -> None:
    sacbbf.register_encoder("normed", NormedEncoder)
    sacbbf.register_encoder("same-grid", SameGrid)
    sacbbf.register_projection("own", OwnProjection)
    sacbbf.register_policy_head("own", own_head)
    sacbbf.register_optimiser("nadam", torch.optim.NAdam)
    sacbbf.register_optimiser("adagrad", torch.optim.Adagrad)
    sacbbf.register_optimiser("adafactor", torch.optim.Adafactor)
    sacbbf.register_optimiser("momentum", momentum)
    sacbbf.register_auxiliary_loss("ends", EndPrediction)
    sacbbf.register_auxiliary_loss("latent-size", latent_size)
