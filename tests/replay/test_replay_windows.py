"""What a batch holds and which windows are valid, each end on its own and all against the oracle."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_oracle import assert_same, episodes, feed, pair

QUIET = "." * 12


def test_first_step_is_valid_and_its_stack_is_zero_before_the_run() -> None:
    replay, oracle = pair(capacity=30)
    feed(replay, oracle, QUIET)
    assert replay.is_valid([0], 3).tolist() == [True]
    states = replay.assemble([0], 3, 0.9).states[:, 0].numpy()  # (k + 2, 3, 2, 2)
    assert not states[0, :2].any()
    np.testing.assert_array_equal(states[0, 2:], oracle.steps[0].frame)
    assert not states[1, :1].any() and states[1, 1:].all()


def test_first_steps_are_never_sampled_as_released() -> None:
    replay, oracle = pair(capacity=60, behaviour="released")
    feed(replay, oracle, "." * 40)
    assert replay.valid_indices(3).tolist() == list(range(2, 40 - 10 - 3))


@pytest.mark.parametrize("end", ["T", "L", "B"])
def test_terminal_ends_the_return_and_closes_stack_and_mask(end: str) -> None:
    replay, oracle = pair(capacity=60)
    feed(replay, oracle, f"....{end}......")
    batch = replay.assemble([3, 4], 3, 0.5)  # the end is the second, and the first, of the three steps
    r = [step.reward for step in oracle.steps]
    assert replay.is_valid([3, 4], 3).all()
    assert batch.done.tolist() == [True, True]
    np.testing.assert_allclose(batch.return_n.numpy(), [r[3] + 0.5 * r[4], r[4]], rtol=1e-6)
    assert batch.same_episode.T.tolist() == [[1.0, 0.0], [0.0, 0.0]]
    s_5 = batch.states[2, 0].numpy()  # the first state after the end: two empty frames, then its own
    assert not s_5[:2].any()
    np.testing.assert_array_equal(s_5[2:], oracle.steps[5].frame)


def test_terminal_on_the_last_of_n_steps_is_seen_and_one_later_is_not() -> None:
    replay, oracle = pair(capacity=60)
    feed(replay, oracle, ".....T......")
    assert replay.assemble([3], 3, 0.5).done.tolist() == [True]
    assert replay.assemble([2], 3, 0.5).done.tolist() == [False]


def test_terminal_on_the_last_of_n_steps_is_unseen_as_released() -> None:
    replay, oracle = pair(capacity=60, behaviour="released")
    feed(replay, oracle, ".....T" + "." * 30)
    assert replay.assemble([3, 2, 4], 3, 0.5).done.tolist() == [False, False, True]


def test_truncation_makes_windows_across_it_invalid_and_closes_stack_and_mask() -> None:
    replay, oracle = pair(capacity=60)
    feed(replay, oracle, ".....C......")
    valid = replay.valid_indices(3).tolist()
    assert [t for t in range(9) if t not in valid] == [3, 4, 5]
    batch = replay.assemble([4], 1, 0.5)  # valid for n = 1, with the truncation among the futures
    assert replay.is_valid([4], 1).all()
    assert batch.done.tolist() == [False]
    assert batch.same_episode.T.tolist() == [[1.0, 0.0]]
    assert not batch.states[2, 0, :2].any()


def test_truncation_after_a_terminal_does_no_harm() -> None:
    replay, oracle = pair(capacity=60)
    feed(replay, oracle, "...T.C......")
    assert replay.is_valid([3, 4], 3).tolist() == [True, False]


def test_truncation_clears_no_stack_and_masks_nothing_as_released() -> None:
    replay, oracle = pair(capacity=60, behaviour="released")
    feed(replay, oracle, ".....C" + "." * 30)
    batch = replay.assemble([6, 5], 3, 0.5)
    assert batch.states[0, 0].all(dim=-1).all()
    assert batch.same_episode[:, 1].tolist() == [1.0, 1.0]
    assert replay.valid_indices(3).tolist() == list(range(6, 36 - 10 - 3))


def test_life_loss_is_a_terminal_for_learning_and_not_a_reset_of_the_others() -> None:
    replay, oracle = pair(capacity=60)
    feed(replay, oracle, "....L.......")
    assert replay.ring.life_lost[4] and not replay.ring.terminated.any() and not replay.ring.truncated.any()
    assert replay.assemble([4], 1, 0.5).done.tolist() == [True]


@pytest.mark.parametrize(("n", "k", "last"), [(3, 2, 6), (1, 2, 7), (1, 0, 8), (5, 2, 4)])
def test_write_head_is_never_crossed(n: int, k: int, last: int) -> None:
    replay, oracle = pair(capacity=30, k=k)
    feed(replay, oracle, "." * 10)
    assert replay.valid_indices(n).tolist() == list(range(last + 1))
    with pytest.raises(ValueError, match="must be stored"):
        replay.assemble([last + 1], n, 0.9)


def test_wrap_around_drops_steps_whose_stack_is_overwritten_but_not_a_new_episode() -> None:
    replay, oracle = pair(capacity=12)
    feed(replay, oracle, "." * 14)
    assert replay.oldest == 2 and len(replay) == 12 and replay.steps_added == 14
    assert replay.valid_indices(2).tolist() == list(range(4, 12))
    fresh, oracle = pair(capacity=12)
    feed(fresh, oracle, "..T" + "." * 12)
    assert fresh.oldest == 3
    assert fresh.valid_indices(2).tolist() == list(range(3, 13))


def test_assemble_shows_zeros_for_overwritten_frames_not_newer_ones() -> None:
    replay, oracle = pair(capacity=12)
    feed(replay, oracle, "." * 20)
    state = replay.assemble([8], 2, 0.9).states[0, 0].numpy()
    assert not state[:2].any()
    np.testing.assert_array_equal(state[2:], oracle.steps[8].frame)


def test_k_zero_keeps_the_first_and_the_bootstrap_state_only() -> None:
    replay, oracle = pair(capacity=20, k=0)
    feed(replay, oracle, QUIET)
    batch = replay.assemble([4, 5], 3, 0.9)
    assert batch.states.shape == (2, 2, 3, 2, 2)
    assert batch.actions.shape == (1, 2) and batch.same_episode.shape == (0, 2)
    assert_same(replay, oracle, [4, 5], 3, 0.9)


@pytest.mark.parametrize(
    ("shape", "dtype", "state"),
    [
        ((1, 4, 4), np.uint8, (3, 4, 4)),
        ((2, 3, 5), np.uint8, (6, 3, 5)),
        ((4, 3, 3), np.bool_, (12, 3, 3)),
        ((5,), np.float32, (15,)),
    ],
)
def test_dtypes_and_shapes_of_frames_are_kept(shape: tuple[int, ...], dtype: type, state: tuple[int, ...]) -> None:
    replay, oracle = pair(capacity=20, shape=shape, dtype=dtype)
    feed(replay, oracle, "..T....C.....L......" * 2)
    valid = replay.valid_indices(3).tolist()
    batch = replay.assemble(valid, 3, 0.9)
    assert batch.states.shape == (4, len(valid), *state)
    assert batch.states.numpy().dtype == dtype
    assert_same(replay, oracle, valid, 3, 0.9)


def test_frames_are_copied_whatever_their_layout() -> None:
    replay, _ = pair(capacity=20, stack=1, shape=(1, 3, 4))
    frame = np.arange(12, dtype=np.uint8).reshape(1, 3, 4)
    read_only = frame.copy()
    read_only.flags.writeable = False
    for layout in (frame[:, ::-1], np.asfortranarray(frame), read_only, frame):
        replay.add(layout, 0, 0.0)
    for _ in range(3):
        replay.add(frame, 0, 0.0)
    frame[:] = 99
    states = replay.assemble([0, 1, 2, 3], 1, 0.9).states[0].numpy()
    want = np.arange(12).reshape(1, 3, 4)
    np.testing.assert_array_equal(states[0], want[:, ::-1])
    for state in states[1:]:
        np.testing.assert_array_equal(state, want)


@settings(max_examples=400, deadline=None)
@given(
    events=episodes,
    capacity=st.integers(7, 40),
    behaviour=st.sampled_from(["paper", "released"]),
    stack=st.integers(1, 4),
    k=st.integers(0, 3),
    n=st.integers(1, 10),
    gamma=st.sampled_from([0.5, 0.97, 1.0]),
)
def test_any_history_matches_the_oracle(
    events: str, capacity: int, behaviour: str, stack: int, k: int, n: int, gamma: float
) -> None:
    replay, oracle = pair(
        capacity=max(capacity, stack + k + 2), stack=stack, k=k, behaviour=behaviour, shape=(3,), dtype=np.float32
    )
    feed(replay, oracle, events + "." * 15)
    valid = oracle.valid(n)
    assert replay.valid_indices(n).tolist() == valid
    assert replay.is_valid(np.arange(-5, len(oracle.steps) + 20), n).sum() == len(valid)
    if valid:
        assert_same(replay, oracle, valid[::-1], n, gamma)


@pytest.mark.parametrize("behaviour", ["paper", "released"])
def test_several_rounds_of_the_ring_match_the_oracle_at_every_step(behaviour: str) -> None:
    letters = np.random.default_rng(5).choice(list("........TCLB"), size=150)
    replay, oracle = pair(capacity=31, behaviour=behaviour, shape=(2,), dtype=np.float32)
    seen = 0
    for letter in letters:
        feed(replay, oracle, str(letter))
        valid = oracle.valid(4)
        assert replay.valid_indices(4).tolist() == valid
        if valid:
            assert_same(replay, oracle, valid, 4, 0.9)
            seen += len(valid)
    assert seen > 100
