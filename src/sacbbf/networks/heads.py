"""Projections and policy heads by name: what turns latents into features, and features into logits of actions."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from sacbbf.agents.registry import Registry
from sacbbf.networks.layers import Linear

Build = Callable[[int, int], nn.Module]  # from the width of the input and of the output

PROJECTIONS: Registry[Build] = Registry("network.projection", {"linear": Linear})
POLICY_HEADS: Registry[Build] = Registry("network.policy_head", {"linear": Linear})


def register_projection(name: str, build: Build) -> None:
    """Make a projection of one's own known as `network.projection = name`: a module from (N, D) to (N, hidden).

    `build` gets D and hidden. Q branch and policy branch have one each; self-prediction compares their outputs.
    """
    PROJECTIONS.register(name, build)


def register_policy_head(name: str, build: Build) -> None:
    """Make a policy head of one's own known as `network.policy_head = name`: a module from (N, hidden) to (N, A).

    Its output are logits. `build` gets hidden and A. Its input is the projection after a relu.
    """
    POLICY_HEADS.register(name, build)
