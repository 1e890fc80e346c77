"""Blind play: the best constant action or two-action mix, found on episodes that do not count for its score."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from sacbbf.envs.base import Environment
from sacbbf.policy import FixedPolicy
from sacbbf.run.evaluate import Plan, evaluate, summarise

SEARCH_EPISODES = 4  # for each constant action and each even mix
FINAL_EPISODES = 16  # for each of the best, and for uneven mixes of their actions
FINALISTS = 6


@dataclass(frozen=True)
class Mix:
    """A blind way to play: the first action with probability `share`, else the second."""

    first: int
    second: int
    share: float

    def policy(self, num_actions: int) -> FixedPolicy:
        """Return this mix as a policy."""
        probabilities = np.zeros(num_actions)
        probabilities[self.second] += 1.0 - self.share
        probabilities[self.first] += self.share
        return FixedPolicy(probabilities)

    def describe(self, names: tuple[str, ...]) -> str:
        """Return a mix in words, such as `75% LEFT, 25% FIRE`."""
        if self.first == self.second:
            return f"always {names[self.first]}"
        return f"{self.share:.0%} {names[self.first]}, {1 - self.share:.0%} {names[self.second]}"


def candidates(num_actions: int) -> list[Mix]:
    """Every constant action and every even mix of two."""
    constants = [Mix(action, action, 1.0) for action in range(num_actions)]
    return constants + [Mix(first, second, 0.5) for first, second in itertools.combinations(range(num_actions), 2)]


def neighbours(mix: Mix) -> list[Mix]:
    """Return a mix and its uneven variants."""
    return [mix] if mix.first == mix.second else [replace(mix, share=share) for share in (0.25, 0.5, 0.75)]


def find_blind(
    make: Callable[[], Environment], plan: Plan, num_actions: int, on_candidate: Callable[[], object]
) -> tuple[Mix, int]:
    """Return the best blind mix on the search's own episodes, and the number of environment steps it took."""
    steps = 0

    def best(mixes: Iterable[Mix], episodes: int, phase: str, keep: int) -> list[Mix]:
        nonlocal steps
        scored = []
        for mix in mixes:
            records = evaluate(mix.policy(num_actions), make, replace(plan, episodes=episodes, phase=phase))
            steps += sum(record.length for record in records)
            scored.append((summarise([record.score for record in records]).mean, mix))
            on_candidate()
        return [mix for _, mix in sorted(scored, key=lambda pair: pair[0], reverse=True)[:keep]]

    finalists = best(candidates(num_actions), SEARCH_EPISODES, "blind-search", FINALISTS)
    variants = [variant for mix in finalists for variant in neighbours(mix)]
    return best(variants, FINAL_EPISODES, "blind-final", 1)[0], steps
