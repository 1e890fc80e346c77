"""Predictions from raw observations and from states: the same actions, with a history where frames are stacked."""

from __future__ import annotations

import re

import gymnasium
import numpy as np
import pytest
from small_api import Motion, make

from sacbbf import SACBBF, UsageError
from sacbbf.api.observing import Observing
from sacbbf.envs.base import EnvSpec
from sacbbf.envs.raw import RawSide
from sacbbf.envs.stack import FrameStack


class Picture(gymnasium.Env):
    """Random pictures of one shape and type; nothing to do."""

    def __init__(self, shape=(6, 6, 3), dtype=np.uint8, high=255):
        self.observation_space = gymnasium.spaces.Box(0, high, shape, dtype)
        self.action_space = gymnasium.spaces.Discrete(3, start=1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.look(), {}

    def step(self, action):
        return self.look(), 0.0, False, False, {}

    def look(self):
        space = self.observation_space
        return (self.np_random.random(space.shape) * (space.high + 0.999)).astype(space.dtype)


GRID = {"network.encoder": "grid"}
KINDS = {  # raw shape, type, largest, settings
    "vector": ((4,), np.float32, 1.0, {}),
    "vector of bytes": ((4,), np.uint8, 255, {}),
    "flat grid": ((6, 7), np.float32, 1.0, {}),
    "grid": ((6, 7, 5), np.int64, 9, {}),
    "grid of truths": ((5, 5, 5), np.bool_, 1, {}),
    "colours": ((6, 7, 3), np.uint8, 255, {"stack": 1, **GRID}),
}


def logits_seen(agent, monkeypatch):
    """The states that a network is shown from now on."""
    seen = []
    act = type(agent._policy()).logits

    def noting(self, states, masks=None):
        seen.append(states)
        return act(self, states, masks)

    monkeypatch.setattr(type(agent._policy()), "logits", noting)
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_raw_observations_and_states_are_told_apart(kind, monkeypatch):
    shape, dtype, high, settings = KINDS[kind]
    agent = make(lambda: Picture(shape, dtype, high), settings=settings)
    shown, raw = agent.make_env(), Picture(shape, dtype, high)
    states, frames = [shown.reset(seed=5)[0]], [raw.reset(seed=5)[0]]
    states += [shown.step(1)[0] for _ in range(4)]
    frames += [raw.step(1)[0] for _ in range(4)]
    seen = logits_seen(agent, monkeypatch)
    of_states = [agent.predict(state, deterministic=True)[0] for state in states]
    of_frames = [agent.predict(frame, deterministic=True)[0] for frame in frames]
    batches = [agent.predict(np.stack(several), deterministic=True)[0] for several in (states, frames)]
    assert of_states == of_frames == batches[0].tolist() == batches[1].tolist()
    assert all(np.array_equal(*pair) for pair in zip(seen[:5], seen[5:10], strict=True))
    assert np.array_equal(seen[10], seen[11]) and seen[0].dtype == agent.source.spec.frame_dtype
    assert of_frames[0].shape == () and batches[1].shape == (5,) and set(batches[1]) <= {1, 2, 3}


def test_one_environments_batch_stays_a_batch():
    agent = make(lambda: Picture((6, 7), np.float32, 1.0))  # states of shape (1, 6, 7): as a batch of one raw grid
    frame = Picture((6, 7), np.float32, 1.0).reset(seed=0)[0]
    assert agent.predict(frame)[0].shape == agent.predict(frame[None])[0].shape == ()
    assert agent.predict(frame[None], episode_start=np.ones(1, bool))[0].shape == (1,)
    assert agent.predict(frame[None][None])[0].shape == (1,)


# --- with a history ---


def history(frames, starts, stack):
    """States by the stack that learning uses."""
    stacks, states = FrameStack((5,), np.float32, stack), []
    for frame, start in zip(frames, starts, strict=True):
        states.append(stacks.begin(frame) if start else stacks.push(frame))
    return states


def test_raw_frames_are_stacked_behind_those_before(monkeypatch):
    agent = make(Motion, settings={"stack": 3})
    frames, starts = np.random.default_rng(0).random((8, 5)).astype(np.float32), [1, 0, 0, 0, 1, 0, 1, 0]
    expected = history(frames, starts, 3)
    seen = logits_seen(agent, monkeypatch)
    memory = None
    for frame, start in zip(frames, starts, strict=True):
        action, memory = agent.predict(frame, state=memory, episode_start=bool(start))
        assert action.shape == () and memory.shape == (15,)
    assert all(np.array_equal(found[0], state) for found, state in zip(seen, expected, strict=True))


def test_the_histories_of_a_batch_are_kept_apart(monkeypatch):
    agent = make(Motion, settings={"stack": 3})
    frames = np.random.default_rng(0).random((6, 2, 5)).astype(np.float32)
    starts = np.array([[1, 1], [0, 0], [0, 1], [0, 0], [1, 0], [0, 0]], bool)
    expected = [history(frames[:, side], starts[:, side], 3) for side in range(2)]
    seen = logits_seen(agent, monkeypatch)
    memory = None
    for several, begun in zip(frames, starts, strict=True):
        actions, memory = agent.predict(several, state=memory, episode_start=begun)
        assert actions.shape == (2,) and memory.shape == (2, 15)
    for number, found in enumerate(seen):
        assert np.array_equal(found, np.stack([expected[0][number], expected[1][number]]))


def test_a_history_that_is_not_known_is_refused():
    agent = make(Motion, settings={"stack": 3})
    frame = np.zeros(5, np.float32)
    needs = "sees 3 frames at a time, and a raw one needs those before it: give episode_start=True"
    for words in ({}, {"episode_start": False}):
        with pytest.raises(UsageError, match=needs):
            agent.predict(frame, **words)
    with pytest.raises(UsageError, match=needs):
        agent.predict(np.stack([frame, frame]), episode_start=np.array([True, False]))
    _, memory = agent.predict(frame, episode_start=True)
    agent.predict(frame, state=memory)
    with pytest.raises(UsageError, match=r"state: float32 of shape \(15,\) is not what predict returned"):
        agent.predict(np.stack([frame, frame]), state=memory)
    with pytest.raises(UsageError, match=r"state: .* is not what predict returned"):
        agent.predict(frame, state="kept")
    state = np.zeros(15, np.float32)
    assert agent.predict(state)[1] is None  # whole states need none


def test_raw_screens_of_atari_are_refused():
    agent = SACBBF("Pong", size="tiny", settings={"network.width_scale": 0.25, "network.hidden_dim": 16})
    assert agent.predict(np.zeros((4, 84, 84), np.uint8))[0].shape == ()
    with pytest.raises(UsageError, match=r"\(210, 160, 3\): must be \(4, 84, 84\).*Atari 100K protocol"):
        agent.predict(np.zeros((210, 160, 3), np.uint8))


def test_a_wrong_shape_names_both_that_are_right():
    agent = make(lambda: Picture((6, 7, 5), np.int64, 9))
    message = (
        "shape (3,): must be (5, 6, 7), as make_env() shows states, or one of Box(0, 9, (6, 7, 5), int64), as custom:"
    )
    with pytest.raises(UsageError, match=re.escape(message)):
        agent.predict(np.zeros(3))


# --- observations that are no arrays of numbers with axes ---


def observing(space, to_frame, stack=1):
    raw = RawSide(space, gymnasium.spaces.Discrete(2), to_frame, int, int)
    return Observing(EnvSpec("made up", "vector", (3,), np.dtype(np.float32), 2, ("a", "b")), stack, raw)


def test_observations_in_parts_are_read_one_by_one_and_as_vector_environments_show_them():
    parts = {"place": gymnasium.spaces.Box(0.0, 1.0, (2,)), "light": gymnasium.spaces.Discrete(4)}
    space = gymnasium.spaces.Dict(parts)
    found = observing(space, lambda one: np.array([*one["place"], one["light"]], np.float32))
    one = {"place": np.array([0.5, 0.25], np.float32), "light": 3}
    many = {"place": np.array([[0.5, 0.25], [1.0, 0.0]], np.float32), "light": np.array([3, 1])}
    assert found.read(one, None, None).states.tolist() == [[0.5, 0.25, 3]]
    seen = found.read(many, "kept", np.ones(2, bool))
    assert seen.states.tolist() == [[0.5, 0.25, 3], [1, 0, 1]] and seen.batched and seen.memory == "kept"
    assert found.read(np.zeros((2, 3), np.float32), None, None).batched  # states are taken too
    for wrong in ({"place": one["place"]}, {}, {"place": 3, "light": 2}):
        with pytest.raises(UsageError, match=r"observation: is not one of Dict\(.*, nor a batch of such"):
            found.read(wrong, None, None)
    stacked = observing(space, lambda one: np.array([*one["place"], one["light"]], np.float32), stack=2)
    first = stacked.read(one, None, True)
    assert stacked.read(one, first.memory, None).states.tolist() == [[0.5, 0.25, 3, 0.5, 0.25, 3]]


def test_numbers_are_observations_too():
    found = observing(gymnasium.spaces.Discrete(3), lambda number: np.eye(3, dtype=np.float32)[number])
    assert found.read(2, None, None).states.tolist() == [[0, 0, 1]] and not found.read(2, None, None).batched
    several = np.array([2, 0, 1])  # as many as a state has entries, but whole numbers
    assert found.read(several, None, None).states.tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    assert found.read(several.astype(np.float32), None, None).states.tolist() == [[2, 0, 1]]
