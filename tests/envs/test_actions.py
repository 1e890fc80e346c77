"""Action numbers and what an environment takes for them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sacbbf.envs.actions import Actions
from sacbbf.envs.base import EnvError


class Acting(gymnasium.Env[Any, Any]):
    """An action space, with words for its actions if there are some."""

    def __init__(self, space: spaces.Space[Any], words: Any = None) -> None:
        self.action_space = space
        if words is not None:
            self.get_action_meanings = lambda: words


def actions(space: spaces.Space[Any], words: Any = None) -> Actions:
    return Actions(Acting(space, words), "Own")


def test_numbers_of_a_discrete_space_begin_at_0_wherever_it_starts():
    found = actions(spaces.Discrete(3, start=-2))
    assert [found.raw(number) for number in range(3)] == [-2, -1, 0]
    assert [found.number(raw) for raw in (-2, -1, 0)] == [0, 1, 2]
    assert found.names == ("0", "1", "2")


@pytest.mark.parametrize(
    ("space", "raw"),
    [
        (spaces.MultiDiscrete([2, 3]), [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]),
        (spaces.MultiDiscrete([2, 2], start=[1, -1]), [[1, -1], [1, 0], [2, -1], [2, 0]]),
        (spaces.MultiDiscrete([[2], [2]]), [[[0], [0]], [[0], [1]], [[1], [0]], [[1], [1]]]),
        (spaces.MultiBinary(2), [[0, 0], [0, 1], [1, 0], [1, 1]]),
    ],
)
def test_every_combination_is_an_action(space, raw):
    found = actions(space)
    assert found.count == len(raw)
    for number, expected in enumerate(raw):
        action = found.raw(number)
        assert space.contains(action) and action.tolist() == expected
        assert found.number(action) == number


@pytest.mark.parametrize(
    ("space", "words", "names"),
    [
        (spaces.Discrete(2), ["left", "right"], ("left", "right")),
        (spaces.Discrete(3), ["left", "right"], ("0", "1", "2")),
        (spaces.MultiDiscrete([2, 2]), [["no", "up"], ["no", "fire"]], ("no+no", "no+fire", "up+no", "up+fire")),
        (spaces.MultiDiscrete([1, 3]), None, ("0,0", "0,1", "0,2")),
        (spaces.MultiBinary(2), ["up", "fire"], ("none", "fire", "up", "up+fire")),
        (spaces.MultiBinary(2), ["a", "b", "c", "d"], ("a", "b", "c", "d")),
    ],
)  # fmt: skip
def test_actions_go_by_the_environments_words_where_it_has_them(space, words, names):
    assert actions(space, words).names == names


@pytest.mark.parametrize("raw", [3, -3, [0, 0], 0.5])
def test_what_is_no_action_is_refused(raw):
    with pytest.raises(EnvError, match=r"action = .*: must be one of Discrete\(3, start=-2\)"):
        actions(spaces.Discrete(3, start=-2)).number(raw)


def test_a_number_beyond_the_last_is_refused():
    with pytest.raises(EnvError, match=r"0 \.\. 5, got 6"):
        actions(spaces.MultiDiscrete([2, 3])).raw(6)


def test_the_largest_space_that_is_played():
    assert actions(spaces.MultiBinary(9)).count == 512
    assert actions(spaces.Discrete(600)).count == 600
    with pytest.raises(EnvError, match="1,024 combinations"):
        actions(spaces.MultiBinary(10))


def test_a_wrapper_may_have_words_of_its_own():
    class Named(gymnasium.Wrapper[Any, Any, Any, Any]):
        def get_action_meanings(self) -> list[str]:
            return ["on", "off"]

    assert Actions(Named(Acting(spaces.Discrete(2), ["a", "b"])), "Own").names == ("on", "off")
    assert np.array_equal(Actions(Named(Acting(spaces.MultiBinary(1))), "Own").raw(1), [1])
