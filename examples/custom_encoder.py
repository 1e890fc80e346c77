"""An encoder of one's own, with batch, group and layer norm inside, for MinAtar's grids.

python examples/custom_encoder.py [STEPS]
"""

import sys

from torch import nn

from sacbbf import SACBBF, register_encoder


class NormedGrid(nn.Sequential):
    """Two convolutions and a dense layer, a norm after each; latents must not be negative."""

    def __init__(self, in_shape, width_scale):
        channels, (planes, height, width) = 4 * round(4 * width_scale), in_shape
        super().__init__(
            nn.Conv2d(planes, channels, 3, padding=1),
            nn.BatchNorm2d(channels),  # the target network, acting and evaluation use its running statistics
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.GroupNorm(4, channels),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(channels * height * width, 128),
            nn.LayerNorm(128),
            nn.ReLU(),
        )
        self.out_shape = (128,)


register_encoder("normed-grid", NormedGrid)

if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    agent = SACBBF("MinAtar/Breakout-v1", settings={"network.encoder": "normed-grid"})
    print(agent.learn(steps, progress_bar=True).evaluate(20))
