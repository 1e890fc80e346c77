"""Where environments come from: names, objects with their wrappers, functions; and what evaluation plays on."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit, TransformReward

from sacbbf.envs.base import EnvError
from sacbbf.envs.make import EnvSettings, make_env
from sacbbf.envs.source import source_of
from toys import Identity


class Spy(gymnasium.Wrapper):
    """Counts steps; it records nothing of its arguments."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.steps = 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self.env.step(action)


class Recorded(gymnasium.Wrapper, gymnasium.utils.RecordConstructorArgs):
    """Adds to the reward, and records by how much."""

    def __init__(self, env: Any, more: float) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, more=more)
        super().__init__(env)
        self.more = more

    def step(self, action: Any) -> Any:
        observation, reward, *rest = self.env.step(action)
        return observation, float(reward) + self.more, *rest


def play(env: Any, seed: int = 3, steps: int = 6) -> list[Any]:
    shown = [env.reset(seed).tolist()]
    for number in range(steps):
        step = env.step(number % 2)
        shown.append((step.frame.tolist(), step.reward, step.over))
        if step.over:
            break
    return shown


@pytest.mark.parametrize(("given", "name"), [("ms_pacman", "MsPacman"), ("CartPole-v1", "CartPole-v1")])
def test_a_name_is_as_make_env_resolves_it(given, name):
    source = source_of(given)
    assert (source.name, source.repeatable, source.shared, source.given) == (name, True, False, None)
    assert source.spec == make_env(name).spec


def test_a_plain_object_goes_by_its_id_and_is_trained_itself():
    raw = gymnasium.make("CartPole-v1")
    source = source_of(raw)
    assert (source.name, source.repeatable, source.shared) == ("CartPole-v1", True, False)
    assert source.given is raw.unwrapped
    source.make().reset(7)
    assert np.allclose(raw.unwrapped.state, gymnasium.make("CartPole-v1").reset(seed=7)[0])
    assert play(source.make_for_play()) == play(make_env("CartPole-v1"))
    assert source_of(raw).repeatable  # played already
    assert source_of(gymnasium.make("CartPole-v1", render_mode="rgb_array")).repeatable


def test_unrecorded_wrappers_make_evaluation_play_on_the_object_itself():
    spy = Spy(gymnasium.make("CartPole-v1"))
    source = source_of(TimeLimit(spy, 5))
    assert source.name == "custom:TimeLimit(Spy(CartPole-v1))"
    assert (source.repeatable, source.shared) == (False, True)
    assert "the object itself" in source.description
    assert "Spy does not record its arguments" in source.description
    assert source.spec.id == source.name
    assert source.parallel(8) == 1
    env = source.make()
    assert [row[2] for row in play(env)[1:]] == [False] * 4 + [True]
    assert spy.steps == 5
    env.close()
    source.make_for_play().reset(0)
    assert spy.steps == 5


def test_recorded_wrappers_are_copied_in_their_order():
    raw = TimeLimit(Recorded(TransformReward(gymnasium.make("CartPole-v1"), lambda r: 2 * r), more=0.5), 4)
    source = source_of(raw)
    assert source.name == "custom:TimeLimit(Recorded(TransformReward(CartPole-v1)))"
    assert (source.repeatable, source.shared) == (False, False)
    assert "copies" in source.description
    assert source.parallel(8) == 8
    copy = source.make_for_play()
    assert copy.spec == source.spec
    assert play(copy) == play(source.make())
    assert play(copy)[1][1] == 2.5
    assert len(play(copy)) == 5
    drawn = source.make_for_play(render=False)
    drawn.close()


def test_a_copy_can_draw_where_the_object_does_not():
    source = source_of(TimeLimit(gymnasium.make("toys/Drawn-v0"), 4))
    copy = source.make_for_play(render=True)
    copy.reset(0)
    assert copy.render().shape == (7, 5, 3)
    with pytest.raises(EnvError, match="rendering needs render_mode"):
        source.make(render=True)


def test_other_arguments_or_limits_are_not_taken_for_the_plain_environment():
    slippery = source_of(gymnasium.make("CartPole-v1", sutton_barto_reward=True))
    assert (slippery.name, slippery.repeatable, slippery.shared) == ("custom:CartPole-v1", False, False)
    assert play(slippery.make_for_play()) == play(slippery.make())
    limited = source_of(gymnasium.make("CartPole-v1", max_episode_steps=3))
    assert (limited.name, limited.repeatable) == ("custom:TimeLimit(CartPole-v1)", False)
    assert len(play(limited.make_for_play())) == 4
    changed = gymnasium.make("CartPole-v1")
    changed.unwrapped.gravity = 1.0
    source = source_of(changed)
    assert (source.name, source.repeatable, source.shared) == ("custom:CartPole-v1", False, True)
    assert "its gravity was changed" in source.description


