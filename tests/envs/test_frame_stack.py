"""The frame stack, against a list of frames that is looked up."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from sacbbf.envs.base import EnvSpec
from sacbbf.envs.stack import FrameStack
from sacbbf.types import Step


def stacked(frames: list[npt.NDArray[np.uint8]], stack: int) -> npt.NDArray[np.uint8]:
    """Slow and obvious: the last `stack` frames, zeros in front where there are too few."""
    missing = [np.zeros_like(frames[0])] * max(0, stack - len(frames))
    return np.concatenate([*missing, *frames[-stack:]], axis=0)


@pytest.mark.parametrize("shape", [(1, 4, 5), (3, 2, 2), (6,)])
@pytest.mark.parametrize("stack", [1, 2, 4])
def test_states_are_the_oracles(shape: tuple[int, ...], stack: int) -> None:
    rng = np.random.default_rng(0)
    frames = FrameStack(shape, np.uint8, stack)
    for episode in range(2):  # the second must not see the first
        history = [rng.integers(1, 256, shape, dtype=np.uint8)]
        assert np.array_equal(frames.begin(history[0]), stacked(history, stack))
        for number in range(12):
            frame = rng.integers(1, 256, shape, dtype=np.uint8)
            life_lost = number in (2, 3, 8) and episode == 0
            history = [frame] if life_lost else [*history, frame]
            state = frames.observe(Step(frame, 0.0, False, False, life_lost))
            assert np.array_equal(state, stacked(history, stack))
            assert state.dtype == np.uint8


def test_a_state_stays_as_it_was_returned() -> None:
    frames = FrameStack((1, 2, 2), np.uint8, 2)
    state = frames.push(np.full((1, 2, 2), 7, np.uint8))
    frames.push(np.full((1, 2, 2), 9, np.uint8))
    assert state.tolist() == [[[0, 0], [0, 0]], [[7, 7], [7, 7]]]


def test_it_can_be_made_from_a_spec() -> None:
    spec = EnvSpec("x", "image", (1, 2, 2), np.dtype(np.bool_), 2, ("0", "1"), stack=3)
    frame = np.ones((1, 2, 2), np.bool_)
    assert FrameStack.of(spec).push(frame).shape == (3, 2, 2)
    assert FrameStack.of(spec, stack=5).push(frame).shape == (5, 2, 2)
    assert FrameStack.of(spec).push(frame).dtype == np.bool_


def test_wrong_shapes_and_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="stack must be an integer of at least 1, got 0"):
        FrameStack((1, 2, 2), np.uint8, 0)
    with pytest.raises(ValueError, match=r"shape \(1, 2, 2\), got \(2, 2\)"):
        FrameStack((1, 2, 2), np.uint8, 2).push(np.zeros((2, 2), np.uint8))
