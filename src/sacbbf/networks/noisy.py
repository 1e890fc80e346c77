"""Linear layers with learned, factorised Gaussian noise (Fortunato et al. 2018), as Rainbow explores with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional as F

SIGMA = 0.1  # initial noise, times 1 / sqrt(inputs) (DER, SPR: 0.1)

LayerNoise = tuple[torch.Tensor, torch.Tensor]  # of one layer: f(e_in) (in,), f(e_out) (out,)
Draw = Callable[[Sequence[int]], torch.Tensor]  # standard normal draws of a shape


def factor(normal: torch.Tensor) -> torch.Tensor:
    """sign(x) sqrt(|x|): the product of two such factors is the noise of one weight."""
    return normal.sign() * normal.abs().sqrt()


class NoisyLinear(nn.Module):
    """y = (W + W_sigma * (f(e_out) f(e_in)^T)) x + b + b_sigma * f(e_out), with noise that stays until drawn again."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight, self.weight_sigma = (nn.Parameter(torch.empty(out_features, in_features)) for _ in range(2))
        self.bias, self.bias_sigma = (nn.Parameter(torch.empty(out_features)) for _ in range(2))
        self.reset_parameters()
        self.noise: LayerNoise | None = None

    def draw(self, normal: Draw) -> LayerNoise:
        """Return new noise."""
        return factor(normal((self.in_features,))), factor(normal((self.out_features,)))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Means uniform within 1 / sqrt(inputs), sigmas constant."""
        bound = 1.0 / math.sqrt(self.in_features)
        for mean in (self.weight, self.bias):
            mean.uniform_(-bound, bound)
        for sigma in (self.weight_sigma, self.bias_sigma):
            sigma.fill_(SIGMA * bound)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, in) to (N, out); without noise, by the means.

        The noise of a weight is a product, so its share is one product more and no noisy matrix is made.
        """
        mean = F.linear(x, self.weight, self.bias)
        if self.noise is None:
            return mean
        noise_in, noise_out = self.noise
        return mean + F.linear(x * noise_in, self.weight_sigma, self.bias_sigma) * noise_out
