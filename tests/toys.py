"""Environments whose best score is known, learned in seconds, and runs on them; importing registers them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from rich.console import Console

from sacbbf.agents.presets import Changes, change
from sacbbf.envs.base import EnvSpec
from sacbbf.run.settings import EvalConfig, RunConfig, resolve
from sacbbf.run.train import train
from sacbbf.types import Step


class Toy(gymnasium.Env[Any, Any]):
    """An episode of `length` steps; a toy says what one sees, what an action earns, and when it is over early."""

    length: ClassVar[int] = 10
    actions: ClassVar[int] = 2

    def __init__(self) -> None:
        self.action_space = spaces.Discrete(self.actions)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.taken = 0
        self.begin()
        return self.look(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.taken += 1
        reward, over = self.act(int(action))
        return self.look(), float(reward), over, not over and self.taken >= self.length, {}

    def begin(self) -> None:
        """Start an episode."""

    def look(self) -> Any:
        raise NotImplementedError

    def act(self, action: int) -> tuple[float, bool]:
        raise NotImplementedError


class Identity(Toy):
    """A new symbol at each step; 1 for the action of its number. Best 10, chance 2."""

    actions = 5
    observation_space = spaces.Box(0.0, 1.0, (5,), np.float32)

    def begin(self) -> None:
        self.symbol = int(self.np_random.integers(5))

    def look(self) -> Any:
        return np.eye(5, dtype=np.float32)[self.symbol]

    def act(self, action: int) -> tuple[float, bool]:
        reward = float(action == self.symbol)
        self.begin()
        return reward, False


class Corridor(Toy):
    """Twelve cells from left to right; 1 at the right end and nothing before. Best 1, chance about 0.1."""

    length = 30
    cells = 12
    observation_space = spaces.Box(0.0, 1.0, (12,), np.float32)

    def begin(self) -> None:
        self.cell = 0

    def look(self) -> Any:
        return np.eye(self.cells, dtype=np.float32)[self.cell]

    def act(self, action: int) -> tuple[float, bool]:
        self.cell = max(0, self.cell + (1 if action == 1 else -1))
        there = self.cell == self.cells - 1
        return float(there), there


class Catch(Toy):
    """A ball falls straight down, a paddle moves below it; 1 for a catch, else -1. Best 1, chance about -0.6."""

    length = 20
    actions = 3
    side = 5
    observation_space = spaces.Box(0, 1, (5, 5, 2), np.bool_)

    def begin(self) -> None:
        self.row, self.paddle = 0, self.side // 2
        self.column = int(self.np_random.integers(self.side))

    def look(self) -> Any:
        grid = np.zeros((self.side, self.side, 2), np.bool_)
        grid[self.row, self.column, 0] = True
        grid[-1, self.paddle, 1] = True
        return grid

    def act(self, action: int) -> tuple[float, bool]:
        self.paddle = min(max(self.paddle + action - 1, 0), self.side - 1)
        self.row += 1
        if self.row < self.side - 1:
            return 0.0, False
        return (1.0 if self.paddle == self.column else -1.0), True


class Favourite(Toy):
    """Nothing to see; 1 for action 2. Best 10 by always taking it."""

    actions = 4
    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)

    def look(self) -> Any:
        return np.zeros(1, np.float32)

    def act(self, action: int) -> tuple[float, bool]:
        return float(action == 2), False


class Alternate(Favourite):
    """1 for action 0 after action 2 and for 2 after 0: constants earn nothing, an even mix of the two 5 of 10."""

    def begin(self) -> None:
        self.last = 1

    def act(self, action: int) -> tuple[float, bool]:
        reward = float({self.last, action} == {0, 2})
        self.last = action
        return reward, False


class Jackpot(Favourite):
    """A reward of 5 at each step, far beyond what rewards are clipped to."""

    def act(self, action: int) -> tuple[float, bool]:
        return 5.0, False


class Endless(Favourite):
    """Never over by itself for a long time."""

    length = 1_000_000


class Noisy(Favourite):
    """What one sees comes from the system's randomness: no seed repeats it."""

    def look(self) -> Any:
        return np.frombuffer(os.urandom(1), np.uint8).astype(np.float32) / 255


