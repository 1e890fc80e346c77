"""Illegal actions: `action_masks` tells the legal ones. Run: python examples/masked_environment.py [STEPS]"""

import sys

import gymnasium
import numpy as np

from sacbbf import SACBBF


class TicTacToe(gymnasium.Env):
    """Crosses against noughts that are placed by chance: 1 for a win, -1 for a loss, 0 for a draw."""

    observation_space, action_space = gymnasium.spaces.Box(0.0, 1.0, (18,), np.float32), gymnasium.spaces.Discrete(9)
    lines = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]])

    def reset(self, *, seed=None, options=None):
        """Empty the board (2, 9)."""
        super().reset(seed=seed)
        self.board = np.zeros((2, 9), np.float32)
        return self.board.flatten(), {}

    def action_masks(self):
        """Which fields (9,) are empty."""
        return ~self.board.any(axis=0)

    def step(self, action, player=0):
        """Place a cross; unless the game is over, a nought follows."""
        self.board[player, action] = 1.0
        won, full = self.board[player, self.lines].all(axis=1).any(), not self.action_masks().any()
        if won or full or player == 1:
            return self.board.flatten(), float(won) * (1 - 2 * player), bool(won or full), False, {}
        return self.step(self.np_random.choice(np.flatnonzero(self.action_masks())), player=1)


if __name__ == "__main__":
    gymnasium.register("TicTacToe-v0", TicTacToe)
    print(SACBBF("TicTacToe-v0").learn(int(sys.argv[1]) if sys.argv[1:] else 3_000).evaluate(20))
