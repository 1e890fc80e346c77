"""The replay buffer: stores steps, says which windows of them are valid, draws some, and assembles batches.

A window for n starts at step t and uses the n rewards from t on, the states s_t .. s_{t+k} and the bootstrap
state s_{t+n}. Indices are step numbers counted from the start of the run, not slots of the ring.
"""

from __future__ import annotations

import operator

import numpy as np
import numpy.typing as npt
import torch

from sacbbf.behaviour import PAPER, Behaviour
from sacbbf.replay.n_step import Ends, cut_short, ends_within, importance_weights, n_step_return, same_episode
from sacbbf.replay.storage import Ring, check_frame_dtype
from sacbbf.replay.sum_tree import FLOAT32_MAX, SumTree, check_priorities
from sacbbf.types import Batch, BoolArray, FloatArray, Frame, IntArray

# Invalid draws are drawn again this often; then all valid windows are listed, in a pass over the ring.
REDRAW_ROUNDS = 20


class NoWindow(ValueError):  # noqa: N818 - named after what it is
    """The buffer holds no window that may be sampled."""


class Replay:
    """Prioritised (or uniform) replay of windows over a ring of single frames."""

    def __init__(
        self,
        *,
        capacity: int,
        frame_shape: tuple[int, ...],
        frame_dtype: npt.DTypeLike,
        stack: int,
        k: int,
        prioritised: bool = True,
        behaviour: Behaviour = PAPER,
        device: torch.device | str = "cpu",
        storage_device: torch.device | str = "cpu",
    ) -> None:
        """Keeps `capacity` frames (C, H, W) or (D,) on `storage_device`; batches go to `device`.

        `stack` frames make a state, `k` future states come with it. `behaviour` decides between the paper and
        the release.
        """
        _check_sizes(capacity, tuple(frame_shape), stack, k)
        self.k = k
        self.behaviour = behaviour
        self.device = torch.device(device)
        self.ring = Ring(
            capacity=capacity,
            frame_shape=tuple(frame_shape),
            frame_dtype=check_frame_dtype(frame_dtype),
            stack=stack,
            truncation_restarts=behaviour.stack_per_state,
            device=storage_device,
        )
        self.tree = SumTree(capacity) if prioritised else None
        self._max_priority = 1.0

    def __len__(self) -> int:
        return self.ring.steps_added - self.ring.oldest

    @property
    def steps_added(self) -> int:
        """Steps stored since the start of the run; the next one gets this number."""
        return self.ring.steps_added

    @property
    def oldest(self) -> int:
        """The oldest step still stored."""
        return self.ring.oldest

    @property
    def max_priority(self) -> float:
        """The largest priority seen so far, at least 1: that of every new step."""
        return self._max_priority

    @property
    def nbytes(self) -> int:
        """Memory of everything that is stored."""
        return self.ring.nbytes + (0 if self.tree is None else self.tree.nbytes)

    def add(
        self,
        frame: Frame,
        action: int,
        reward: float,
        terminated: bool = False,
        truncated: bool = False,
        life_lost: bool = False,
    ) -> None:
        """Stores the newest frame of s_t, the action taken on it, and the reward and ends that followed."""
        array = np.asarray(frame)
        if array.shape != self.ring.frame_shape or array.dtype != self.ring.frame_dtype:
            raise ValueError(
                f"frame: got {array.dtype} of shape {array.shape}, "
                f"must be {self.ring.frame_dtype} of shape {self.ring.frame_shape}"
            )
        _check_step(action, reward)
        slot = self.ring.append(array, action, reward, terminated, truncated, life_lost)
        if self.tree is not None:
            self.tree.set_one(slot, self._max_priority)

    def restore_counters(self, steps_added: int, max_priority: float) -> None:
        """Go on from here, after rows and priorities have been put back."""
        self.ring.steps_added = steps_added
        self._max_priority = max_priority

    def truncate_last(self) -> None:
        """Mark the newest step as cut off: the episode that it belongs to cannot go on."""
        if len(self):
            self.ring.truncated[self.ring.slots(np.array([self.steps_added - 1]))] = True

    def is_valid(self, indices: npt.ArrayLike, n: int) -> BoolArray:
        """Whether windows for n may start at steps `indices` (B,) -> (B,); false for steps not stored.

        Every state and reward is stored, the frames of s_t's stack are too, and within the n steps no
        truncation comes before a terminal. The release checks with n = 10 whatever n is in use, wants
        n + k + 1 further steps before the write head, and skips the first stack - 1 steps of a run.
        """
        t = _as_steps(indices)
        _check_n(n)
        rules, ring = self.behaviour, self.ring
        if rules.window_n is None:
            window, reach = n, max(n, self.k)
        else:
            window = max(n, rules.window_n)
            reach = window + self.k + 1
        valid = (t >= ring.oldest) & (t + reach < ring.steps_added) & (ring.stack_starts(t) >= ring.oldest)
        if rules.skip_first_steps:
            valid &= t >= ring.stack - 1
        valid &= ~cut_short(ring.ends(t + np.arange(window)[:, None]))
        return valid

    def valid_indices(self, n: int) -> IntArray:
        """All steps at which a window for n may start, in order. A pass over the whole ring."""
        steps = np.arange(self.oldest, self.steps_added)
        return steps[self.is_valid(steps, n)]

    def sample(self, batch_size: int, n: int, gamma: float, generator: np.random.Generator) -> Batch:
        """Draws `batch_size` valid windows and assembles them; ValueError if there is none.

        Prioritised: one draw in each of `batch_size` equal slices of the total priority. Draws that hit an
        invalid window are drawn again from all. Weights have their maximum over the whole of `batch_size`.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size: got {batch_size}, must be at least 1")
        _check_n(n)
        _check_gamma(gamma)
        return self.assemble(self._draw_valid(batch_size, n, generator), n, gamma)

    def states(self, indices: npt.ArrayLike) -> torch.Tensor:
        """States (B, stack * C, ...) at the stored steps `indices` (B,), on the batches' device."""
        t = _as_steps(indices)
        self._check_stored(t, 0)
        return self.ring.stacks(t[None], self.ring.stack_starts(t)[None])[0].to(self.device)

    def assemble(self, indices: npt.ArrayLike, n: int, gamma: float) -> Batch:
        """The batch of windows for n that start at steps `indices` (B,).

        Every step of a window must be stored, else ValueError. Whether the window is valid is `sample`'s
        affair: here a truncation inside is passed over, and overwritten frames of a stack are zero.
        """
        t = _as_steps(indices)
        _check_n(n)
        _check_gamma(gamma)
        rules, ring = self.behaviour, self.ring
        if t.size == 0:
            raise ValueError("indices: got no steps, must be at least one")
        self._check_stored(t, max(n - rules.bootstrap_lag, n - 1, self.k))

        steps = t + np.arange(max(n, self.k + 1))[:, None]  # (max(n, k + 1), B): those of the window and the futures
        slots, ends = ring.slots(steps), ring.ends(steps)
        states_at = np.concatenate([steps[: self.k + 1], (t + n - rules.bootstrap_lag)[None]])  # (k + 2, B)
        seen_from = states_at if rules.stack_per_state else np.broadcast_to(t, states_at.shape)
        terminal = ends.terminal[:n]
        rewards = ring.rewards[slots[:n]].astype(np.float64)  # (n, B)
        same = same_episode(Ends(*(flags[: self.k + 1] for flags in ends)), exact=rules.exact_spr_mask)  # (k + 1, B)
        return Batch(
            states=ring.stacks(states_at, ring.stack_starts(seen_from)).to(self.device),
            actions=self._to_tensor(ring.actions[slots[: self.k + 1]].astype(np.int64)),
            return_n=self._to_tensor(n_step_return(rewards, terminal, gamma).astype(np.float32)),
            discount_n=torch.full((len(t),), gamma**n, dtype=torch.float32, device=self.device),
            done=self._to_tensor(ends_within(terminal, rules.bootstrap_lag)),
            same_episode=self._to_tensor(same[1:].astype(np.float32)),
            weights=self._to_tensor(importance_weights(self.priorities(t)).astype(np.float32)),
            bootstrap_step=n - rules.bootstrap_lag,
            indices=t,
        )

    def priorities(self, indices: npt.ArrayLike) -> FloatArray:
        """Priorities of the stored steps `indices` (B,) -> (B,); all one if replay is uniform."""
        t = _as_steps(indices)
        self._check_stored(t, 0)
        return np.ones(len(t)) if self.tree is None else self.tree.get(self.ring.slots(t))

    def set_priorities(self, indices: npt.ArrayLike, priorities: npt.ArrayLike) -> None:
        """Gives steps `indices` (B,) new `priorities` (B,); where a step comes twice, its last one stays.

        Steps overwritten since they were drawn are ignored. Uniform replay only checks its input.
        """
        t = _as_steps(indices)
        values = check_priorities(priorities)
        if values.shape != t.shape:
            raise ValueError(f"priorities: got shape {values.shape}, must be that of indices {t.shape}")
        if t.size and not (t.min() >= 0 and t.max() < self.steps_added):
            raise ValueError(f"indices: got {t.min()} to {t.max()}, must be steps 0 to {self.steps_added - 1}")
        stored = t >= self.oldest
        if self.tree is None or not stored.any():
            return
        self.tree.set(self.ring.slots(t[stored]), values[stored])
        self._max_priority = max(self._max_priority, float(values[stored].max()))

    def _draw_valid(self, batch_size: int, n: int, generator: np.random.Generator) -> IntArray:
        """Steps (batch_size,) of valid windows: draws, redraws of what is invalid, then an exact draw."""
        if len(self) == 0 or (self.tree is not None and self.tree.total == 0.0):
            return self._draw_exactly(batch_size, n, generator)
        t = self._draw(batch_size, generator, stratified=True)
        for _ in range(REDRAW_ROUNDS):
            invalid = np.flatnonzero(~self.is_valid(t, n))
            if invalid.size == 0:
                return t
            t[invalid] = self._draw(invalid.size, generator, stratified=False)
        invalid = np.flatnonzero(~self.is_valid(t, n))
        if invalid.size:
            t[invalid] = self._draw_exactly(invalid.size, n, generator)
        return t

    def _draw(self, count: int, generator: np.random.Generator, *, stratified: bool) -> IntArray:
        if self.tree is None:
            return generator.integers(self.oldest, self.steps_added, size=count)
        draw = self.tree.stratified if stratified else self.tree.proportional
        return self.ring.steps(draw(count, generator))

    def _draw_exactly(self, count: int, n: int, generator: np.random.Generator) -> IntArray:
        """Draws from the list of all valid windows, by priority; evenly if their priorities are all zero."""
        valid = self.valid_indices(n)
        if valid.size == 0:
            raise NoWindow(
                f"sample: the buffer holds {len(self)} steps, which is too few for n={n}, k={self.k}: "
                "no window is valid. Learning must start later, or n be smaller: a window may not cross the end of "
                "an episode that was cut off"
            )
        priorities = self.priorities(valid)
        if priorities.sum() == 0.0:
            return generator.choice(valid, size=count)
        return generator.choice(valid, size=count, p=priorities / priorities.sum())

    def _check_stored(self, t: IntArray, reach: int) -> None:
        newest = self.steps_added - 1 - reach
        if t.size and not (t.min() >= self.oldest and t.max() <= newest):
            raise ValueError(
                f"indices: got {t.min()} to {t.max()}, must be stored with the {reach} steps after them: "
                f"{self.oldest} to {newest}"
            )

    def _to_tensor(self, array: npt.NDArray[np.generic]) -> torch.Tensor:
        return torch.from_numpy(array).to(self.device)


