"""Atari 100K's protocol, against the emulator driven frame by frame and against two other implementations."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import ale_py
import cv2
import gymnasium
import numpy as np
import numpy.typing as npt
import pytest

from sacbbf.envs import games
from sacbbf.envs.atari import AtariEnvironment, AtariSettings
from sacbbf.types import Step

QUIET = AtariSettings(max_noops=0)
SEEDS = {"Pong": 3, "Breakout": 1}  # of actions that score


class Oracle:
    """Slow and obvious: every grey screen of the game is kept, and looked up."""

    def __init__(self, game: str) -> None:
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale = ale_py.ALEInterface()
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.loadROM(ale_py.roms.get_rom_path(games.rom_id(game)))
        self.ale.reset_game()
        self.actions = self.ale.getMinimalActionSet()
        self.screens = [self.ale.getScreenGrayscale()]

    def frame(self) -> npt.NDArray[np.uint8]:
        pooled = np.stack(self.screens[-2:]).max(axis=0)
        return np.asarray(cv2.resize(pooled, (84, 84), interpolation=cv2.INTER_AREA))[None]

    def step(self, action: int) -> tuple[npt.NDArray[np.uint8], float, bool, bool, int]:
        lives, reward, frames = self.ale.lives(), 0, 0
        while frames < 4:
            reward += self.ale.act(self.actions[action])
            frames += 1
            self.screens.append(self.ale.getScreenGrayscale())
            if self.ale.game_over() or self.ale.lives() < lives:
                break
        over = self.ale.game_over()
        return self.frame(), float(reward), over, self.ale.lives() < lives and not over, frames


def random_actions(count: int, num_actions: int, seed: int = 0) -> Iterator[int]:
    return (int(action) for action in np.random.default_rng(seed).integers(num_actions, size=count))


def play(env: AtariEnvironment, seed: int, steps: int) -> list[tuple[Any, ...]]:
    """Everything that can be seen of an episode under the same actions."""
    seen: list[tuple[Any, ...]] = [(env.reset(seed).tobytes(),)]
    for action in random_actions(steps, env.spec.num_actions):
        step = env.step(action)
        seen.append((step.frame.tobytes(), step.reward, step.terminated, step.truncated, step.life_lost))
        if step.over:
            break
    return seen


@pytest.fixture(scope="module")
def breakout() -> AtariEnvironment:
    return AtariEnvironment("Breakout")


def test_spec(breakout: AtariEnvironment) -> None:
    spec = breakout.spec
    assert (spec.id, spec.game, spec.kind) == ("Breakout", "Breakout", "image")
    assert (spec.frame_shape, spec.frame_dtype) == ((1, 84, 84), np.dtype(np.uint8))
    assert spec.action_names == ("NOOP", "FIRE", "RIGHT", "LEFT")
    assert (spec.num_actions, spec.stack, spec.clip_rewards, spec.max_steps) == (4, 4, True, 27_000)


@pytest.mark.parametrize("game", ["Pong", "Breakout"])
def test_every_pixel_reward_and_end_is_the_oracles(game: str) -> None:
    env, oracle = AtariEnvironment(game, QUIET), Oracle(game)
    assert np.array_equal(env.reset(seed=0), oracle.frame())
    short_skips = rewards = 0
    for action in random_actions(400, env.spec.num_actions, seed=SEEDS[game]):
        step = env.step(action)
        frame, reward, over, life_lost, frames = oracle.step(action)
        assert np.array_equal(step.frame, frame)
        assert (step.reward, step.terminated, step.life_lost) == (reward, over, life_lost)
        short_skips += frames < 4
        rewards += reward != 0
        if over:
            break
    assert rewards > 0
    assert short_skips > 0 or game == "Pong"  # Breakout shows that a lost life ends the skip early


def test_pixels_and_rewards_are_those_of_other_implementations() -> None:
    env = AtariEnvironment("Pong", QUIET)
    vector = ale_py.AtariVectorEnv(
        "pong", 1, noop_max=0, use_fire_reset=False, reward_clipping=False, stack_num=1, num_threads=1
    )
    raw = gymnasium.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.0)
    wrapped = gymnasium.wrappers.AtariPreprocessing(raw, noop_max=0, frame_skip=4)
    frame = env.reset(seed=0)
    assert np.array_equal(frame, vector.reset(seed=0)[0][0])
    assert np.array_equal(frame[0], wrapped.reset(seed=0)[0])
    for action in random_actions(150, env.spec.num_actions):
        step = env.step(action)
        vector_frame, vector_reward, *_ = vector.step(np.array([action]))
        wrapped_frame, wrapped_reward, *_ = wrapped.step(action)
        assert np.array_equal(step.frame, vector_frame[0])
        assert np.array_equal(step.frame[0], wrapped_frame)
        assert step.reward == vector_reward[0]
        assert step.reward == wrapped_reward
    vector.close()
    wrapped.close()


def test_lost_lives_are_reported_and_only_the_last_ends_the_game(breakout: AtariEnvironment) -> None:
    breakout.reset(seed=1)
    steps: list[Step] = []
    fire = breakout.spec.action_names.index("FIRE")
    while not steps or not steps[-1].over:
        steps.append(breakout.step(fire))  # serve, and never move
    lost = [number for number, step in enumerate(steps) if step.life_lost]
    assert len(lost) == 4  # Breakout has five balls
    assert all(not steps[number].over for number in lost)
    assert steps[-1].terminated
    assert not steps[-1].life_lost
    assert not steps[-1].truncated


def test_lost_lives_can_be_left_out() -> None:
    env = AtariEnvironment("Breakout", AtariSettings(max_noops=0, life_loss=False))
    seen = play(env, seed=0, steps=1_000)
    assert not any(life_lost for *_, life_lost in seen[1:])
    assert seen[-1][2]  # terminated
    # Four frames for every step but perhaps the last: no lost life cut a skip short.
    assert (len(seen) - 2) * 4 < env._ale.getEpisodeFrameNumber() <= (len(seen) - 1) * 4


def test_a_life_gained_is_not_a_life_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    env = AtariEnvironment("Pong", QUIET)
    env.reset(seed=0)
    lives = iter([2, 3, 3, 2])
    monkeypatch.setattr(env, "_ale", SimpleNamespace(lives=lambda: next(lives)))
    assert [env._lost_life() for _ in range(4)] == [False, False, False, True]


def test_truncation_counts_agent_steps_but_no_noops() -> None:
    env = AtariEnvironment("Pong", AtariSettings(max_steps=5, max_noops=30))
    for seed in (0, 1):  # the count starts afresh with each episode
        env.reset(seed)
        steps = [env.step(0) for _ in range(5)]
        assert [step.truncated for step in steps] == [False] * 4 + [True]
        assert not any(step.terminated for step in steps)
    with pytest.raises(RuntimeError, match=r"Pong: the episode is over .* reset\(seed\)"):
        env.step(0)


def test_a_game_that_ends_at_the_limit_is_terminated_not_truncated(breakout: AtariEnvironment) -> None:
    length = len(play(breakout, seed=2, steps=5_000)) - 1
    env = AtariEnvironment("Breakout", AtariSettings(max_steps=length))
    *_, (_, _, terminated, truncated, _) = play(env, seed=2, steps=5_000)
    assert (terminated, truncated) == (True, False)


def test_noops_are_0_to_29_whole_agent_steps() -> None:
    env = AtariEnvironment("Pong")
    counts = [env._draw_noops(seed) for seed in range(3_000)]
    assert set(counts) == set(range(30))
    assert np.bincount(counts).min() > 60  # 100 each, if uniform
    for seed in (0, 1, 2):
        env.reset(seed)
        assert env._ale.getEpisodeFrameNumber() == 4 * env._draw_noops(seed)
    assert len({env._draw_noops(seed) for seed in (0, 1, 2)}) > 1


def test_the_frame_after_noops_is_the_oracles() -> None:
    env, oracle = AtariEnvironment("Pong"), Oracle("Pong")
    seed = next(seed for seed in range(100) if env._draw_noops(seed) > 20)
    for _ in range(env._draw_noops(seed)):
        oracle.step(0)
    assert np.array_equal(env.reset(seed), oracle.frame())


def test_a_life_lost_during_noops_means_another_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing kills within 30 no-ops in most games: let the emulator's third no-op do it.
    env = AtariEnvironment("Breakout", AtariSettings(max_noops=30))
    emulate, restart, events = env._emulate, env._restart, []

    def deadly(action: ale_py.Action) -> tuple[float, bool, bool]:
        events.append("no-op")
        reward, over, _ = emulate(action)
        return reward, over, events.count("no-op") == 3

    def noted() -> None:
        events.append("restart")
        restart()

    monkeypatch.setattr(env, "_draw_noops", lambda seed: 5)
    monkeypatch.setattr(env, "_emulate", deadly)
    monkeypatch.setattr(env, "_restart", noted)
    env.reset(seed=0)
    assert events == ["restart", "no-op", "no-op", "no-op", "restart", "no-op", "no-op"]
    assert env._ale.getEpisodeFrameNumber() == 8


@pytest.mark.parametrize(("game", "sticky"), [("Qbert", 0.0), ("Pong", 0.25)])
def test_an_episode_depends_on_its_seed_and_actions_alone(game: str, sticky: float) -> None:
    env = AtariEnvironment(game, AtariSettings(sticky=sticky))
    first = play(env, seed=5, steps=120)
    others = [play(env, seed, steps=150) for seed in (6, 7)]
    assert play(env, seed=5, steps=120) == first
    assert play(AtariEnvironment(game, AtariSettings(sticky=sticky)), seed=5, steps=120) == first
    assert all(other[:121] != first for other in others)


def test_no_trace_of_earlier_games_is_left() -> None:
    # Through a mere reset Frostbite keeps some of its memory: its third game would be another.
    env = AtariEnvironment("Frostbite", QUIET)
    played = [play(env, seed=0, steps=600) for _ in range(3)]
    assert played[0][-1][2]  # terminated
    assert played[0] == played[1]
    assert played[0] == played[2]


def test_without_sticky_actions_noops_are_the_only_chance() -> None:
    env = AtariEnvironment("Pong", QUIET)
    assert play(env, seed=0, steps=100) == play(env, seed=1, steps=100)
    sticky = AtariEnvironment("Pong", AtariSettings(max_noops=0, sticky=0.25))
    assert play(sticky, seed=0, steps=100) != play(sticky, seed=1, steps=100)


def test_frames_and_pictures(breakout: AtariEnvironment) -> None:
    frame = breakout.reset(seed=0)
    kept = frame.copy()
    breakout.step(1)
    assert np.array_equal(frame, kept)  # a frame stays as it was returned
    picture = breakout.render()
    assert (picture.shape, picture.dtype) == ((210, 160, 3), np.uint8)
    assert not np.array_equal(picture[..., 0], picture[..., 2])  # in colour


def test_size_frame_skip_and_action_set_are_settings() -> None:
    env = AtariEnvironment("Pong", AtariSettings(max_noops=0, size=42, frame_skip=2, full_action_set=True))
    assert env.reset(0).shape == (1, 42, 42)
    assert env.spec.num_actions == 18
    env.step(17)
    assert env._ale.getEpisodeFrameNumber() == 2


@pytest.mark.parametrize(
    ("setting", "value"),
    [("sticky", 1.0), ("sticky", -0.1), ("max_noops", -1), ("max_steps", 0), ("frame_skip", 0), ("size", 8.5)],
)
def test_settings_out_of_range_are_refused_by_name(setting: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"{setting} must be .*, got {value}"):
        AtariSettings(**{setting: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("action", [-1, 4, 1.0, True])
def test_actions_that_are_none_are_refused(breakout: AtariEnvironment, action: Any) -> None:
    breakout.reset(seed=0)
    with pytest.raises(ValueError, match=rf"Breakout: action must be an integer in 0 .. 3, got {action}"):
        breakout.step(action)
    breakout.step(int(np.int64(3)))


@pytest.mark.parametrize("seed", [-1, 2**32, 0.5])
def test_seeds_that_are_none_are_refused(breakout: AtariEnvironment, seed: Any) -> None:
    with pytest.raises(ValueError, match="seed must be an integer in"):
        breakout.reset(seed)


def test_the_emulator_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    AtariEnvironment("Pong").reset(seed=0)
    assert capfd.readouterr() == ("", "")
