"""Atari games under the Atari 100K protocol, straight on the emulator: no wrapper stands in between."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path

import ale_py
import cv2
import numpy as np
from ale_py import roms

from sacbbf import seeding
from sacbbf.envs import games
from sacbbf.envs.base import Clock, EnvError, EnvSpec, Pixels, check_at_least, check_seed, check_sticky
from sacbbf.types import Frame, Step


@dataclass(frozen=True)
class AtariSettings:
    """The protocol's settings; the defaults are those of Atari 100K."""

    sticky: float = 0.0  # probability that the emulator repeats its last action, each frame
    max_noops: int = 30  # agent steps; 0 .. max_noops - 1 no-ops begin an episode, outside max_steps
    max_steps: int = 27_000  # agent steps until an episode is cut off: 108,000 frames, 30 minutes
    frame_skip: int = 4  # frames per agent step
    size: int = 84  # pixels; height and width of a frame
    life_loss: bool = True  # whether a lost life ends the frame skip and is reported
    full_action_set: bool = False  # all 18 actions instead of those the game reacts to

    def __post_init__(self) -> None:
        check_sticky(self.sticky)
        check_at_least("max_noops", self.max_noops, 0)
        for name in ("max_steps", "frame_skip", "size"):
            check_at_least(name, getattr(self, name), 1)


def _rom_path(game: str) -> Path:
    """Where ale-py keeps the game's ROM; its chatter about a ROM folder must not get into our output."""
    with contextlib.redirect_stdout(sys.stderr):
        path = roms.get_rom_path(games.rom_id(game))
    if path is None:
        raise EnvError(f"game = {game!r} has no ROM in this ale-py")
    return Path(path)


class AtariEnvironment:
    """One Atari game: grey frames of (1, size, size) uint8, raw rewards, lost lives reported apart."""

    mask = None  # every action is always legal

    def __init__(self, game: str, settings: AtariSettings | None = None) -> None:
        self._settings = settings or AtariSettings()
        self._rom = _rom_path(game)
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self._ale = ale_py.ALEInterface()
        self._load(seed=0)
        full = self._settings.full_action_set
        self._actions = self._ale.getLegalActionSet() if full else self._ale.getMinimalActionSet()
        screen = self._ale.getScreenDims()  # (H, W): 210 x 160, a few games are taller
        self._screens = np.zeros((2, *screen), dtype=np.uint8)  # the last two emulated frames
        self._latest = 0  # which of the two is the newest
        self._lives = 0
        self._spec = self._make_spec(game)
        self._clock = Clock(self._spec)

    def _make_spec(self, game: str) -> EnvSpec:
        return EnvSpec(
            id=game,
            kind="image",
            frame_shape=(1, self._settings.size, self._settings.size),
            frame_dtype=np.dtype(np.uint8),
            num_actions=len(self._actions),
            action_names=tuple(action.name for action in self._actions),
            stack=4,
            clip_rewards=True,
            game=game,
            max_steps=self._settings.max_steps,
        )

    @property
    def spec(self) -> EnvSpec:
        """What a learner must know of this game."""
        return self._spec

    def reset(self, seed: int) -> Frame:
        """Begin the episode of `seed` with its no-ops; the frame after them, (1, size, size) uint8."""
        seed = check_seed(seed)
        # A plain reset leaves traces of the last game in some ROMs' memory, and the emulator's own
        # random numbers would go on: only loading the ROM again makes an episode stand alone (0.1 s).
        self._load(seeding.derive_seed(seed, "atari", "emulator") % seeding.EPISODE_SEEDS)
        self._restart()
        for _ in range(self._draw_noops(seed)):
            _, game_over, life_lost = self._emulate(ale_py.Action.NOOP)
            if game_over or life_lost:
                self._restart()  # the no-ops that are left follow, as in the released code
        self._clock.start()
        return self._frame()

    def step(self, action: int) -> Step:
        """Hold the action for `frame_skip` frames, or until a life is lost or the game is over."""
        action = self._clock.check(action)
        reward, terminated, life_lost = self._emulate(self._actions[action])
        truncated = self._clock.tick(terminated)
        return Step(self._frame(), reward, terminated, truncated, life_lost)

    def render(self) -> Pixels:
        """The game's screen in colour, (H, W, 3) uint8: 210 x 160 in most games."""
        screen: Pixels = self._ale.getScreenRGB()
        return screen

    def close(self) -> None:
        """Nothing to give back: the emulator's memory goes with the object."""

    def _load(self, seed: int) -> None:
        self._ale.setInt("random_seed", seed)
        self._ale.setFloat("repeat_action_probability", self._settings.sticky)
        self._ale.loadROM(self._rom)

    def _draw_noops(self, seed: int) -> int:
        """How many no-op steps begin the episode of `seed`: uniform over 0 .. max_noops - 1."""
        if self._settings.max_noops == 0:
            return 0
        return int(seeding.numpy_generator(seed, "atari", "no-ops").integers(self._settings.max_noops))

    def _restart(self) -> None:
        self._ale.reset_game()
        self._lives = self._ale.lives()
        self._ale.getScreenGrayscale(self._screens[0])
        self._screens[1] = self._screens[0]  # one frame so far: it is its own maximum

    def _emulate(self, action: ale_py.Action) -> tuple[float, bool, bool]:
        """Up to `frame_skip` frames of one action: (their reward, game over, life lost but not the game)."""
        reward = 0.0
        for _ in range(self._settings.frame_skip):
            reward += self._ale.act(action)
            # Every frame is fetched, as the skip may end at any of them.
            self._latest = 1 - self._latest
            self._ale.getScreenGrayscale(self._screens[self._latest])
            if self._ale.game_over(with_truncation=False):
                return reward, True, False
            if self._settings.life_loss and self._lost_life():
                return reward, False, True
        return reward, False, False

    def _lost_life(self) -> bool:
        """Whether the last frame cost a life; games that count no lives always have 0."""
        before, self._lives = self._lives, self._ale.lives()
        return self._lives < before

    def _frame(self) -> Frame:
        """Maximum of the last two emulated frames (sprites flicker), shrunk by area: (1, size, size)."""
        pooled = np.maximum(self._screens[0], self._screens[1])  # (H, W)
        size = self._settings.size
        frame = np.asarray(cv2.resize(pooled, (size, size), interpolation=cv2.INTER_AREA), dtype=np.uint8)
        return frame[np.newaxis]
