"""Agents with the smallest networks on toys, environments that count, and what acting needs of an agent."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from sacbbf import SACBBF
from toys import IDENTITY, Identity

STEPS = 160
SETTINGS = {
    "network.hidden_dim": 16,
    "network.width_scale": 0.25,
    "schedule.n_start": 5,
    "schedule.warmup": 64,
    "log_every": 20,
    "eval.parallel": 4,
}
FLAGS = [word for name, value in SETTINGS.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def make(env: Any = IDENTITY, **words: Any) -> SACBBF:
    """An agent of small networks."""
    settings = SETTINGS | words.pop("settings", {})
    return SACBBF(env, **{"seed": 3, "settings": settings, **words})


def kept(agent, folder) -> bytes:
    """All that acting needs of an agent, as bytes."""
    return (agent.save(folder) / "policy.safetensors").read_bytes()


class Spy(gymnasium.Wrapper):
    """Counts steps and resets; it records nothing of its arguments."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.steps, self.lengths = 0, [0]

    def reset(self, **words: Any) -> Any:
        self.lengths.append(0)
        return self.env.reset(**words)

    def step(self, action: Any) -> Any:
        self.steps += 1
        self.lengths[-1] += 1
        return self.env.step(action)


class Strict(Identity):
    """Identity with actions from 3 on, which takes no others."""

    def __init__(self) -> None:
        self.action_space = gymnasium.spaces.Discrete(5, start=3)

    def act(self, action: int) -> tuple[float, bool]:
        assert self.action_space.contains(action)
        return super().act(action - 3)


class Motion(gymnasium.Env[Any, Any]):
    """A light runs over five places, one way or the other; 1 for saying which. One frame alone does not tell."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (5,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.taken = 0, 0
        self.way = int(self.np_random.integers(2))
        return self.look(), {}

    def step(self, action: int) -> Any:
        reward = float(action == self.way)
        self.place = (self.place + 2 * self.way - 1) % 5
        self.taken += 1
        if self.np_random.random() < 0.2:
            self.way = 1 - self.way
        return self.look(), reward, False, self.taken == 12, {}

    def look(self) -> Any:
        return np.eye(5, dtype=np.float32)[self.place]
