"""Gymnasium environments: every shape that is taken, every one that is refused."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sacbbf.envs.base import EnvError
from sacbbf.envs.gymnasium import GymnasiumEnvironment
from sacbbf.envs.make import EnvSettings, make_env
from sacbbf.errors import UsageError


class Scripted(gymnasium.Env[Any, Any]):
    """Shows random observations of its space from one buffer, and ends after `length` steps."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012

    def __init__(self, observation_space: spaces.Space[Any], actions: spaces.Space[Any], length: int = 5) -> None:
        self.observation_space, self.action_space, self.length = observation_space, actions, length
        self.taken: list[Any] = []
        self.closed = False

    def _observe(self) -> Any:
        self.buffer[...] = self.np_random.integers(0, 2, self.buffer.shape) * 200
        return self.buffer

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.taken = []
        self.buffer = np.zeros(self.observation_space.shape, self.observation_space.dtype)  # type: ignore[arg-type]
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self.taken.append(action)
        over = len(self.taken) == self.length
        return self._observe(), np.float64(len(self.taken)), over, over, {}

    def close(self) -> None:
        self.closed = True


def box(*shape: int, dtype: Any = np.uint8, high: float | None = None) -> spaces.Box:
    high = {"b": 1, "u": 255}.get(np.dtype(dtype).kind, 300) if high is None else high
    return spaces.Box(0, high, shape, dtype)


def scripted(space: spaces.Space[Any], actions: spaces.Space[Any] | None = None, length: int = 5) -> Scripted:
    return Scripted(space, spaces.Discrete(3) if actions is None else actions, length)


def test_cartpole() -> None:
    env = make_env("CartPole-v1")
    spec = env.spec
    assert (spec.id, spec.kind, spec.frame_shape, spec.num_actions) == ("CartPole-v1", "vector", (4,), 2)
    assert (spec.frame_dtype, spec.stack, spec.clip_rewards, spec.game) == (np.dtype("f4"), 1, False, None)
    assert (spec.max_steps, spec.action_names) == (500, ("0", "1"))
    raw = gymnasium.make("CartPole-v1")
    assert np.array_equal(env.reset(4), raw.reset(seed=4)[0])
    for action in (0, 1, 1, 0):
        step = env.step(action)
        observation, reward, terminated, truncated, _ = raw.step(action)
        assert np.array_equal(step.frame, observation)
        assert (step.reward, step.terminated, step.truncated, step.life_lost) == (
            reward, terminated, truncated, False,
        )  # fmt: skip


def test_cartpole_episodes_depend_on_seed_and_actions_alone() -> None:
    env = make_env("CartPole-v1")

    def play(seed: int) -> list[bytes]:
        return [env.reset(seed).tobytes()] + [env.step(n % 2).frame.tobytes() for n in range(8)]

    first = play(1)
    assert play(2) != first
    assert play(1) == first


@pytest.mark.parametrize(
    ("space", "kind", "shape", "dtype", "stack"),
    [
        (box(20, 30, 3), "image", (3, 20, 30), np.uint8, 4),
        (box(3, 20, 30), "image", (3, 20, 30), np.uint8, 4),
        (box(20, 30, 1), "image", (1, 20, 30), np.uint8, 4),
        (box(20, 30), "image", (1, 20, 30), np.uint8, 4),
        (box(4, 20, 30), "image", (4, 20, 30), np.uint8, 1),  # stacked already
        (box(24, 25, 3), "image", (3, 24, 25), np.uint8, 4),
        (box(4, 5, 3, high=254), "grid", (3, 4, 5), np.uint8, 1),  # both ends short: channels last
        (box(7, 8, 3, dtype=np.int64, high=254), "grid", (3, 7, 8), np.uint8, 1),
        (box(20, 30, 3, dtype=np.float32, high=255), "image", (3, 20, 30), np.uint8, 4),
        (box(7, 8, 3, dtype=np.float32, high=255), "grid", (3, 7, 8), np.uint8, 1),
        (box(10, 11, 6, dtype=np.bool_), "grid", (6, 10, 11), np.bool_, 1),
        (box(4, 10, 11, dtype=np.bool_), "grid", (4, 10, 11), np.bool_, 1),
        (box(7, 8, 3, dtype=np.float64), "grid", (3, 7, 8), np.float32, 1),
        (box(7, 8, dtype=np.int64), "grid", (1, 7, 8), np.float32, 1),
        (box(6, dtype=np.float64), "vector", (6,), np.float32, 1),
        (box(6, dtype=np.int32), "vector", (6,), np.float32, 1),
    ],
)
def test_observations_become_frames(
    space: spaces.Box, kind: str, shape: tuple[int, ...], dtype: Any, stack: int
) -> None:
    raw = scripted(space)
    env = make_env(raw)
    assert (env.spec.kind, env.spec.frame_shape, env.spec.stack) == (kind, shape, stack)
    assert env.spec.frame_dtype == np.dtype(dtype)
    frame = env.reset(0)
    assert (frame.shape, frame.dtype) == (shape, np.dtype(dtype))
    seen = raw.buffer.copy()
    assert seen.any()
    channels_last = seen.ndim == 3 and seen.shape != shape
    expected = np.moveaxis(seen, 2, 0) if channels_last else seen.reshape(shape)
    assert np.array_equal(frame, expected)
    env.step(0)  # the environment writes over its buffer
    assert not np.array_equal(raw.buffer, seen)
    assert np.array_equal(frame, expected)


