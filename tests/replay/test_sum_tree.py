from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from sacbbf.replay.sum_tree import ONE_BY_ONE, WHOLE_LEVEL, SumTree

priorities = st.one_of(
    st.just(0.0), st.floats(1e-6, 1e6), st.floats(5e-324, 1e-300), st.floats(1e30, 1e38), st.just(1.0)
)


def tree_of(values: list[float]) -> SumTree:
    tree = SumTree(len(values))
    tree.set(np.arange(len(values)), values)
    return tree


@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 12), priorities), min_size=1, max_size=8), max_size=6))
def test_any_sequence_of_sets_matches_a_plain_array(writes: list[list[tuple[int, float]]]) -> None:
    tree, plain = SumTree(13), np.zeros(13)
    for write in writes:
        tree.set(np.array([i for i, _ in write]), [p for _, p in write])
        for i, p in write:  # one by one, so the last duplicate stays
            plain[i] = p
    assert tree.get(np.arange(13)).tolist() == plain.tolist()
    np.testing.assert_allclose(tree.total, plain.sum(), rtol=1e-14)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), priorities), max_size=20))
def test_setting_one_leaf_is_setting_an_array_of_one(writes: list[tuple[int, float]]) -> None:
    one, many = SumTree(13), SumTree(13)
    for i, p in writes:
        one.set_one(i, p)
        many.set(np.array([i]), [p])
    assert one.nodes.tolist() == many.nodes.tolist()


@pytest.mark.parametrize("capacity", [WHOLE_LEVEL, 2 * WHOLE_LEVEL + 1, 8 * WHOLE_LEVEL])
def test_a_tree_with_levels_too_large_to_be_summed_as_a_whole(capacity: int) -> None:
    generator = np.random.default_rng(0)
    one, many, at_once = SumTree(capacity), SumTree(capacity), SumTree(capacity)
    for _ in range(30):
        indices = generator.integers(0, capacity, 32)
        values = generator.random(32) * 10.0 ** generator.integers(-20, 20, 32)
        many.set(indices, values)
        for index, value in zip(indices, values, strict=True):
            one.set_one(int(index), float(value))
    at_once.set_all(many.leaves)
    assert many.nodes.tobytes() == one.nodes.tobytes() == at_once.nodes.tobytes()


