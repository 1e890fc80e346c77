"""Windows that are drawn for an update where n is longer than episodes, or the replay too short."""

from __future__ import annotations

import numpy as np
import pytest

from sacbbf.agents.behaviour import RELEASED
from sacbbf.learner.batches import draw
from sacbbf.replay import NoWindow, Replay


def filled(steps: int, length: int, terminated: bool = False, **words) -> Replay:
    """A replay of episodes of one length that are all cut off, or all over by themselves."""
    replay = Replay(capacity=64, frame_shape=(1,), frame_dtype="float32", stack=1, k=2, **words)
    for step in range(steps):
        over = step % length == length - 1
        replay.add(np.zeros(1, np.float32), 0, 1.0, terminated=terminated and over, truncated=not terminated and over)
    return replay


def test_n_is_halved_where_every_episode_is_cut_off_before():
    batch, n = draw(filled(60, length=5), 200, 10, 0.5, np.random.default_rng(0))
    assert n == batch.bootstrap_step == 2
    assert set(batch.indices % 5) == {0, 1, 2}
    assert set(batch.return_n.tolist()) == {1.5} and set(batch.discount_n.tolist()) == {0.25}


@pytest.mark.parametrize(("length", "terminated"), [(12, False), (5, True)])
def test_n_stays_where_there_are_windows(length, terminated):
    batch, n = draw(filled(60, length, terminated), 8, 10, 0.5, np.random.default_rng(0))
    assert n == batch.bootstrap_step == 10


@pytest.mark.parametrize(
    ("steps", "length", "words"), [(0, 5, {}), (10, 20, {}), (60, 1, {}), (60, 5, {"behaviour": RELEASED})]
)
def test_without_any_window_it_is_too_early(steps, length, words):
    with pytest.raises(NoWindow, match="no window is valid"):
        draw(filled(steps, length, **words), 8, 10, 0.5, np.random.default_rng(0))
