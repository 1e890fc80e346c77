"""Masks in the replay: those of s_t and of the bootstrap state, through ends, wrap-around and a move; none without."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch

from sacbbf.agents.behaviour import BEHAVIOURS
from sacbbf.replay import Replay
from sacbbf.replay.state import grown, read_counters, read_rows, row_bytes, write_counters, write_rows

ACTIONS = 4


def make(mask_size: int = ACTIONS, capacity: int = 40, behaviour: str = "paper") -> Replay:
    return Replay(
        capacity=capacity,
        frame_shape=(2,),
        frame_dtype=np.float32,
        stack=2,
        k=2,
        behaviour=BEHAVIOURS[behaviour],
        mask_size=mask_size,
    )


def mask_of(t: int) -> Any:
    """The legal actions of step t: action t % 4 and others by chance."""
    mask = np.random.default_rng(t).random(ACTIONS) < 0.4
    mask[t % ACTIONS] = True
    return mask


def feed(replay: Replay, steps: int) -> None:
    """Store steps, with an episode's end of each kind among them."""
    for t in range(replay.steps_added, replay.steps_added + steps):
        ends = {"terminated": t % 11 == 10, "truncated": t % 13 == 12, "life_lost": t % 7 == 6}
        mask = mask_of(t) if replay.ring.mask_size else None
        replay.add(np.full(2, t, np.float32), t % ACTIONS, float(t), **ends, mask=mask)


@pytest.mark.parametrize("behaviour", ["paper", "released"])
@pytest.mark.parametrize("steps", [30, 40, 137])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_batch_has_the_masks_of_its_states(n: int, steps: int, behaviour: str) -> None:
    replay = make(behaviour=behaviour)
    feed(replay, steps)
    batch = replay.sample(32, n, 0.9, np.random.default_rng(0))
    assert batch.mask_t is not None and batch.mask_n is not None
    for row, t in enumerate(batch.indices.tolist()):
        assert batch.mask_t[row].tolist() == mask_of(t).tolist()
        assert batch.mask_n[row].tolist() == mask_of(t + batch.bootstrap_step).tolist()
        assert batch.mask_t[row, batch.actions[0, row]]
    known = np.arange(replay.oldest, replay.steps_added)
    masks = replay.masks(known)
    assert masks is not None and masks.tolist() == [mask_of(t).tolist() for t in known]


def test_without_masks_there_is_no_array_and_the_batch_is_the_same() -> None:
    plain, masked = make(0), make()
    feed(plain, 100)
    feed(masked, 100)
    assert plain.ring.masks is None and plain.masks([90]) is None
    assert "masks" not in read_rows(plain, 90, 100)
    assert masked.nbytes - plain.nbytes == 40 * ACTIONS
    ours, theirs = (replay.sample(16, 3, 0.9, np.random.default_rng(1)) for replay in (plain, masked))
    assert ours.mask_t is None and ours.mask_n is None
    for field in fields(ours):
        value, other = getattr(ours, field.name), getattr(theirs, field.name)
        if isinstance(value, torch.Tensor | np.ndarray):
            assert np.array_equal(value, other), field.name


@pytest.mark.parametrize("steps", [25, 40, 137])
def test_masks_are_kept_when_content_moves(steps: int) -> None:
    replay, other = make(), make()
    feed(replay, steps)
    rows = read_rows(replay, replay.oldest, replay.steps_added)
    assert sum(array.nbytes for array in rows.values()) == len(replay) * row_bytes(replay)
    write_rows(other, replay.oldest, rows)
    write_counters(other, *read_counters(replay))
    feed(replay, 9)
    feed(other, 9)
    ours, theirs = (each.sample(16, 2, 0.9, np.random.default_rng(1)) for each in (replay, other))
    assert torch.equal(ours.mask_t, theirs.mask_t) and torch.equal(ours.mask_n, theirs.mask_n)


def test_masks_are_kept_by_a_larger_replay() -> None:
    replay = make()
    feed(replay, 30)
    larger = grown(replay, 80)
    assert larger.ring.mask_size == ACTIONS
    assert torch.equal(larger.masks(np.arange(30)), replay.masks(np.arange(30)))


def test_rows_with_masks_and_rows_without_are_not_taken_for_each_other() -> None:
    plain, masked = make(0), make()
    feed(plain, 10)
    feed(masked, 10)
    with pytest.raises(ValueError, match=r"must hold .*masks"):
        write_rows(masked, 0, read_rows(plain, 0, 10))
    with pytest.raises(ValueError, match=r"holds .*masks"):
        write_rows(plain, 0, read_rows(masked, 0, 10))


@pytest.mark.parametrize(
    ("mask_size", "mask", "words"),
    [
        (4, None, r"mask: got none, must be bool of shape \(4,\)"),
        (0, np.ones(4, np.bool_), r"mask: got bool of shape \(4,\), must be none"),
        (4, np.ones(3, np.bool_), r"mask: got bool of shape \(3,\), must be bool of shape \(4,\)"),
        (4, np.ones(4), r"mask: got float64 of shape"),
        (4, np.array([True, False, True, True]), "action: got 1, which the mask does not allow"),
    ],
)
def test_a_step_whose_mask_does_not_fit_is_refused(mask_size: int, mask: Any, words: str) -> None:
    replay = make(mask_size)
    with pytest.raises(ValueError, match=words):
        replay.add(np.zeros(2, np.float32), 1, 0.0, mask=mask)
    assert len(replay) == 0
