"""Optional replacements for speed, each beside the plain function that it replaces; `compute.kernels` turns them off.

A kernel replaces the `forward` of one exact type, never of a subclass. It steps aside for a module that has hooks
within, which only the plain `forward` would call. The networks do not know it.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import nn

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

    def __init__(self, kernel: Kernel, module: nn.Module) -> None:
        self.kernel = kernel
        self.module = module

    def __call__(self, *args: torch.Tensor) -> torch.Tensor:
        """Compute by the kernel, or plainly where a hook waits for a layer's call or a layer was exchanged."""
        module = self.module
        if any(has_hooks(layer) for layer in module.children()) or not self.kernel.applies(module):
            return type(module).forward(module, *args)  # type: ignore[no-any-return]
        return self.kernel.forward(module, *args)


def has_hooks(module: nn.Module) -> bool:
    """Whether anything is to be called when a module is, forwards or backwards."""
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def install(network: nn.Module) -> list[str]:
    """Put kernels in the place of a network's forwards where they apply; returns the names of those in use."""
    used = []
    for module in network.modules():
        for name, kernel in KERNELS.items():
            if type(module) is kernel.REPLACES and kernel.applies(module):
                module.forward = Forward(kernel, module)
                used.append(name)
    return used


REPLACEMENTS.append(install)
