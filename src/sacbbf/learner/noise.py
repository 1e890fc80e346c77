"""Where a learner's random numbers come from: one generator, the few distributions an update draws from."""

from __future__ import annotations

from collections.abc import Sequence

import torch

SMALLEST = torch.finfo(torch.float32).tiny  # keeps the logarithm of a draw of exactly zero finite


class Noise:
    """Draws for one learner, on the generator's device."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator
        self.device = generator.device

    def gumbel(self, shape: Sequence[int]) -> torch.Tensor:
        """Return standard Gumbel noise, float32: argmax(logits + noise) is a draw from softmax(logits)."""
        exponential = torch.empty(tuple(shape), dtype=torch.float32, device=self.device)
        return exponential.exponential_(generator=self.generator).clamp_(min=SMALLEST).log_().neg_()

    def normal(self, shape: Sequence[int]) -> torch.Tensor:
        """Return standard normal noise, float32."""
        return torch.randn(tuple(shape), generator=self.generator, dtype=torch.float32, device=self.device)

    def integers(self, high: int, shape: Sequence[int]) -> torch.Tensor:
        """Integers from 0 to high - 1, int64."""
        return torch.randint(high, tuple(shape), generator=self.generator, device=self.device)


class NoNoise(Noise):
    """The most likely action instead of a draw, for comparing with numbers computed elsewhere; draws nothing else."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def gumbel(self, shape: Sequence[int]) -> torch.Tensor:
        """Return zeros."""
        return torch.zeros(tuple(shape), dtype=torch.float32, device=self.device)