def test_an_object_that_is_not_registered():
    source = source_of(Identity())
    assert (source.name, source.repeatable, source.shared) == ("custom:Identity", False, True)
    assert "was not made by gymnasium.make" in source.description


def test_a_function_is_called_for_every_environment():
    made: list[Any] = []

    def short() -> Any:
        made.append(Spy(gymnasium.make("CartPole-v1", max_episode_steps=3)))
        return made[-1]

    source = source_of(short)
    assert source.name.startswith("custom:") and source.name.endswith("short")
    assert (source.repeatable, source.shared) == (False, False)
    play(source.make())
    play(source.make_for_play())
    assert [spy.steps for spy in made] == [3, 3]
    plain = source_of(lambda: gymnasium.make("CartPole-v1"))
    assert (plain.name, plain.repeatable) == ("CartPole-v1", True)
    assert source_of(Identity).name == "custom:Identity"


def test_settings_hold_for_objects_and_functions():
    settings = EnvSettings(max_steps=2)
    recorded = TransformReward(gymnasium.make("CartPole-v1"), lambda reward: reward)
    for env in (gymnasium.make("CartPole-v1"), recorded, Identity(), Identity):
        source = source_of(env, settings)
        assert source.spec.max_steps == 2
        assert len(play(source.make())) == len(play(source.make_for_play())) == 3
    with pytest.raises(EnvError, match=r"sticky = 0\.25 is for Atari"):
        source_of(Identity(), EnvSettings(sticky=0.25))


def test_the_raw_side_leads_to_frames_and_numbers_and_back():
    class Odd(Identity):
        def __init__(self) -> None:
            self.action_space = gymnasium.spaces.Discrete(5, start=3)

    for source in (source_of(Odd), source_of(Odd())):
        raw = source.raw
        assert raw is not None and raw.action_space == gymnasium.spaces.Discrete(5, start=3)
        assert [raw.to_action(number) for number in range(5)] == [3, 4, 5, 6, 7]
        assert [raw.to_number(action) for action in (3, 7)] == [0, 4]
        assert raw.to_frame([0, 1, 0, 0, 0]).dtype == source.spec.frame_dtype
    minatar = source_of("MinAtar/Breakout-v1").raw
    assert minatar is not None and minatar.observation_space.shape == (10, 10, 4)
    grid = np.random.default_rng(0).random((10, 10, 4)) < 0.5
    assert np.array_equal(minatar.to_frame(grid), grid.transpose(2, 0, 1))
    assert source_of("Pong").raw is None


def test_a_vector_environment_of_stable_baselines_is_refused():
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    with pytest.raises(EnvError, match="DummyVecEnv; a vector environment is several at once"):
        source_of(vec_env.DummyVecEnv([Identity]))


def test_what_is_no_environment_is_refused():
    raw = gymnasium.make("CartPole-v1")
    source = source_of(lambda: raw)
    source.make()
    with pytest.raises(EnvError, match="returned the same environment twice"):
        source.make()
    with pytest.raises(EnvError, match=r"must return a gymnasium\.Env, got int"):
        source_of(lambda: 3)  # type: ignore[arg-type,return-value]
    with pytest.raises(EnvError, match=r"or a function that makes one, got list"):
        source_of([raw])  # type: ignore[arg-type]
    vector = gymnasium.make_vec("CartPole-v1", num_envs=2)
    with pytest.raises(EnvError, match="a vector environment is several at once"):
        source_of(vector)  # type: ignore[arg-type]
    vector.close()


def test_atari_objects_are_referred_to_the_games_name():
    import ale_py

    gymnasium.register_envs(ale_py)
    raw = gymnasium.make("ALE/MsPacman-v5")
    for env in (raw, TimeLimit(raw, 5), lambda: raw):
        with pytest.raises(EnvError, match=r"Atari is played under the Atari 100K protocol, as MsPacman"):
            source_of(env)


def test_the_name_of_what_was_handed_in_leads_to_advice():
    with pytest.raises(EnvError, match=r"load\(path, env=\.\.\.\)"):
        make_env("custom:TimeLimit(Spy(CartPole-v1))")
    with pytest.raises(EnvError, match=r"load\(path, env=\.\.\.\)"):
        source_of("custom:Identity")
