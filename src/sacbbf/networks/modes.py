"""A network's mode: in training, layers such as batch norm and dropout do what they do only then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Put a network into eval mode meanwhile: norms use the statistics that they have gathered, and gather none."""
    training = network.training
    if training:
        network.eval()
    try:
        yield
    finally:
        if training:
            network.train()
