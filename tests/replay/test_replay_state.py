"""A replay's content, in parts: put into another replay, it samples and goes on bit for bit."""

from __future__ import annotations

import itertools
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_oracle import Oracle, assert_same, episodes, feed, frame_of, pair

from sacbbf.replay import Replay
from sacbbf.replay.state import grown, read_counters, read_rows, row_bytes, write_counters, write_rows
from sacbbf.replay.storage import COLUMNS
from sacbbf.replay.sum_tree import SumTree

EVENTS = "...T....C..L.....B" * 3 + "...."  # 58 steps
KINDS: list[tuple[tuple[int, ...], Any]] = [((3,), np.float32), ((1, 2, 2), np.uint8), ((2, 2, 2), np.bool_)]


def filled(events: str = EVENTS, capacity: int = 100, **kinds: Any) -> Any:
    """A replay and its oracle after these events, with some priorities changed."""
    replay, oracle = pair(capacity=capacity, **kinds)
    feed(replay, oracle, events)
    rng = np.random.default_rng(3)
    if len(replay):
        steps = rng.integers(replay.oldest, replay.steps_added, 20)
        replay.set_priorities(steps, rng.uniform(0.0, 5.0, 20))
    return replay, oracle


def moved(replay: Replay, cuts: list[int], **kinds: Any) -> Replay:
    """Another replay with the same content, its rows carried over in pieces."""
    other, _ = pair(capacity=replay.ring.capacity, **kinds)
    cuts = [replay.oldest, *(cut for cut in cuts if cut > replay.oldest), replay.steps_added]
    for first, last in itertools.pairwise(cuts):
        write_rows(other, first, read_rows(replay, first, last))
    arrays, counters = read_counters(replay)
    write_counters(other, arrays, counters)
    return other


def feed_both(one: Replay, other: Replay, oracle: Oracle, events: str) -> None:
    before = list(oracle.steps)
    feed(one, oracle, events)
    oracle.steps[:] = before
    feed(other, oracle, events)


def drawn(replay: Replay, seed: int = 0) -> list[bytes]:
    """A batch that is drawn, as bytes."""
    batch = replay.sample(16, 2, 0.9, np.random.default_rng(seed))
    values = [value.numpy() if isinstance(value, torch.Tensor) else np.asarray(value) for value in astuple(batch)]
    return [value.tobytes() for value in values]


@pytest.mark.parametrize("prioritised", [True, False])
@pytest.mark.parametrize("capacity", [100, 58, 40, 17])
@pytest.mark.parametrize(("shape", "dtype"), KINDS)
def test_a_replay_goes_on_in_another_bit_for_bit(
    shape: tuple[int, ...], dtype: Any, capacity: int, prioritised: bool
) -> None:
    kinds = {"shape": shape, "dtype": dtype, "prioritised": prioritised}
    replay, oracle = filled(capacity=capacity, **kinds)
    other = moved(replay, [20, 21, 50], **kinds)
    assert (other.tree is None) == (not prioritised)
    assert (len(other), other.steps_added, other.oldest) == (len(replay), replay.steps_added, replay.oldest)
    assert other.max_priority == replay.max_priority
    assert (other.max_priority > 1.0) == prioritised
    for round_number in range(2):
        assert drawn(other, round_number) == drawn(replay, round_number)
        if replay.tree is not None and other.tree is not None:
            assert other.tree.nodes.tobytes() == replay.tree.nodes.tobytes()
        valid = replay.valid_indices(2).tolist()
        assert valid == other.valid_indices(2).tolist() == oracle.valid(2)
        assert_same(other, oracle, valid, 2, 0.9)
        feed_both(replay, other, oracle, ".L..T.C....")


@settings(deadline=None, max_examples=40)
@given(episodes, episodes, st.integers(9, 30), st.lists(st.integers(0, 60), max_size=3))
def test_any_replay_comes_back_whatever_pieces_it_is_moved_in(
    before: str, after: str, capacity: int, cuts: list[int]
) -> None:
    replay, oracle = filled(before, capacity)
    other = moved(replay, sorted(cut for cut in cuts if cut < replay.steps_added))
    feed_both(replay, other, oracle, after)
    if len(replay):
        for first, second in zip(
            read_rows(replay, replay.oldest, replay.steps_added).values(),
            read_rows(other, other.oldest, other.steps_added).values(),
            strict=True,
        ):
            assert first.tobytes() == second.tobytes()
    assert [array.tobytes() for array in read_counters(other)[0].values()] == [
        array.tobytes() for array in read_counters(replay)[0].values()
    ]
    assert read_counters(other)[1] == read_counters(replay)[1]


def test_rows_are_those_that_were_stored() -> None:
    replay, oracle = filled(capacity=40)
    rows = read_rows(replay, 30, 50)
    for row, t in enumerate(range(30, 50)):
        kept = oracle.steps[t]
        np.testing.assert_array_equal(rows["frames"][row], frame_of(replay, t))
        assert (rows["actions"][row], rows["rewards"][row]) == (kept.action, np.float32(kept.reward))
        flags = tuple(bool(rows[name][row]) for name in ("terminated", "truncated", "life_lost"))
        assert flags == (kept.terminated, kept.truncated, kept.life_lost)
        assert rows["history"][row] == t - oracle.start_seen_from(t)
    assert sum(array.nbytes for array in rows.values()) == 20 * row_bytes(replay)


@pytest.mark.parametrize(("first", "last"), [(17, 30), (0, 5), (50, 59), (30, 29)])
def test_rows_that_are_not_stored_cannot_be_read(first: int, last: int) -> None:
    replay, _ = filled(capacity=40)
    with pytest.raises(ValueError, match="stored are 18 to 58"):
        read_rows(replay, first, last)


