import numpy as np
import pytest

from sacbbf.replay.n_step import (
    Ends,
    before_any,
    combine_ends,
    cut_short,
    ends_within,
    importance_weights,
    n_step_return,
    same_episode,
)


def column(*flags: int) -> np.ndarray:
    return np.array(flags, dtype=np.bool_)[:, None]


def ends(terminal: np.ndarray, truncated: np.ndarray) -> Ends:
    return combine_ends(terminal, truncated, np.zeros_like(terminal))


def test_all_eight_combinations_of_the_three_ends() -> None:
    flags = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)], dtype=np.bool_).T
    got = combine_ends(*flags)  # terminated, truncated, life_lost
    assert got.terminal.tolist() == [False, True, False, True, True, True, True, True]
    assert got.cut.tolist() == [False, False, True, False, False, False, False, False]
    assert got.over.tolist() == [False, True, True, True, True, True, True, True]


def test_before_any() -> None:
    assert before_any(column(0, 1, 0, 1)).ravel().tolist() == [True, True, False, False]
    assert before_any(column(1)).ravel().tolist() == [True]


def test_return_without_an_end_is_the_discounted_sum() -> None:
    rewards = np.array([[1.0], [2.0], [4.0]])
    assert n_step_return(rewards, column(0, 0, 0), 0.5).tolist() == [1.0 + 1.0 + 1.0]


def test_return_stops_at_the_first_terminal_and_counts_its_reward() -> None:
    rewards = np.array([[1.0], [2.0], [4.0], [8.0]])
    assert n_step_return(rewards, column(0, 1, 1, 0), 0.5).tolist() == [2.0]
    assert n_step_return(rewards, column(1, 0, 0, 0), 0.5).tolist() == [1.0]
    assert n_step_return(rewards, column(0, 0, 0, 1), 0.5).tolist() == [4.0]


def test_a_nan_after_the_terminal_does_not_reach_the_return() -> None:
    assert n_step_return(np.array([[1.0], [np.nan]]), column(1, 0), 0.9).tolist() == [1.0]


def test_done_sees_the_last_step_unless_the_bootstrap_lags() -> None:
    on_last = column(0, 0, 1)
    assert ends_within(on_last, 0).tolist() == [True]
    assert ends_within(on_last, 1).tolist() == [False]
    assert ends_within(column(0, 1, 0), 1).tolist() == [True]
    assert ends_within(column(1), 1).tolist() == [False]


@pytest.mark.parametrize(
    ("terminal", "truncated", "cut"),
    [
        ((0, 0, 0), (0, 0, 0), False),
        ((0, 0, 0), (0, 1, 0), True),
        ((0, 1, 0), (0, 1, 0), False),
        ((1, 0, 0), (0, 1, 0), False),
        ((0, 0, 1), (0, 1, 0), True),
        ((0, 0, 0), (0, 0, 1), True),
    ],
)
def test_a_truncation_cuts_a_window_unless_a_terminal_comes_first(
    terminal: tuple[int, ...], truncated: tuple[int, ...], cut: bool
) -> None:
    assert cut_short(ends(column(*terminal), column(*truncated))).tolist() == [cut]


def test_exact_mask_is_closed_by_any_end_before_the_state() -> None:
    got = same_episode(ends(column(0, 0, 0, 0), column(0, 1, 0, 0)), exact=True)
    assert got.ravel().tolist() == [True, True, False, False]
    got = same_episode(ends(column(0, 0, 1, 0), column(0, 0, 0, 0)), exact=True)
    assert got.ravel().tolist() == [True, True, True, False]


def test_released_mask_is_closed_by_a_terminal_on_the_state_but_not_in_the_first_sample() -> None:
    terminal = np.repeat(column(0, 0, 1, 0), 2, axis=1)
    truncated = np.repeat(column(1, 0, 0, 0), 2, axis=1)
    got = same_episode(ends(terminal, truncated), exact=False)
    assert got[:, 0].tolist() == [True, True, True, True]
    assert got[:, 1].tolist() == [True, True, False, False]


def test_importance_weights_by_hand() -> None:
    got = importance_weights(np.array([1.0, 4.0, 16.0]))
    assert got.tolist() == [1.0, 0.5, 0.25]
    assert importance_weights(np.array([0.0, 0.0])).tolist() == [1.0, 1.0]
    assert importance_weights(np.array([0.0, 2.0])).tolist() == [1.0, 0.0]