@settings(max_examples=200, deadline=None)
@given(st.lists(priorities, min_size=1, max_size=40), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_find_never_returns_an_empty_leaf_or_one_beyond_the_capacity(
    values: list[float], fractions: list[float]
) -> None:
    tree = tree_of(values)
    if tree.total == 0.0:
        return
    below_total = np.nextafter(tree.total, 0.0)
    leaves = tree.find(np.minimum(np.array([*fractions, 1.0]) * tree.total, below_total))
    assert leaves.min() >= 0 and leaves.max() < len(values)
    assert (np.array(values)[leaves] > 0.0).all()


def walk(tree: SumTree, value: float) -> int:
    """One value's way down, turning away from every empty half."""
    node = 1
    while 2 * node < len(tree.nodes):
        left, right = float(tree.nodes[2 * node]), float(tree.nodes[2 * node + 1])
        right_it_is = value >= left and right > 0.0
        value -= left * right_it_is
        node = 2 * node + right_it_is
    return node - len(tree.nodes) // 2


@settings(max_examples=200, deadline=None)
@given(st.lists(priorities, min_size=1, max_size=40), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_find_goes_the_way_of_one_value_at_a_time(values: list[float], fractions: list[float]) -> None:
    tree = tree_of(values)
    if tree.total == 0.0:
        return
    wanted = np.minimum(np.array([*fractions, 1.0]) * tree.total, np.nextafter(tree.total, 0.0))
    assert tree.find(wanted).tolist() == [walk(tree, float(value)) for value in wanted]


@pytest.mark.parametrize("count", [1, ONE_BY_ONE, ONE_BY_ONE + 1])
def test_find_turns_away_from_an_empty_half_that_rounding_leads_to(count: int) -> None:
    tree = tree_of([2.8, 0.6, 4.1, 0.0])
    last = np.nextafter(tree.total, 0.0)
    assert last - (2.8 + 0.6) >= 4.1  # rounded, it lies beyond the last leaf that has a priority
    assert tree.find(np.array([0.0] * (count - 1) + [last])).tolist() == [0] * (count - 1) + [2]


def test_find_returns_the_leaf_whose_interval_holds_the_value() -> None:
    tree = tree_of([1.0, 0.0, 2.0, 0.0, 0.5])
    values = np.array([0.0, 0.999, 1.0, 2.999, 3.0, 3.499])
    assert tree.find(values).tolist() == [0, 0, 2, 2, 4, 4]


def test_the_sum_does_not_drift_when_large_priorities_give_way_to_small_ones() -> None:
    tree = tree_of([1.0, 1.0, 1.0])
    for _ in range(100):
        tree.set(np.array([1]), [1e30])
        tree.set(np.array([1]), [1e-3])
    assert tree.total == 1.0 + 1e-3 + 1.0


@pytest.mark.parametrize("capacity", [1, 2, 3, 37, 64])
def test_draws_are_proportional_to_priority(capacity: int) -> None:
    generator = np.random.default_rng(3)
    values = generator.random(capacity) + 0.1
    values[generator.random(capacity) < 0.3] = 0.0
    values[0] = 1.0
    tree = tree_of(values.tolist())
    draws = np.concatenate([tree.proportional(50, generator) for _ in range(400)])
    stratified = np.concatenate([tree.stratified(32, generator) for _ in range(625)])
    expected = values / values.sum() * 20_000
    for counts in (np.bincount(draws, minlength=capacity), np.bincount(stratified, minlength=capacity)):
        assert counts[values == 0].sum() == 0
        if (values > 0).sum() > 1:
            assert chisquare(counts[values > 0], expected[values > 0]).pvalue > 1e-3


def test_stratified_hits_each_slice_once() -> None:
    generator = np.random.default_rng(0)
    tree = tree_of([1.0] * 96)
    for _ in range(50):
        leaves = tree.stratified(32, generator)
        assert (leaves // 3).tolist() == list(range(32))


def test_one_heavy_leaf_is_drawn_by_its_share_of_the_slices() -> None:
    tree = tree_of([1.0, 1.0, 6.0])
    assert tree.stratified(8, np.random.default_rng(1)).tolist() == [0, 1, 2, 2, 2, 2, 2, 2]


@pytest.mark.parametrize("bad", [-1e-9, float("nan"), float("inf"), 1e39])
def test_a_bad_priority_is_refused_and_changes_nothing(bad: float) -> None:
    tree = tree_of([1.0, 2.0])
    with pytest.raises(ValueError, match=r"priorities: got .*, must be finite, from 0 to"):
        tree.set(np.array([0, 1]), [5.0, bad])
    with pytest.raises(ValueError, match="priorities: got"):
        tree.set_one(0, bad)
    assert tree.get(np.arange(2)).tolist() == [1.0, 2.0]
    assert tree.total == 3.0


def test_bad_indices_values_and_sizes_are_refused() -> None:
    tree = tree_of([1.0, 2.0, 3.0])
    for index in (-1, 3):
        with pytest.raises(ValueError, match=r"indices: got .* between 0 and 2"):
            tree.set(np.array([index]), [1.0])
        with pytest.raises(ValueError, match=r"indices: got .* between 0 and 2"):
            tree.set_one(index, 1.0)
        with pytest.raises(ValueError, match=r"indices: got"):
            tree.get(np.array([index]))
    with pytest.raises(ValueError, match=r"priorities: got shape \(2,\)"):
        tree.set(np.array([0]), [1.0, 2.0])
    for value in (-0.1, 6.0, float("nan")):
        with pytest.raises(ValueError, match="values: got"):
            tree.find(np.array([value]))
    with pytest.raises(ValueError, match="capacity: got 0"):
        SumTree(0)
    with pytest.raises(ValueError, match="all zero"):
        SumTree(4).stratified(2, np.random.default_rng(0))


def test_rounding_at_the_end_of_the_sum_does_not_lead_into_an_empty_leaf() -> None:
    # The last value below the total of 1, less the left half of 0.3, rounds to the whole of 0.7.
    values = [0.3, 0.0, 0.7, 0.0]
    tree = tree_of(values)
    last = np.nextafter(tree.total, 0.0)
    assert last - (values[0] + values[1]) >= values[2]
    assert tree.find(np.array([last])).tolist() == [2]


class AlmostOne(np.random.Generator):
    """Always draws the largest number below one."""

    def random(self, size: Any = None, *_: Any, **__: Any) -> Any:
        return np.full(size, np.nextafter(1.0, 0.0))


def test_a_draw_that_rounds_up_to_the_total_still_finds_the_last_leaf() -> None:
    tree = tree_of([1.0] * 37)
    generator = AlmostOne(np.random.PCG64(0))
    assert tree.stratified(32, generator)[-1] == 36
    assert tree.proportional(2, generator).tolist() == [36, 36]