def test_bytes_in_a_vector_are_scaled_to_1() -> None:
    frame = make_env(scripted(box(8))).reset(0)
    assert frame.dtype == np.float32
    assert set(frame.tolist()) == {0.0, float(np.float32(200 / 255))}


def test_actions_count_from_0_wherever_the_space_starts() -> None:
    raw = scripted(box(4, dtype=np.float32), spaces.Discrete(3, start=1))
    env = make_env(raw)
    env.reset(0)
    for action in (0, 2):
        env.step(action)
    assert raw.taken == [1, 3]
    with pytest.raises(EnvError, match=r"action must be an integer in 0 \.\. 2, got 3"):
        env.step(3)


def test_combinations_of_actions_reach_the_environment_as_it_takes_them() -> None:
    raw = scripted(box(4, dtype=np.float32), spaces.MultiDiscrete([2, 3]))
    env = make_env(raw)
    assert isinstance(env, GymnasiumEnvironment)
    assert (env.spec.num_actions, env.spec.action_names[4]) == (6, "1,1")
    env.reset(0)
    env.step(5)
    assert raw.taken[0].tolist() == [1, 2] and raw.action_space.contains(raw.taken[0])
    assert [env.action_number(env.raw_action(number)) for number in range(6)] == list(range(6))


def test_a_raw_observation_is_seen_as_in_the_game() -> None:
    raw = scripted(box(7, 8, 3))
    env = make_env(raw)
    assert isinstance(env, GymnasiumEnvironment)
    assert np.array_equal(env.reset(2), env.frame_of(raw.buffer))
    with pytest.raises(EnvError, match=r"Scripted: an observation is not of the space Box.*shape \(8, 7, 3\)"):
        env.frame_of(np.zeros((8, 7, 3), np.uint8))


def test_a_dict_that_lacks_an_entry_is_refused() -> None:
    env = make_env(scripted(spaces.Dict({"a": box(3), "b": spaces.Discrete(2)})))
    assert isinstance(env, GymnasiumEnvironment)
    with pytest.raises(EnvError, match="is not of the space Dict"):
        env.frame_of({"a": np.zeros(3, np.uint8)})


@pytest.mark.parametrize("settings", [EnvSettings(kwargs=("a=1",)), EnvSettings(wrappers=("zoo:Tenfold",))])
def test_an_object_is_played_as_it_is(settings: EnvSettings) -> None:
    with pytest.raises(EnvError, match=r"Scripted: environment\..*give the object as it is to be played"):
        make_env(scripted(box(4)), settings=settings)


def test_ends() -> None:
    env = make_env(scripted(box(4, dtype=np.float32), length=3))
    env.reset(0)
    steps = [env.step(0) for _ in range(3)]
    assert [step.reward for step in steps] == [1.0, 2.0, 3.0]
    assert [step.terminated for step in steps] == [False, False, True]
    assert not steps[-1].truncated  # it says both: the end of the game counts
    with pytest.raises(RuntimeError, match="Scripted: the episode is over"):
        env.step(0)


def test_max_steps_cuts_off_and_never_lengthens() -> None:
    env = make_env(scripted(box(4, dtype=np.float32)), settings=EnvSettings(max_steps=2))
    for _ in range(2):
        env.reset(0)
        assert [env.step(0).truncated for _ in range(2)] == [False, True]
    assert make_env("CartPole-v1", settings=EnvSettings(max_steps=9)).spec.max_steps == 9
    assert make_env("CartPole-v1", settings=EnvSettings(max_steps=900)).spec.max_steps == 500