@pytest.mark.parametrize("name", ["frames", *COLUMNS])
@pytest.mark.parametrize("fault", ["missing", "longer", "another type", "another shape"])
def test_rows_of_another_kind_are_refused(fault: str, name: str) -> None:
    replay, _ = filled()
    rows = read_rows(replay, 10, 20)
    if fault == "missing":
        del rows[name]
    elif fault == "longer":
        rows[name] = np.concatenate([rows[name], rows[name][:1]])
    elif fault == "another type":
        rows[name] = rows[name].astype(np.float64)
    else:
        rows[name] = rows[name][:, None]
    with pytest.raises(ValueError, match=r"must (be|hold)"):
        write_rows(replay, 10, rows)


@pytest.mark.parametrize(
    "changes",
    [
        {"steps_added": -1},
        {"steps_added": "58"},
        {"steps_added": 58.0},
        {"max_priority": "1"},
        {"max_priority": 1},
        {"max_priority": 0.5},
        {"max_priority": float("nan")},
        {"max_priority": float("inf")},
        {"max_priority": 1e39},
        {"max_priority": None},
    ],
    ids=str,
)
def test_counters_that_no_replay_has_are_refused(changes: dict[str, Any]) -> None:
    replay, _ = filled()
    arrays, counters = read_counters(replay)
    with pytest.raises(ValueError, match="replay counters"):
        write_counters(replay, arrays, counters | changes)


@pytest.mark.parametrize(
    "priorities",
    [
        np.ones(57),
        np.ones(99),
        np.ones(58, np.float32),
        np.ones((58, 1)),
        np.full(58, -1.0),
        np.full(58, np.nan),
        np.full(58, np.inf),
    ],
    ids=["short", "long", "float32", "two dimensions", "negative", "no number", "infinite"],
)
def test_priorities_that_no_replay_has_are_refused(priorities: Any) -> None:
    replay, _ = filled()
    _, counters = read_counters(replay)
    with pytest.raises(ValueError, match="priorities"):
        write_counters(replay, {"priorities": priorities}, counters)


def test_zeros_for_slots_that_are_not_in_use_are_passed_over() -> None:
    replay, _ = filled()
    arrays, counters = read_counters(replay)
    other = moved(replay, [])
    write_counters(other, {"priorities": np.concatenate([arrays["priorities"], np.zeros(42)])}, counters)
    assert drawn(other) == drawn(replay)


@pytest.mark.parametrize("prioritised", [True, False])
def test_priorities_belong_to_a_prioritised_replay_alone(prioritised: bool) -> None:
    replay, _ = filled(prioritised=prioritised)
    arrays, counters = read_counters(filled(prioritised=not prioritised)[0])
    with pytest.raises(ValueError, match="must hold"):
        write_counters(replay, arrays, counters)


priority = st.one_of(st.just(0.0), st.floats(1e-6, 1e6), st.floats(5e-324, 1e-300), st.floats(1e30, 1e38))


@settings(deadline=None)
@given(st.lists(priority, min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_setting_all_leaves_is_setting_them_one_by_one(values: list[float], random: Any) -> None:
    one_by_one, at_once = SumTree(len(values)), SumTree(len(values))
    at_once.set_all(np.arange(len(values), 0.0, -1.0))  # what was there before does not matter
    order = list(range(len(values)))
    random.shuffle(order)
    for index in order:
        one_by_one.set_one(index, values[index])
    at_once.set_all(values)
    assert at_once.nodes.tobytes() == one_by_one.nodes.tobytes()


def test_the_newest_step_can_be_cut_off_afterwards() -> None:
    replay, oracle = filled(capacity=40)
    replay.truncate_last()
    oracle.steps[-1].truncated = True
    for more in ("", "......"):
        feed(replay, oracle, more)
        assert replay.valid_indices(2).tolist() == oracle.valid(2)
        assert_same(replay, oracle, oracle.valid(2), 2, 0.9)
    flags = read_rows(replay, 50, replay.steps_added)["truncated"]
    assert [50 + int(row) for row in np.flatnonzero(flags)] == [53, 57]


def test_an_empty_replay_has_no_step_to_cut_off() -> None:
    replay, oracle = pair(capacity=40)
    replay.truncate_last()
    feed(replay, oracle, "....")
    assert not read_rows(replay, 0, 4)["truncated"].any()


@pytest.mark.parametrize("prioritised", [True, False])
@pytest.mark.parametrize("capacity", [58, 60])  # full to the last slot, or nearly so
@pytest.mark.parametrize(("shape", "dtype"), KINDS)
def test_a_replay_that_has_grown_is_as_one_that_was_larger_from_the_start(
    shape: tuple[int, ...], dtype: Any, capacity: int, prioritised: bool
) -> None:
    kinds = {"shape": shape, "dtype": dtype, "prioritised": prioritised}
    large, oracle = filled(capacity=90, **kinds)
    small, _ = filled(capacity=capacity, **kinds)
    found = grown(small, 90)
    assert (found.ring.capacity, len(found), found.max_priority) == (90, len(small), small.max_priority)
    for events in ("", ".L..T.C....", "....." * 9):  # beyond the new capacity too
        feed_both(large, found, oracle, events)
        assert drawn(found) == drawn(large)
        if large.tree is not None and found.tree is not None:
            assert found.tree.nodes.tobytes() == large.tree.nodes.tobytes()
        assert_same(found, oracle, oracle.valid(2), 2, 0.9)


def test_a_replay_that_has_overwritten_steps_cannot_grow() -> None:
    replay, _ = filled(capacity=57)
    with pytest.raises(ValueError, match="step 0 of 58 is overwritten"):
        grown(replay, 100)
