"""Optional replacements for speed, each beside the plain function that it replaces; `compute.kernels` turns them off.

A kernel replaces the `forward` of one exact type, never of a subclass. It steps aside for a module that has hooks
within, which only the plain `forward` would call. The networks do not know it.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import nn
from torch.nn.modules import module as everywhere

from sacbbf.kernels import small_map
from sacbbf.networks.replacements import REPLACEMENTS


class Kernel(Protocol):
    """What each file of this room has."""

    REPLACES: type[nn.Module]

    def applies(self, module: Any) -> bool:
        """Whether it computes what a module of that type would."""

    def forward(self, module: Any, *args: torch.Tensor) -> torch.Tensor:
        """Compute what the module's own `forward` would."""


KERNELS: dict[str, Kernel] = {"small_map": small_map}  # type: ignore[dict-item]


class Forward:
    """A kernel in the place of one module's `forward`."""

    def __init__(self, name: str, module: nn.Module) -> None:
        self.name = name  # not the kernel itself, so that a network can still be copied
        self.module = module

    def __call__(self, *args: torch.Tensor) -> torch.Tensor:
        """Compute by the kernel, or plainly where somebody waits for a layer's call or a layer was exchanged."""
        module, kernel = self.module, KERNELS[self.name]
        if any(is_watched(layer) for layer in module.children()) or not kernel.applies(module):
            return type(module).forward(module, *args)  # type: ignore[no-any-return]
        return kernel.forward(module, *args)


def is_watched(module: nn.Module) -> bool:
    """Whether more than its type's `forward` happens when a module is called: hooks, or a `forward` of its own."""
    hooks = (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
        everywhere._global_forward_hooks,
        everywhere._global_forward_pre_hooks,
        everywhere._global_backward_hooks,
        everywhere._global_backward_pre_hooks,
    )
    return any(hooks) or "forward" in vars(module)


def install(network: nn.Module) -> list[str]:
    """Put kernels in the place of a network's forwards where they apply; returns the names of those in use."""
    used = []
    for module in network.modules():
        for name, kernel in KERNELS.items():
            if type(module) is kernel.REPLACES and kernel.applies(module):
                module.forward = Forward(name, module)
                used.append(name)
    return used


REPLACEMENTS.append(install)