def _check_sizes(capacity: int, frame_shape: tuple[int, ...], stack: int, k: int) -> None:
    if stack < 1:
        raise ValueError(f"stack: got {stack}, must be at least 1")
    if k < 0:
        raise ValueError(f"k: got {k}, must be at least 0")
    if capacity < stack + k + 2:
        raise ValueError(f"capacity: got {capacity}, must be at least stack + k + 2 = {stack + k + 2}")
    if len(frame_shape) not in (1, 3) or min(frame_shape) < 1:
        raise ValueError(f"frame_shape: got {frame_shape}, must be (C, H, W) or (D,), each at least 1")


def _check_step(action: int, reward: float) -> None:
    try:
        number = operator.index(action)
    except TypeError:
        number = -1
    if not 0 <= number <= np.iinfo(np.int32).max:
        raise ValueError(f"action: got {action}, must be an integer of at least 0")
    if not abs(reward) <= FLOAT32_MAX:
        raise ValueError(f"reward: got {reward}, must be a finite float32")


def _check_n(n: int) -> None:
    if n < 1:
        raise ValueError(f"n: got {n}, must be at least 1")


def _check_gamma(gamma: float) -> None:
    if not 0.0 < gamma <= 1.0:
        raise ValueError(f"gamma: got {gamma}, must be above 0 and at most 1")


def _as_steps(indices: npt.ArrayLike) -> IntArray:
    steps = np.asarray(indices)
    if steps.ndim != 1 or (steps.size and steps.dtype.kind not in "iu"):
        raise ValueError(f"indices: got {steps.dtype} of shape {steps.shape}, must be integers of shape (B,)")
    return steps.astype(np.int64)