class Drawn(Identity):
    """Identity with a picture, of odd sides: a light at the symbol's place."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode

    def render(self) -> Any:
        picture = np.zeros((7, 5, 3), np.uint8)
        picture[:, self.symbol] = 255
        return picture


class Choosy(Identity):
    """Identity with the symbol and some other actions legal, often but one; `action_masks()` tells, the rest raise.

    Over after eight steps, in a state without a legal action.
    """

    def begin(self) -> None:
        super().begin()
        self.legal = self.np_random.random(5) < 0.4
        self.legal[self.symbol] = True

    def act(self, action: int) -> tuple[float, bool]:
        if not self.legal[action]:
            raise RuntimeError(f"{action} is illegal")
        reward, _ = super().act(action)
        if self.taken >= 8:
            self.legal[:] = False
        return reward, self.taken >= 8

    def action_masks(self) -> Any:
        return self.legal


class Told(gymnasium.Wrapper):
    """Choosy, which tells by `info` instead; nothing when it is over."""

    def __init__(self) -> None:
        super().__init__(Choosy())

    def reset(self, **words: Any) -> tuple[Any, dict[str, Any]]:
        observation, _ = self.env.reset(**words)
        return observation, {"action_mask": self.unwrapped.legal.astype(np.int8)}

    def step(self, action: int) -> Any:
        *rest, over, truncated, _ = self.env.step(action)
        return *rest, over, truncated, {} if over else {"action_mask": self.unwrapped.legal.astype(np.int8)}

    def has_wrapper_attr(self, name: str) -> bool:
        return name != "action_masks" and super().has_wrapper_attr(name)


class Dictionary(Favourite):
    """Observations that are no array."""

    observation_space = spaces.Dict({"a": spaces.Text(8)})

    def look(self) -> Any:
        return {"a": "word"}


class Lives:
    """Two lives: the first is lost at step 3 of an episode, the game at step 6. Frames count the steps."""

    mask = None
    spec = EnvSpec("Lives", "vector", (1,), np.dtype(np.float32), 2, ("a", "b"), stack=3)

    def reset(self, seed: int) -> np.ndarray:
        self.taken = 0
        return np.full(1, 10.0, np.float32)

    def step(self, action: int) -> Step:
        self.taken += 1
        frame = np.full(1, 10.0 + self.taken, np.float32)
        return Step(frame, 3.0, terminated=self.taken == 6, truncated=False, life_lost=self.taken == 3)

    def render(self) -> np.ndarray:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to give back."""


# Words of commands: an environment, small networks, a run of seconds.
IDENTITY = "toys/Identity-v0"
SMALL = ["--network.hidden-dim", "16", "--network.width-scale", "0.25", "--schedule.n-start", "5"]
SHORT = ["--eval.episodes", "3", "--eval.no-baselines", "--quiet", *SMALL]

TOYS = (Identity, Corridor, Catch, Favourite, Alternate, Jackpot, Endless, Noisy, Drawn, Choosy, Told, Dictionary)
for toy in TOYS:
    if f"toys/{toy.__name__}-v0" not in gymnasium.registry:
        gymnasium.register(f"toys/{toy.__name__}-v0", entry_point=f"toys:{toy.__name__}", disable_env_checker=True)


def python_path() -> str:
    """PYTHONPATH for processes that import these toys, and the package from where this process has it."""
    return os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])


def toy_config(toy: str, steps: int, changes: Changes | None = None, **fields: Any) -> RunConfig:
    """A run of small networks on a toy: `changes` to the agent's settings, `fields` of the run or of `eval`."""
    small: Changes = {"network": {"hidden_dim": 16, "width_scale": 0.25}, "schedule": {"warmup": 64, "n_start": 5}}
    config, _ = resolve(f"toys/{toy}-v0", size="tiny-paper", steps=steps)
    of_eval = {name: fields.pop(name) for name in EvalConfig.__dataclass_fields__ if name in fields}
    settings = change(change(config.settings, small), changes or {})
    evaluation = EvalConfig(**{"episodes": 4, "every_episodes": 3, **of_eval})
    return replace(config, settings=settings, eval=evaluation, **{"log_every": 20, **fields})


def run_quietly(config: RunConfig, out: Path, max_hours: float | None = None) -> dict[str, Any]:
    """Train without a word."""
    return train(config, out, console=Console(quiet=True), max_hours=max_hours)
