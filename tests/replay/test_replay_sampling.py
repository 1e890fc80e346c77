"""Which windows are drawn, how often, and with which weights."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_oracle import episodes, feed, pair
from scipy.stats import chisquare

from sacbbf.replay import Replay
from sacbbf.types import Batch


def drawn(replay: Replay, n: int, rounds: int, batch_size: int = 16) -> np.ndarray:
    generator = np.random.default_rng(0)
    return np.concatenate([replay.sample(batch_size, n, 0.9, generator).indices for _ in range(rounds)])


@settings(max_examples=40, deadline=None)
@given(
    events=episodes,
    behaviour=st.sampled_from(["paper", "released"]),
    prioritised=st.booleans(),
    n=st.integers(1, 4),
)
def test_samples_are_exactly_the_valid_windows(events: str, behaviour: str, prioritised: bool, n: int) -> None:
    replay, oracle = pair(capacity=25, behaviour=behaviour, prioritised=prioritised, shape=(1,), dtype=np.float32)
    feed(replay, oracle, "." * 5 + events + "." * 5)
    valid = oracle.valid(n)
    if valid:
        assert sorted(set(drawn(replay, n, rounds=30).tolist())) == valid
    else:
        with pytest.raises(ValueError, match=f"holds {len(replay)} steps, which is too few for n={n}, k=2"):
            drawn(replay, n, rounds=1)


@pytest.mark.parametrize("prioritised", [True, False])
def test_draws_among_valid_windows_follow_their_priorities(prioritised: bool) -> None:
    replay, oracle = pair(capacity=40, prioritised=prioritised)
    feed(replay, oracle, "......C......T......L......." * 2)
    valid = np.array(oracle.valid(3))
    priorities = np.linspace(0.2, 2.0, len(replay))
    replay.set_priorities(np.arange(replay.oldest, replay.steps_added), priorities)
    share = priorities[valid - replay.oldest] if prioritised else np.ones(len(valid))
    # One draw at a time: stratified batches are less spread out than the test of independence expects.
    draws = drawn(replay, 3, rounds=6000, batch_size=1)
    counts = np.array([(draws == t).sum() for t in valid])
    assert chisquare(counts, share / share.sum() * len(draws)).pvalue > 1e-3


def test_each_slice_is_hit_once_where_all_its_windows_are_valid() -> None:
    replay, oracle = pair(capacity=64, k=0)
    feed(replay, oracle, "." * 64)
    for seed in range(20):
        indices = replay.sample(32, 1, 0.9, np.random.default_rng(seed)).indices
        assert (indices[:31] // 2).tolist() == list(range(31))  # the last slice touches the write head


def test_slices_follow_the_slots_of_a_ring_that_has_wrapped() -> None:
    replay, oracle = pair(capacity=32, stack=1, k=0)
    feed(replay, oracle, "." * 48)  # slots 0 .. 15 hold steps 32 .. 47, slots 16 .. 31 steps 16 .. 31
    indices = replay.sample(16, 1, 0.9, np.random.default_rng(3)).indices
    assert (indices[8:] // 2).tolist() == list(range(8, 16))
    assert (indices[:7] // 2).tolist() == list(range(16, 23))


def test_new_steps_enter_at_the_largest_priority_seen() -> None:
    replay, oracle = pair(capacity=20)
    feed(replay, oracle, "...")
    assert replay.max_priority == 1.0
    assert replay.priorities([0, 1, 2]).tolist() == [1.0, 1.0, 1.0]
    replay.set_priorities([0], [0.1])
    feed(replay, oracle, ".")
    assert replay.priorities([0, 3]).tolist() == [0.1, 1.0]
    replay.set_priorities([1, 2], [7.5, 3.0])
    replay.set_priorities([1], [0.5])
    feed(replay, oracle, ".")
    assert replay.priorities([1, 4]).tolist() == [0.5, 7.5]
    assert replay.max_priority == 7.5


def test_the_last_of_duplicate_priorities_stays() -> None:
    replay, oracle = pair(capacity=20)
    feed(replay, oracle, "....")
    replay.set_priorities([2, 1, 2], [5.0, 6.0, 0.25])
    assert replay.priorities([1, 2]).tolist() == [6.0, 0.25]


def test_priorities_of_overwritten_steps_are_ignored() -> None:
    replay, oracle = pair(capacity=10)
    feed(replay, oracle, "." * 13)
    replay.set_priorities([2, 3, 0], [50.0, 2.0, 60.0])
    assert replay.priorities(np.arange(3, 13)).tolist() == [2.0] + [1.0] * 9
    assert replay.max_priority == 2.0
    replay.set_priorities([0, 1], [9.0, 9.0])
    assert replay.priorities([10, 11]).tolist() == [1.0, 1.0]


def test_weights_are_the_inverse_root_of_priority_over_all_that_was_drawn() -> None:
    replay, oracle = pair(capacity=40)
    feed(replay, oracle, "." * 40)
    generator = np.random.default_rng(2)
    priorities = generator.random(40) + 0.05
    replay.set_priorities(np.arange(40), priorities)
    batch = replay.sample(24, 3, 0.9, generator)
    raw = 1.0 / np.sqrt(priorities[batch.indices])
    np.testing.assert_allclose(batch.weights.numpy(), raw / raw.max(), rtol=1e-6)
    assert batch.weights.max() == 1.0 and batch.weights.min() < 0.9


def test_uniform_replay_weighs_all_alike_and_keeps_no_priorities() -> None:
    replay, oracle = pair(capacity=40, prioritised=False)
    feed(replay, oracle, "." * 40)
    replay.set_priorities([3], [100.0])
    assert replay.priorities([3, 4]).tolist() == [1.0, 1.0]
    assert replay.sample(16, 3, 0.9, np.random.default_rng(0)).weights.tolist() == [1.0] * 16


def test_valid_windows_are_found_when_nearly_all_the_mass_is_on_invalid_ones() -> None:
    replay, oracle = pair(capacity=60)
    feed(replay, oracle, "." * 40)
    valid = oracle.valid(3)
    replay.set_priorities(np.arange(40), [1e-12 if t in valid else 1e6 for t in range(40)])
    replay.set_priorities([5, 6], [2e-12, 0.0])
    draws = drawn(replay, 3, rounds=300, batch_size=16)
    assert set(draws.tolist()) == set(valid) - {6}
    counts = np.bincount(draws, minlength=len(valid)).astype(float)
    counts[5] /= 2.0
    np.testing.assert_allclose(np.delete(counts, 6), len(draws) / len(valid), rtol=0.4)


@pytest.mark.parametrize("elsewhere", [0.0, 3.0])
def test_valid_windows_of_zero_priority_are_drawn_evenly_as_a_last_resort(elsewhere: float) -> None:
    replay, oracle = pair(capacity=60)
    feed(replay, oracle, "." * 14)
    valid = oracle.valid(3)
    replay.set_priorities(np.arange(14), [0.0 if t in valid else elsewhere for t in range(14)])
    draws = drawn(replay, 3, rounds=200)
    assert set(draws.tolist()) == set(valid)
    assert chisquare([(draws == t).sum() for t in valid]).pvalue > 1e-3
    assert replay.sample(4, 3, 0.9, np.random.default_rng(0)).weights.tolist() == [1.0] * 4


def test_the_same_generator_draws_the_same_batch() -> None:
    replay, oracle = pair(capacity=60)
    feed(replay, oracle, "." * 20 + "C" + "." * 39)
    one, two, other = (replay.sample(32, 3, 0.9, np.random.default_rng(seed)) for seed in (4, 4, 5))
    assert one.indices.tolist() == two.indices.tolist() != other.indices.tolist()
    assert (one.states == two.states).all()


@pytest.mark.parametrize("prioritised", [True, False])
@pytest.mark.parametrize("behaviour", ["paper", "released"])
@pytest.mark.parametrize("stack", [1, 4])
def test_a_drawn_batch_is_the_one_assembled_from_its_steps(stack: int, behaviour: str, prioritised: bool) -> None:
    replay, oracle = pair(capacity=90, stack=stack, k=5, behaviour=behaviour, prioritised=prioritised)
    feed(replay, oracle, ("." * 17 + "C" + "." * 14 + "T" + "." * 20 + "L") * 4)
    generator = np.random.default_rng(0)
    for n in (10, 3, 1, 12):
        drawn_batch = replay.sample(32, n, 0.97, generator)
        assembled = replay.assemble(drawn_batch.indices, n, 0.97)
        for field in fields(Batch):
            one, other = getattr(drawn_batch, field.name), getattr(assembled, field.name)
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other), strict=True, err_msg=field.name)
        replay.set_priorities(drawn_batch.indices, generator.random(32))


@pytest.mark.parametrize("prioritised", [True, False])
def test_ordinary_draws_never_list_all_windows(prioritised: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(self: Replay, n: int) -> None:
        raise AssertionError("a pass over the whole ring")

    monkeypatch.setattr(Replay, "valid_indices", listed)
    replay, oracle = pair(capacity=200, prioritised=prioritised)
    feed(replay, oracle, ("." * 30 + "C") * 10)
    assert len(drawn(replay, 5, rounds=50, batch_size=32)) == 1600
