"""Masks of legal actions: where they come from, how often they are asked for, and what is refused."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sacbbf.envs.base import EnvError, check_mask
from sacbbf.envs.make import make_env
from sacbbf.envs.states import StateEnv
from toys import Choosy, Favourite, Toy


class Scripted(Toy):
    """Nothing to see; `info` is what a script says, reset first; over after four steps."""

    actions = 3
    length = 4
    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)

    def __init__(self, *script: Any) -> None:
        super().__init__()
        self.script = script

    def reset(self, **words: Any) -> Any:
        observation, _ = super().reset(**words)
        return observation, self.info()

    def step(self, action: int) -> Any:
        *rest, _ = super().step(action)
        return *rest, self.info()

    def info(self) -> Any:
        mask = self.script[self.taken]
        return {} if mask is None else {"action_mask": mask}

    def look(self) -> Any:
        return np.zeros(1, np.float32)

    def act(self, action: int) -> Any:
        return 0.0, False


def masks_of(env: Any, seed: int = 3, steps: int = 30) -> list[list[bool]]:
    """The masks of some episodes in which the first legal action is always taken."""
    found = []
    env.reset(seed)
    for number in range(steps):
        found.append(env.mask.tolist())
        if env.step(int(np.argmax(env.mask))).over:
            env.reset(seed + number)
    return found


def test_a_method_and_info_tell_the_same():
    by_method = masks_of(make_env("toys/Choosy-v0"))
    assert by_method == masks_of(make_env("toys/Told-v0"))
    assert len({tuple(mask) for mask in by_method}) > 10
    assert min(map(sum, by_method)) == 1


def test_a_method_is_found_inside_wrappers_and_the_outermost_counts():
    class All(gymnasium.Wrapper):
        def action_masks(self):
            return np.ones(5, np.bool_)

    wrapped = gymnasium.wrappers.TimeLimit(Choosy(), 30)
    assert masks_of(make_env(wrapped)) == masks_of(make_env("toys/Choosy-v0"))
    env = make_env(All(wrapped))
    env.reset(0)
    assert env.mask.tolist() == [True] * 5


@pytest.mark.parametrize("env", ["toys/Identity-v0", "CartPole-v1"])
def test_most_environments_have_no_masks(env):
    made = make_env(env)
    made.reset(0)
    assert made.mask is None
    made.step(0)
    assert made.mask is None


def test_a_mask_is_a_copy():
    raw = Choosy()
    env = make_env(raw)
    env.reset(0)
    before = env.mask.copy()
    raw.legal[:] = True
    assert env.mask.tolist() == before.tolist() and not before.all()


def test_what_is_over_needs_no_legal_action():
    env = make_env("toys/Choosy-v0")  # it has none then
    env.reset(0)
    while not env.step(int(np.argmax(env.mask))).over:
        pass
    env.reset(1)
    assert env.mask.any()


YES, NO = [1, 0, 1], [0, 0, 0]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ((YES, None), r"info\['action_mask'\] is missing, though it came with the first reset"),
        ((None, YES), r"info\['action_mask'\] came with a step, but not with the first reset"),
        ((YES, NO), r"info\['action_mask'\] has no legal action"),
        ((YES, [1, 0]), r"info\['action_mask'\] has shape \(2,\): must be \(3,\)"),
        ((YES, [[1, 0, 1]]), r"has shape \(1, 3\)"),
        ((YES, [1, 0, 2]), "of other values than 0 and 1"),
        ((YES, [1.0, np.nan, 0.0]), "of other values than 0 and 1"),
        ((YES, ["1", "0", "1"]), "holds <U1 of other values"),
    ],
)
def test_a_mask_that_is_wrong_or_lacking_is_an_error_that_names_it(script, words):
    env = make_env(Scripted(*script))
    env.reset(0)
    with pytest.raises(EnvError, match=f"Scripted: {words}" if words.startswith("info") else words):
        env.step(0)


def test_numbers_of_0_and_1_are_masks_too():
    env = make_env(Scripted(np.array([1.0, 0.0, 1.0]), np.array([0, 1, 0], np.int8), YES, YES, None))
    env.reset(0)
    assert env.mask.tolist() == [True, False, True]
    env.step(0)
    assert env.mask.tolist() == [False, True, False]
    env.step(1)
    env.step(0)
    assert env.step(0).truncated  # and no mask came with it


def test_a_method_must_be_one():
    class Attribute(Favourite):
        action_masks = np.ones(4)

    with pytest.raises(EnvError, match="action_masks is ndarray, must be a method"):
        make_env(Attribute())


def test_several_states_are_checked_each():
    with pytest.raises(EnvError, match="action_masks has no legal action"):
        check_mask([[True, False], [False, False]], (2, 2), "action_masks")


def test_states_for_other_libraries_come_with_their_masks():
    env = StateEnv("toys/Choosy-v0")
    state, info = env.reset(seed=0)
    over = False
    while not over:
        assert info["action_mask"][int(np.argmax(state))]  # the symbol is legal
        state, _, over, _, info = env.step(int(np.argmax(info["action_mask"])))
    assert "action_mask" not in info
    assert "action_mask" not in StateEnv("toys/Identity-v0").reset(seed=0)[1]
