"""MinAtar's five games, straight on their rules: 10 x 10 grids with a channel per kind of object."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from sacbbf.envs.base import (
    Clock,
    EnvSpec,
    MissingExtra,
    Pixels,
    UnknownEnvironment,
    check_at_least,
    check_seed,
    check_sticky,
)
from sacbbf.envs.raw import RawSide
from sacbbf.types import Frame, Step

GAMES = {
    "Asterix": "asterix",
    "Breakout": "breakout",
    "Freeway": "freeway",
    "Seaquest": "seaquest",
    "SpaceInvaders": "space_invaders",
}
# v0 has all six actions in every game, v1 only those that the game reacts to.
NAMES = tuple(f"MinAtar/{game}-v{version}" for game in GAMES for version in (0, 1))
ACTIONS = ("noop", "left", "up", "right", "down", "fire")
CELL = 32  # pixels; side of a rendered cell

# One colour per channel, later channels painted over earlier ones; ten is the most a game has.
COLOURS = np.array(
    [
        [0, 0, 0],
        [72, 120, 208],
        [238, 133, 74],
        [106, 204, 100],
        [214, 95, 95],
        [149, 108, 180],
        [140, 97, 60],
        [220, 126, 192],
        [121, 121, 121],
        [213, 187, 103],
        [130, 198, 226],
    ],
    dtype=np.uint8,
)


@dataclass(frozen=True)
class MinAtarSettings:
    """MinAtar's own settings, and a limit that it does not have."""

    sticky: float = 0.1  # probability that the last action is repeated; MinAtar's default
    ramping: bool = True  # whether games get harder as they go; MinAtar's default
    max_steps: int = 5_000  # agent steps until an episode is cut off: without a limit some never end

    def __post_init__(self) -> None:
        check_sticky(self.sticky)
        check_at_least("max_steps", self.max_steps, 1)


@cache
def _rules(module: str) -> Any:
    """The class with one game's rules.

    Its file is loaded by itself: importing the package brings in plotting libraries, which takes seconds.
    """
    package = importlib.util.find_spec("minatar")
    if package is None or not package.submodule_search_locations:
        raise MissingExtra("MinAtar's games need the package MinAtar: pip install sacbbf[minatar]")
    path = Path(package.submodule_search_locations[0]) / "environments" / f"{module}.py"
    spec = importlib.util.spec_from_file_location(f"_minatar_{module}", path)
    if spec is None or spec.loader is None or not path.exists():
        raise MissingExtra(f"this MinAtar has no game {module}: pip install --upgrade sacbbf[minatar]")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded.Env


class MinAtarEnvironment:
    """One MinAtar game, grids of (C, 10, 10) bool: the same episodes as `minatar.Environment` for a seed."""

    mask = None  # every action is always legal

    def __init__(self, name: str, settings: MinAtarSettings | None = None) -> None:
        if name not in NAMES:
            raise UnknownEnvironment(f"{name!r} is not one of MinAtar's games: {', '.join(NAMES)}")
        self._settings = settings or MinAtarSettings()
        game, version = name.removeprefix("MinAtar/").split("-v")
        self._rules = _rules(GAMES[game])
        self._last_action = 0
        self._game = self._new_game(seed=0)
        self._actions = self._game.minimal_action_set() if version == "1" else list(range(len(ACTIONS)))
        channels = len(self._game.channels)
        self._spec = EnvSpec(
            id=name,
            kind="grid",
            frame_shape=(channels, 10, 10),
            frame_dtype=np.dtype(np.bool_),
            num_actions=len(self._actions),
            action_names=tuple(ACTIONS[action] for action in self._actions),
            max_steps=self._settings.max_steps,
        )
        self._clock = Clock(self._spec)

    @property
    def spec(self) -> EnvSpec:
        """What a learner must know of this game."""
        return self._spec

    @property
    def raw(self) -> RawSide:
        """The spaces of the environment that MinAtar registers with Gymnasium under this name."""
        channels, *sides = self._spec.frame_shape
        grids: spaces.Space[Any] = spaces.Box(0, 1, (*sides, channels), np.bool_)
        return RawSide(grids, spaces.Discrete(self._spec.num_actions), _planes, int, int)

    def reset(self, seed: int) -> Frame:
        """Begin the episode of `seed`; its first grid, (C, 10, 10) bool."""
        self._game = self._new_game(check_seed(seed))
        self._clock.start()
        return self._frame()

    def step(self, action: int) -> Step:
        """Take the action, or the last one again with probability `sticky`."""
        action = self._actions[self._clock.check(action)]
        if self._random.random_sample() < self._settings.sticky:
            action = self._last_action
        self._last_action = action
        reward, terminated = self._game.act(action)
        truncated = self._clock.tick(bool(terminated))
        return Step(self._frame(), float(reward), bool(terminated), truncated, life_lost=False)

    def render(self) -> Pixels:
        """The grid with a colour per channel, (320, 320, 3) uint8."""
        frame = self._frame()  # (C, 10, 10)
        number = np.arange(1, len(frame) + 1)[:, np.newaxis, np.newaxis]
        cells: Pixels = COLOURS[np.max(frame * number, axis=0)]  # (10, 10, 3)
        return cells.repeat(CELL, axis=0).repeat(CELL, axis=1)

    def close(self) -> None:
        """Nothing to give back."""

    def _new_game(self, seed: int) -> Any:
        """A game of its own for each episode: a reset would keep the last action of the one before."""
        self._random = np.random.RandomState(seed)
        self._last_action = 0
        game = self._rules(ramping=self._settings.ramping)
        game.random = self._random
        game.reset()
        return game

    def _frame(self) -> Frame:
        return _planes(self._game.state())


def _planes(grid: npt.ArrayLike) -> Frame:
    """(10, 10, C) -> (C, 10, 10) bool."""
    return np.array(np.asarray(grid, np.bool_).transpose(2, 0, 1), order="C")
