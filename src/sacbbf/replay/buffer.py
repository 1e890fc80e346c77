"""The replay buffer: stores steps, says which windows of them are valid, draws some, and assembles batches.

A window for n starts at step t and uses the n rewards from t on, the states s_t .. s_{t+k} and the bootstrap
state s_{t+n}. Indices are step numbers counted from the start of the run, not slots of the ring.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from sacbbf.agents.behaviour import PAPER, Behaviour
from sacbbf.replay.n_step import (
    Windows,
    check_gamma,
    check_n,
    cut_short,
    ends_within,
    importance_weights,
    n_step_return,
    same_episode,
    state_offsets,
    step_offsets,
)
from sacbbf.replay.storage import Ring, check_frame_dtype, check_legal, check_sizes, check_step
from sacbbf.replay.sum_tree import SumTree, check_priorities
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
        mask_size: int = 0,
    ) -> None:
        """Keeps `capacity` frames (C, H, W) or (D,) on `storage_device`; batches go to `device`.

        `stack` frames make a state, `k` future states come with it. `behaviour` decides between the paper and
        the release. With each state comes a mask of `mask_size` actions; 0: all are legal, nothing is kept of it.
        """
        check_sizes(capacity, tuple(frame_shape), stack, k)
        self.k = k
        self.behaviour = behaviour
        self.device = torch.device(device)
        self._on_cpu = self.device.type == "cpu"  # `to` takes its time even where there is nothing to move
        self.ring = Ring(
            capacity=capacity,
            frame_shape=tuple(frame_shape),
            frame_dtype=check_frame_dtype(frame_dtype),
            stack=stack,
            truncation_restarts=behaviour.stack_per_state,
            mask_size=mask_size,
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
        mask: BoolArray | None = None,
    ) -> None:
        """Stores the newest frame of s_t, the action taken on it, and the reward and ends that followed.

        `mask` (A,) are the legal actions of s_t, of which the action must be one.
        """
        array = np.asarray(frame)
        if array.shape != self.ring.frame_shape or array.dtype != self.ring.frame_dtype:
            raise ValueError(
                f"frame: got {array.dtype} of shape {array.shape}, "
                f"must be {self.ring.frame_dtype} of shape {self.ring.frame_shape}"
            )
        check_step(action, reward)
        check_legal(mask, action, self.ring.mask_size)
        slot = self.ring.append(array, action, reward, terminated, truncated, life_lost, mask)
        if self.tree is not None:
            self.tree.set_one(slot, self._max_priority)

    def empty(self, capacity: int) -> Replay:
        """Return a replay of another capacity, made as this one, without its content."""
        ring = self.ring
        return Replay(
            capacity=capacity,
            frame_shape=ring.frame_shape,
            frame_dtype=ring.frame_dtype,
            stack=ring.stack,
            k=self.k,
            prioritised=self.tree is not None,
            behaviour=self.behaviour,
            device=self.device,
            storage_device=ring.frames.device,
            mask_size=ring.mask_size,
        )

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
        check_n(n)
        return self._judge(self._look_up(t, n), n)

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
        check_n(n)
        check_gamma(gamma)
        return self._assemble(self._draw_valid(batch_size, n, generator), n, gamma)

    def states(self, indices: npt.ArrayLike) -> torch.Tensor:
        """States (B, stack * C, ...) at the stored steps `indices` (B,), on the batches' device."""
        t = _as_steps(indices)
        self._check_stored(t, 0)
        return self.ring.stacks(self.ring.slots(t)[None], own_starts=True)[0].to(self.device)

    def masks(self, indices: npt.ArrayLike) -> torch.Tensor | None:
        """The legal actions (B, A) of the states at the stored steps `indices` (B,); None without masks."""
        t = _as_steps(indices)
        self._check_stored(t, 0)
        return self._masks_in(self.ring.slots(t))

    def assemble(self, indices: npt.ArrayLike, n: int, gamma: float) -> Batch:
        """The batch of windows for n that start at steps `indices` (B,).

        Every step of a window must be stored, else ValueError. Whether the window is valid is `sample`'s
        affair: here a truncation inside is passed over, and overwritten frames of a stack are zero.
        """
        t = _as_steps(indices)
        check_n(n)
        check_gamma(gamma)
        if t.size == 0:
            raise ValueError("indices: got no steps, must be at least one")
        self._check_stored(t, max(n - self.behaviour.bootstrap_lag, n - 1, self.k))
        return self._assemble(self._look_up(t, n), n, gamma)

    def priorities(self, indices: npt.ArrayLike) -> FloatArray:
        """Priorities of the stored steps `indices` (B,) -> (B,); all one if replay is uniform."""
        t = _as_steps(indices)
        self._check_stored(t, 0)
        return self._priorities_in(self.ring.slots(t))

    def set_priorities(self, indices: npt.ArrayLike, priorities: npt.ArrayLike) -> None:
        """Gives steps `indices` (B,) new `priorities` (B,); where a step comes twice, its last one stays.

        Steps overwritten since they were drawn are ignored. Uniform replay only checks its input.
        """
        t = _as_steps(indices)
        values = check_priorities(priorities)
        if values.shape != t.shape:
            raise ValueError(f"priorities: got shape {values.shape}, must be that of indices {t.shape}")
        if t.size == 0:
            return
        first, last = t.min(), t.max()
        if not (first >= 0 and last < self.steps_added):
            raise ValueError(f"indices: got {first} to {last}, must be steps 0 to {self.steps_added - 1}")
        if self.tree is None or last < self.oldest:
            return
        if first < self.oldest:
            stored = t >= self.oldest
            t, values = t[stored], values[stored]
        self.tree.set_known(self.ring.slots(t), values)
        self._max_priority = max(self._max_priority, float(values.max()))

    def _look_up(self, t: IntArray, n: int) -> Windows:
        """The windows for n that start at `t` (B,), stored or not; the rows of steps not stored mean nothing."""
        rules = self.behaviour
        rows = max(n, n - rules.bootstrap_lag + 1, self.k + 1, rules.window_n or 0)
        slots = self.ring.slots(t + step_offsets(rows))
        return Windows(t, slots, self.ring.ends_in(slots))

    def _judge(self, windows: Windows, n: int) -> BoolArray:
        """`is_valid` of windows that have been looked up for n -> (B,)."""
        rules, ring, t = self.behaviour, self.ring, windows.t
        if rules.window_n is None:
            window, reach = n, max(n, self.k)
        else:
            window = max(n, rules.window_n)
            reach = window + self.k + 1
        # A stack starts at t or before, so that where its start is stored t is too.
        valid = (t < ring.steps_added - reach) & (ring.stack_starts(t, windows.slots[0]) >= ring.oldest)
        if rules.skip_first_steps:
            valid &= t >= ring.stack - 1
        valid &= ~cut_short(windows.ends.first(window))
        return valid

    def _assemble(self, windows: Windows, n: int, gamma: float) -> Batch:
        """`assemble` of windows that have been looked up for n, and whose steps are all stored."""
        rules, ring = self.behaviour, self.ring
        t, slots, ends = windows
        bootstrap_step = n - rules.bootstrap_lag
        state_slots = slots.take(state_offsets(self.k, bootstrap_step), axis=0)  # (k + 2, B)
        terminal = ends.terminal[:n]
        rewards = ring.rewards[slots[:n]].astype(np.float64)  # (n, B)
        same = same_episode(ends.first(self.k + 1), exact=rules.exact_spr_mask)  # (k + 1, B)
        return Batch(
            states=ring.stacks(state_slots, own_starts=rules.stack_per_state).to(self.device),
            actions=self._to_tensor(ring.actions[slots[: self.k + 1]].astype(np.int64)),
            return_n=self._to_tensor(n_step_return(rewards, terminal, gamma).astype(np.float32)),
            discount_n=torch.full((len(t),), gamma**n, dtype=torch.float32, device=self.device),
            done=self._to_tensor(ends_within(terminal, rules.bootstrap_lag)),
            same_episode=self._to_tensor(same[1:].astype(np.float32)),
            weights=self._to_tensor(importance_weights(self._priorities_in(slots[0])).astype(np.float32)),
            bootstrap_step=bootstrap_step,
            indices=t,
            mask_t=self._masks_in(state_slots[0]),
            mask_n=self._masks_in(state_slots[-1]),
        )

    def _priorities_in(self, slots: IntArray) -> FloatArray:
        """Priorities of `slots` (B,) -> (B,); all one if replay is uniform."""
        return np.ones(len(slots)) if self.tree is None else self.tree.get_known(slots)

    def _masks_in(self, slots: IntArray) -> torch.Tensor | None:
        """The masks (B, A) of `slots` (B,); None without masks."""
        return None if self.ring.masks is None else self._to_tensor(self.ring.masks[slots])

    def _draw_valid(self, batch_size: int, n: int, generator: np.random.Generator) -> Windows:
        """`batch_size` valid windows: draws, redraws of what is invalid, then an exact draw."""
        if len(self) == 0 or (self.tree is not None and self.tree.total == 0.0):
            return self._look_up(self._draw_exactly(batch_size, n, generator), n)
        t = self._draw(batch_size, generator, stratified=True)
        for redraws in range(REDRAW_ROUNDS + 1):
            windows = self._look_up(t, n)
            invalid = (~self._judge(windows, n)).nonzero()[0]
            if invalid.size == 0:
                return windows
            if redraws < REDRAW_ROUNDS:
                t[invalid] = self._draw(invalid.size, generator, stratified=False)
            else:
                t[invalid] = self._draw_exactly(invalid.size, n, generator)
        return self._look_up(t, n)

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
        tensor = torch.from_numpy(array)
        return tensor if self._on_cpu else tensor.to(self.device)


def _as_steps(indices: npt.ArrayLike) -> IntArray:
    steps = np.asarray(indices)
    if steps.ndim != 1 or (steps.size and steps.dtype.kind not in "iu"):
        raise ValueError(f"indices: got {steps.dtype} of shape {steps.shape}, must be integers of shape (B,)")
    return steps.astype(np.int64)