def test_an_object_is_not_closed_but_what_was_made_here_is() -> None:
    raw = scripted(box(4, dtype=np.float32))
    make_env(raw).close()
    assert not raw.closed
    gymnasium.register("ClosedHere-v0", lambda: raw)
    try:
        make_env("ClosedHere-v0").close()
    finally:
        del gymnasium.registry["ClosedHere-v0"]
    assert raw.closed


def test_pictures_only_when_asked_for() -> None:
    with pytest.raises(EnvError, match="CartPole-v1: made without render = True"):
        make_env("CartPole-v1").render()
    with pytest.raises(EnvError, match="Scripted: rendering needs render_mode = 'rgb_array'"):
        make_env(scripted(box(4, dtype=np.float32)), render=True)
    gymnasium.register("NoPictures-v0", lambda: scripted(box(4, dtype=np.float32)))
    try:
        with pytest.raises(EnvError, match="NoPictures-v0: render = True, but"):
            make_env("NoPictures-v0", render=True)
    finally:
        del gymnasium.registry["NoPictures-v0"]


class Drawn(Scripted):
    """One that draws itself where it was asked to when it was made."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(box(4, dtype=np.float32), spaces.Discrete(2))
        self.render_mode = render_mode

    def render(self) -> Any:
        return np.full((5, 6, 3), 9, np.uint8)


@pytest.mark.parametrize(
    "error", [gymnasium.error.DependencyNotInstalled("pygame is missing"), ImportError("no pygame")]
)
def test_pictures_that_need_another_package_are_refused_by_its_name(error: Exception, monkeypatch: Any) -> None:
    def fail(self: Any) -> Any:
        raise error

    monkeypatch.setattr(Drawn, "render", fail)
    with pytest.raises(UsageError, match=f"Drawn cannot draw its pictures: {error}; pip install"):
        make_env(Drawn("rgb_array"), render=True).render()


def test_pictures() -> None:
    gymnasium.register("Drawn-v0", Drawn)
    try:
        made = make_env("Drawn-v0", render=True)
    finally:
        del gymnasium.registry["Drawn-v0"]
    for env in (made, make_env(Drawn("rgb_array"), render=True)):
        env.reset(0)
        picture = env.render()
        assert (picture.shape, picture.dtype, int(picture.max())) == ((5, 6, 3), np.uint8, 9)


@pytest.mark.parametrize(
    ("env", "has"),
    [
        ("Pendulum-v1", r"Pendulum-v1: the action space is Box\(.*DiscretizeAction"),
        (scripted(box(4), spaces.Tuple([spaces.Discrete(2)])), r"the action space is Tuple\(.*ActionWrapper"),
        (
            scripted(box(4), spaces.MultiDiscrete([9, 8, 8])),
            r"576 combinations, at most 512 can be played.*ActionWrapper",
        ),
        (scripted(box(2, 3, 4, 5)), r"the observation space is Box\(.*three dimensions at most.*--stack"),
        (scripted(spaces.Discrete(5_000)), r"5,000 entries, at most 4,096.*TransformObservation"),
        (scripted(spaces.Text(4)), r"the observation space is Text\(.*is text, not numbers.*TransformObservation"),
        (scripted(spaces.Sequence(box(3))), r"the observation space is Sequence\(.*has no fixed shape"),
        (scripted(spaces.Graph(box(3), None)), r"the observation space is Graph\(.*has no fixed shape"),
        (scripted(spaces.Dict({"a": box(3), "b": spaces.Dict({"c": spaces.Text(4)})})), r"at \['b'\]\['c'\] is Text"),
        (scripted(spaces.Dict({"a": box(30, 30, 3), "b": box(40, 40, 3)})), r"30x30, a picture of 40x40.*ResizeObs"),
        (scripted(spaces.Dict({"a": box(30, 30, 3), "b": box(65)})), r"65 numbers stand beside a picture, at most 64"),
        (
            scripted(spaces.Dict({"a": box(30, 30, 3), "b": spaces.Box(-np.inf, np.inf, (2,))})),
            r"numbers without bounds stand beside a picture.*TransformObservation",
        ),
        (scripted(spaces.Dict({})), "which shows nothing"),
    ],
)
def test_what_cannot_be_played_is_refused_with_the_reason_and_what_helps(env: Any, has: str) -> None:
    with pytest.raises(EnvError, match=has):
        make_env(env)
