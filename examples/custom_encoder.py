"""An encoder of one's own: a small residual network for MinAtar's grids.

python examples/custom_encoder.py [STEPS]
"""

import sys

import torch
from torch import nn

from sacbbf import SACBBF, register_encoder


class ResidualGrid(nn.Module):
    """Two convolutions with a short cut, then a dense layer; latents must not be negative."""

    def __init__(self, in_shape, width_scale):
        super().__init__()
        channels, (_, height, width) = round(24 * width_scale), in_shape
        self.first = nn.Conv2d(in_shape[0], channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.dense = nn.Linear(channels * height * width, 128)
        self.out_shape = (128,)

    def forward(self, grid):
        """Map (N, C, H, W) to (N, 128)."""
        hidden = torch.relu(self.first(grid))
        hidden = torch.relu(hidden + self.second(hidden))
        return torch.relu(self.dense(hidden.flatten(1)))


register_encoder("residual-grid", ResidualGrid)

if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    agent = SACBBF("MinAtar/Breakout-v1", settings={"network.encoder": "residual-grid"})
    agent.learn(steps, progress_bar=True)
    print(agent.evaluate(20))
