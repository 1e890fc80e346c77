"""An environment of one's own: any Gymnasium environment with discrete actions, here a class that nobody registered.

python examples/custom_environment.py [STEPS] [SEED]
"""

import sys

import gymnasium
import numpy as np
from gymnasium.wrappers import TimeLimit

from sacbbf import SACBBF


class Corridor(gymnasium.Env):
    """Walk to the right end of a corridor of ten places; every step costs a little."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (10,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        """Begin at the left end."""
        super().reset(seed=seed)
        self.place = 0
        return np.eye(10, dtype=np.float32)[0], {}

    def step(self, action):
        """Go one place to the left (0) or to the right (1)."""
        self.place = max(0, self.place + (1 if action == 1 else -1))
        over = self.place == 9
        return np.eye(10, dtype=np.float32)[self.place], 1.0 if over else -0.01, over, False, {}


if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    print(SACBBF(lambda: TimeLimit(Corridor(), 100), seed=seed).learn(steps, progress_bar=True).evaluate(20))
