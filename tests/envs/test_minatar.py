"""MinAtar's games, against MinAtar's own front end and by behaviour."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from sacbbf.envs import minatar as module
from sacbbf.envs.base import MissingExtra
from sacbbf.envs.minatar import MinAtarEnvironment, MinAtarSettings

pytest.importorskip("minatar")

MINIMAL = {"Asterix": 5, "Breakout": 3, "Freeway": 3, "Seaquest": 6, "SpaceInvaders": 4}
CHANNELS = {"Asterix": 4, "Breakout": 4, "Freeway": 7, "Seaquest": 10, "SpaceInvaders": 6}


def play(env: MinAtarEnvironment, seed: int, steps: int) -> list[tuple[Any, ...]]:
    seen: list[tuple[Any, ...]] = [(env.reset(seed).tobytes(),)]
    for action in np.random.default_rng(0).integers(env.spec.num_actions, size=steps):
        step = env.step(int(action))
        seen.append((step.frame.tobytes(), step.reward, step.terminated, step.truncated, step.life_lost))
        if step.over:
            break
    return seen


@pytest.mark.parametrize("game", MINIMAL)
def test_specs(game: str) -> None:
    minimal = MinAtarEnvironment(f"MinAtar/{game}-v1").spec
    full = MinAtarEnvironment(f"MinAtar/{game}-v0").spec
    assert (minimal.num_actions, full.num_actions) == (MINIMAL[game], 6)
    assert len(minimal.action_names) == MINIMAL[game]
    assert (minimal.kind, minimal.frame_shape) == ("grid", (CHANNELS[game], 10, 10))
    assert minimal.frame_dtype == np.dtype(np.bool_)
    assert (minimal.stack, minimal.clip_rewards, minimal.game, minimal.max_steps) == (1, False, None, 5_000)


def test_action_names_are_those_of_the_actions() -> None:
    env = MinAtarEnvironment("MinAtar/Breakout-v1", MinAtarSettings(sticky=0.0))
    assert env.spec.action_names == ("noop", "left", "right")
    env.reset(0)
    paddles = [int(np.flatnonzero(env.step(action).frame[0, 9])[0]) for action in (0, 1, 1, 2)]
    assert paddles == [4, 3, 2, 3]


@pytest.mark.parametrize("game", MINIMAL)
def test_episodes_are_those_of_minatars_own_front_end(game: str) -> None:
    import minatar

    env = MinAtarEnvironment(f"MinAtar/{game}-v0", MinAtarSettings(sticky=0.3))
    for seed in (0, 1):
        oracle = minatar.Environment(module.GAMES[game], sticky_action_prob=0.3)
        oracle.seed(seed)
        oracle.reset()
        assert np.array_equal(env.reset(seed), np.moveaxis(oracle.state(), 2, 0))
        for action in np.random.default_rng(seed).integers(6, size=300):
            step = env.step(int(action))
            reward, terminal = oracle.act(int(action))
            assert np.array_equal(step.frame, np.moveaxis(oracle.state(), 2, 0))
            assert (step.reward, step.terminated) == (reward, terminal)
            if terminal:
                break


@pytest.mark.parametrize("game", MINIMAL)
def test_an_episode_depends_on_its_seed_and_actions_alone(game: str) -> None:
    env = MinAtarEnvironment(f"MinAtar/{game}-v1", MinAtarSettings(sticky=0.5))
    first = play(env, seed=3, steps=200)
    others = [play(env, seed, steps=200) for seed in range(10, 14)]
    assert play(env, seed=3, steps=200) == first
    assert play(MinAtarEnvironment(f"MinAtar/{game}-v1", MinAtarSettings(sticky=0.5)), 3, 200) == first
    assert any(other != first for other in others)


def test_the_last_action_of_an_episode_does_not_stick_to_the_next() -> None:
    env = MinAtarEnvironment("MinAtar/Breakout-v1", MinAtarSettings(sticky=0.999))
    left = env.spec.action_names.index("left")
    env.reset(0)
    env._last_action = 1  # as after an episode that ended on "left"
    env.reset(0)
    assert env.step(left).frame[0, 9, 4]  # the no-op was repeated: the paddle stays


def test_truncation() -> None:
    env = MinAtarEnvironment("MinAtar/Freeway-v1", MinAtarSettings(max_steps=7))
    for seed in (0, 1):
        env.reset(seed)
        steps = [env.step(0) for _ in range(7)]
        assert [step.truncated for step in steps] == [False] * 6 + [True]
        assert not any(step.terminated or step.life_lost for step in steps)
    with pytest.raises(RuntimeError, match="the episode is over"):
        env.step(0)


def test_ramping_is_passed_on() -> None:
    for ramping in (True, False):
        env = MinAtarEnvironment("MinAtar/Asterix-v1", MinAtarSettings(ramping=ramping, sticky=0.0))
        env.reset(0)
        assert env._game.ramping is ramping


def test_pictures_show_every_object() -> None:
    env = MinAtarEnvironment("MinAtar/Breakout-v1")
    frame = env.reset(0)
    picture = env.render()
    assert (picture.shape, picture.dtype) == ((320, 320, 3), np.uint8)
    assert np.array_equal(picture[::32, ::32].any(axis=2), frame.any(axis=0))
    assert np.array_equal(picture[31::32, 31::32], picture[::32, ::32])


@pytest.mark.parametrize(("setting", "value"), [("sticky", 1.5), ("max_steps", 0)])
def test_settings_out_of_range_are_refused_by_name(setting: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"{setting} must be .*, got {value}"):
        MinAtarSettings(**{setting: value})  # type: ignore[arg-type]


def test_without_the_extra_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minatar", None)  # type: ignore[arg-type]
    module._rules.cache_clear()
    with pytest.raises(MissingExtra, match=r"pip install sacbbf\[minatar\]"):
        MinAtarEnvironment("MinAtar/Breakout-v1")


def test_no_plotting_library_is_imported() -> None:
    code = (
        "import sys; from sacbbf.envs.make import make_env; make_env('MinAtar/Breakout-v1').reset(0);"
        "print(sorted({'minatar', 'matplotlib', 'seaborn', 'ale_py'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # Atari names are looked up first, hence ale_py.
    assert answer.stdout.strip() == "['ale_py']"
