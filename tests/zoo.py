"""Environments of uncommon spaces, wrappers for them, and modules as users bring them; importing registers them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from toys import Toy


class Shelf(Toy):
    """A level and a symbol in a Dict; 1 for the action of the symbol's number."""

    actions = 3
    observation_space = spaces.Dict({"symbol": spaces.Discrete(3), "level": spaces.Box(-9.0, 9.0, (2,), np.float32)})

    def begin(self) -> None:
        self.symbol = int(self.np_random.integers(3))

    def look(self) -> Any:
        return {"symbol": self.symbol, "level": np.array([self.taken, -1.5], np.float32)}

    def act(self, action: int) -> tuple[float, bool]:
        reward = float(action == self.symbol)
        self.begin()
        return reward, False


class Buttons(gymnasium.Env[Any, Any]):
    """Two levers at once, (2, 3) positions; `worth` for the action (1, 2). Keeps what it was given."""

    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)

    def __init__(self, worth: float = 1.0, length: int = 10) -> None:
        self.action_space = spaces.MultiDiscrete([2, 3])
        self.worth, self.length = worth, length

    def get_action_meanings(self) -> list[list[str]]:
        return [["stay", "up"], ["hold", "aim", "fire"]]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.taken = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.taken += 1
        return np.zeros(1, np.float32), self.worth * (action.tolist() == [1, 2]), self.taken >= self.length, False, {}


class Room(Toy):
    """A room of 7x7 cells with an object, a colour and a state each, as MiniGrid shows; 1 for reaching the goal."""

    actions = 4
    length = 20
    observation_space = spaces.Box(0, 255, (7, 7, 3), np.uint8)
    moves = ((0, 1), (1, 0), (0, -1), (-1, 0))

    def begin(self) -> None:
        self.place = np.array([1, 1])
        self.goal = self.np_random.integers(1, 6, 2)

    def look(self) -> Any:
        cells = np.zeros((7, 7, 3), np.uint8)
        cells[..., 0] = 1
        cells[[0, -1]] = cells[:, [0, -1]] = (2, 5, 0)
        cells[tuple(self.goal)] = (8, 1, 0)
        cells[tuple(self.place)] = (10, 0, 1)
        return cells

    def act(self, action: int) -> tuple[float, bool]:
        self.place = np.clip(self.place + self.moves[action], 1, 5)
        there = bool((self.place == self.goal).all())
        return float(there), there


class Screen(Toy):
    """A picture of 100x90 pixels, with nothing to do."""

    observation_space = spaces.Box(0, 255, (100, 90, 3), np.uint8)

    def look(self) -> Any:
        return np.full((100, 90, 3), self.taken, np.uint8)

    def act(self, action: int) -> tuple[float, bool]:
        return 1.0, False


class Tenfold(gymnasium.RewardWrapper[Any, Any]):
    """Ten times the reward."""

    def reward(self, reward: Any) -> float:
        return 10.0 * float(reward)


class OneMore(gymnasium.RewardWrapper[Any, Any]):
    """One more than the reward."""

    def reward(self, reward: Any) -> float:
        return 1.0 + float(reward)


class Broken(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Cannot be put on anything."""

    def __init__(self, env: Any) -> None:
        raise RuntimeError("no lever here")


for kind in (Shelf, Buttons, Room, Screen):
    if f"zoo/{kind.__name__}-v0" not in gymnasium.registry:
        gymnasium.register(f"zoo/{kind.__name__}-v0", entry_point=f"zoo:{kind.__name__}", disable_env_checker=True)
