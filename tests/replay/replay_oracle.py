"""A slow and obvious replay: every step is kept in a list, and every question is answered by a plain loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sacbbf.agents.behaviour import BEHAVIOURS
from sacbbf.replay import Replay


@dataclass
class Kept:
    frame: Any
    action: int
    reward: float
    terminated: bool
    truncated: bool
    life_lost: bool

    @property
    def terminal(self) -> bool:
        return self.terminated or self.life_lost


@dataclass
class Window:
    states: Any  # (k + 2, stack * C, ...)
    actions: list[int]
    return_n: float
    done: bool
    same_episode: list[float]


@dataclass
class Oracle:
    capacity: int
    stack: int
    k: int
    released: bool = False
    steps: list[Kept] = field(default_factory=list)

    @property
    def oldest(self) -> int:
        return max(0, len(self.steps) - self.capacity)

    def start_seen_from(self, t: int) -> int:
        """First step of t's episode, but no further back than a stack reaches."""
        start = t
        while start > 0 and t - start < self.stack - 1:
            before = self.steps[start - 1]
            if before.terminal or (before.truncated and not self.released):
                break
            start -= 1
        return start

    def state(self, at: int, seen_from: int) -> Any:
        start = self.start_seen_from(seen_from)
        zero = np.zeros_like(self.steps[0].frame)
        frames = []
        for u in range(at - self.stack + 1, at + 1):
            frames.append(self.steps[u].frame if u >= start else zero)
        return np.concatenate(frames, axis=0)

    def is_valid(self, t: int, n: int) -> bool:
        last = len(self.steps) - 1
        if self.released:
            window, needed = 10, 10 + self.k + 1
            if t < self.stack - 1:
                return False
        else:
            window, needed = n, max(n, self.k)
        if t < self.oldest or t + needed > last or self.start_seen_from(t) < self.oldest:
            return False
        for i in range(window):
            if self.steps[t + i].terminal:
                return True
            if self.steps[t + i].truncated:
                return False
        return True

    def valid(self, n: int) -> list[int]:
        return [t for t in range(len(self.steps)) if self.is_valid(t, n)]

    def window(self, t: int, n: int, gamma: float, row: int) -> Window:
        bootstrap = t + n - 1 if self.released else t + n
        states = [self.state(t + j, t if self.released else t + j) for j in range(self.k + 1)]
        states.append(self.state(bootstrap, t if self.released else bootstrap))
        total, done = 0.0, False
        for i in range(n):
            total += gamma**i * self.steps[t + i].reward
            if self.steps[t + i].terminal:
                done = t + i < bootstrap
                break
        return Window(
            states=np.stack(states),
            actions=[self.steps[t + j].action for j in range(self.k + 1)],
            return_n=total,
            done=done,
            same_episode=[self.same(t, j, row) for j in range(1, self.k + 1)],
        )

    def same(self, t: int, j: int, row: int) -> float:
        if self.released:
            return 1.0 if row == 0 or not any(self.steps[t + i].terminal for i in range(j + 1)) else 0.0
        ended = [self.steps[t + i].terminal or self.steps[t + i].truncated for i in range(j)]
        return 0.0 if any(ended) else 1.0


def pair(
    *,
    capacity: int,
    stack: int = 3,
    k: int = 2,
    behaviour: str = "paper",
    prioritised: bool = True,
    shape: tuple[int, ...] = (1, 2, 2),
    dtype: Any = np.uint8,
) -> tuple[Replay, Oracle]:
    """A replay and its oracle, both empty."""
    replay = Replay(
        capacity=capacity,
        frame_shape=shape,
        frame_dtype=dtype,
        stack=stack,
        k=k,
        prioritised=prioritised,
        behaviour=BEHAVIOURS[behaviour],
    )
    return replay, Oracle(capacity, stack, k, released=behaviour == "released")


def frame_of(replay: Replay, t: int) -> Any:
    """A frame that tells its step: random bits for grids, else never zero."""
    generator = np.random.default_rng(t)
    shape, dtype = replay.ring.frame_shape, replay.ring.frame_dtype
    if dtype == np.bool_:
        return generator.random(shape) < 0.5
    if dtype == np.uint8:
        return generator.integers(1, 256, shape, dtype=np.uint8)
    return generator.standard_normal(shape).astype(np.float32)


def feed(replay: Replay, oracle: Oracle, events: str) -> None:
    """Stores one step for each letter: '.' goes on, T terminated, C cut off, L life lost, B both T and C."""
    for letter in events:
        t = len(oracle.steps)
        reward = float(np.float32(np.random.default_rng([t, 1]).standard_normal()))
        kept = Kept(
            frame=frame_of(replay, t),
            action=t % 7,
            reward=reward,
            terminated=letter in "TB",
            truncated=letter in "CB",
            life_lost=letter == "L",
        )
        oracle.steps.append(kept)
        replay.add(
            kept.frame,
            kept.action,
            kept.reward,
            terminated=kept.terminated,
            truncated=kept.truncated,
            life_lost=kept.life_lost,
        )


def assert_same(replay: Replay, oracle: Oracle, indices: list[int], n: int, gamma: float) -> None:
    """Every field of the assembled batch is that of the oracle."""
    batch = replay.assemble(indices, n, gamma)
    for row, t in enumerate(indices):
        want = oracle.window(t, n, gamma, row)
        np.testing.assert_array_equal(batch.states[:, row].numpy(), want.states)
        assert batch.actions[:, row].tolist() == want.actions
        np.testing.assert_allclose(batch.return_n[row].item(), np.float32(want.return_n), rtol=1e-6, atol=1e-7)
        assert batch.discount_n[row].item() == np.float32(gamma**n)
        assert batch.done[row].item() is want.done
        assert batch.same_episode[:, row].tolist() == want.same_episode
    assert batch.indices.tolist() == indices


# Runs of quiet steps with ends in between, ends next to each other included.
episodes = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from("TCLB")).map(lambda part: "." * part[0] + part[1]),
    max_size=9,
).map("".join)
