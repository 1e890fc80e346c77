"""A ring of single frames with the few numbers that go with each step. Stores and gathers; judges nothing."""

from __future__ import annotations

import operator

import numpy as np
import numpy.typing as npt
import torch

from sacbbf.replay.n_step import Ends, combine_ends
from sacbbf.replay.sum_tree import FLOAT32_MAX
from sacbbf.types import Arrays, BoolArray, Frame, IntArray

COLUMNS = ("actions", "rewards", "terminated", "truncated", "life_lost", "history")  # of every step, masks beside them

TORCH_DTYPES: dict[np.dtype[np.generic], torch.dtype] = {
    np.dtype(np.uint8): torch.uint8,
    np.dtype(np.bool_): torch.bool,
    np.dtype(np.float32): torch.float32,
}


def check_frame_dtype(frame_dtype: npt.DTypeLike) -> np.dtype[np.generic]:
    """Returns the NumPy dtype, or raises ValueError if frames of it cannot be stored."""
    try:
        dtype = np.dtype(frame_dtype)
    except TypeError:
        dtype = np.dtype(np.void)
    if dtype not in TORCH_DTYPES:
        raise ValueError(f"frame_dtype: got {frame_dtype}, must be uint8, bool or float32")
    return dtype


def check_sizes(capacity: int, frame_shape: tuple[int, ...], stack: int, k: int) -> None:
    """Raises ValueError unless a ring of these sizes can hold a window."""
    if stack < 1:
        raise ValueError(f"stack: got {stack}, must be at least 1")
    if k < 0:
        raise ValueError(f"k: got {k}, must be at least 0")
    if capacity < stack + k + 2:
        raise ValueError(f"capacity: got {capacity}, must be at least stack + k + 2 = {stack + k + 2}")
    if len(frame_shape) not in (1, 3) or min(frame_shape) < 1:
        raise ValueError(f"frame_shape: got {frame_shape}, must be (C, H, W) or (D,), each at least 1")


def check_step(action: int, reward: float) -> None:
    """Raises ValueError unless a step's action and reward can be stored."""
    try:
        number = operator.index(action)
    except TypeError:
        number = -1
    if not 0 <= number <= np.iinfo(np.int32).max:
        raise ValueError(f"action: got {action}, must be an integer of at least 0")
    if not abs(reward) <= FLOAT32_MAX:
        raise ValueError(f"reward: got {reward}, must be a finite float32")


def check_legal(mask: BoolArray | None, action: int, mask_size: int) -> None:
    """Raises ValueError unless a mask (A,) is there just where one is kept, and allows the action."""
    if mask is None and not mask_size:
        return
    if mask is None or mask.shape != (mask_size,) or mask.dtype != np.bool_:
        found = "none" if mask is None else f"{mask.dtype} of shape {mask.shape}"
        raise ValueError(f"mask: got {found}, must be {f'bool of shape ({mask_size},)' if mask_size else 'none'}")
    if action >= mask_size or not mask[action]:
        raise ValueError(f"action: got {action}, which the mask does not allow")


class Ring:
    """The last `capacity` steps; step t (counted from the start of the run) lives in slot t % capacity.

    Everything is in plain arrays and one counter, so that saving and restoring them is exact.
    """

    def __init__(
        self,
        *,
        capacity: int,
        frame_shape: tuple[int, ...],
        frame_dtype: np.dtype[np.generic],
        stack: int,
        truncation_restarts: bool,
        mask_size: int,
        device: torch.device | str,
    ) -> None:
        self.capacity = capacity
        self.stack = stack
        self.frame_shape = frame_shape
        self.frame_dtype = frame_dtype
        self._truncation_restarts = truncation_restarts
        # One row more than the capacity: it stays zero, and stands for every frame before an episode's start.
        self.frames = torch.empty((capacity + 1, *frame_shape), dtype=TORCH_DTYPES[frame_dtype], device=device)
        self.frames[capacity] = 0
        self.actions: npt.NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        self.rewards: npt.NDArray[np.float32] = np.zeros(capacity, dtype=np.float32)
        # The three ends of a step: terminated, truncated, life_lost. One array, so that one look-up finds them all.
        self.flags: BoolArray = np.zeros((3, capacity), dtype=np.bool_)
        self.terminated, self.truncated, self.life_lost = self.flags
        # How many frames before its own belong to the stack of s_t: 0 .. stack - 1.
        self.history: npt.NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        # The legal actions of s_t (capacity, A), where the environment tells them.
        self.masks: BoolArray | None = np.zeros((capacity, mask_size), dtype=np.bool_) if mask_size else None
        self.steps_added = 0

    @property
    def columns(self) -> Arrays:
        """What is kept of each step beside its frame, (capacity, ...) each, by name."""
        found: Arrays = {name: getattr(self, name) for name in COLUMNS}
        return found if self.masks is None else {**found, "masks": self.masks}

    @property
    def mask_size(self) -> int:
        """Actions that a mask tells of; 0 without masks."""
        return 0 if self.masks is None else self.masks.shape[1]

    @property
    def oldest(self) -> int:
        """The oldest step still stored."""
        return max(0, self.steps_added - self.capacity)

    @property
    def nbytes(self) -> int:
        """Memory of frames and numbers."""
        return self.frames.nbytes + sum(array.nbytes for array in self.columns.values())

    def append(
        self,
        frame: Frame,
        action: int,
        reward: float,
        terminated: bool,
        truncated: bool,
        life_lost: bool,
        mask: BoolArray | None,
    ) -> int:
        """Writes the next step over the oldest one; returns its slot."""
        slot = self.steps_added % self.capacity
        history = self._next_history()
        # A fresh C-ordered copy: torch takes no read-only or negatively strided array.
        self.frames[slot] = torch.from_numpy(np.array(frame, order="C"))
        self.actions[slot] = action
        self.rewards[slot] = reward
        self.terminated[slot] = terminated
        self.truncated[slot] = truncated
        self.life_lost[slot] = life_lost
        self.history[slot] = history
        if self.masks is not None:
            self.masks[slot] = mask
        self.steps_added += 1
        return slot

    def _next_history(self) -> int:
        if self.steps_added == 0:
            return 0
        last = np.array([self.steps_added - 1])
        ends = self.ends(last)
        restart = ends.over if self._truncation_restarts else ends.terminal
        return 0 if restart[0] else min(int(self.history[self.slots(last)][0]) + 1, self.stack - 1)

    def slots(self, steps: IntArray) -> IntArray:
        """Slots of `steps`, of any shape."""
        return steps % self.capacity

    def steps(self, slots: IntArray) -> IntArray:
        """The newest steps written to `slots`, of any shape."""
        newest = self.steps_added - 1
        return newest - (newest - slots) % self.capacity

    def ends(self, steps: IntArray) -> Ends:
        """What the flags stored at `steps` (any shape) come to."""
        return self.ends_in(self.slots(steps))

    def ends_in(self, slots: IntArray) -> Ends:
        """What the flags stored in `slots` (any shape) come to."""
        return combine_ends(*self.flags.take(slots, axis=1))

    def stack_starts(self, steps: IntArray, slots: IntArray) -> IntArray:
        """The first step whose frame belongs to the stack of each of `steps`, in `slots`; of any one shape."""
        return steps - self.history[slots]

    def stacks(self, slots: IntArray, *, own_starts: bool) -> torch.Tensor:
        """Stacked states of the steps stored in `slots` (T, B) -> (T, B, stack * C, ...).

        A stack is zero before its start: each state's own, or the start seen from row 0. Frames that the ring
        has overwritten are zero as well, rather than those of a much later step. Of frames with a single channel, all
        oldest ones lie together in memory, then all second ones, and so on: so they are soonest interleaved.
        """
        rows = slots if self.stack == 1 else self._stack_rows(slots, own_starts)
        together = self.stack > 1 and self.frame_shape[0] == 1
        order = np.moveaxis(rows, -1, 0) if together else rows
        index = torch.from_numpy(order.reshape(-1)).to(self.frames.device)
        found = self.frames.index_select(0, index)
        if together:
            return found.view(self.stack, *slots.shape, *self.frame_shape[1:]).movedim(0, 2)
        return found.view(*slots.shape, self.stack * self.frame_shape[0], *self.frame_shape[1:])

    def _stack_rows(self, slots: IntArray, own_starts: bool) -> IntArray:
        """Rows of `frames` that make the stacks of `slots` (T, B) -> (T, B, stack), oldest first."""
        steps = self.steps(slots)
        starts = self.stack_starts(steps, slots) if own_starts else self.stack_starts(steps[:1], slots[:1])
        members = steps[..., None] + np.arange(1 - self.stack, 1)  # (T, B, stack)
        kept = members >= np.maximum(starts, self.oldest)[..., None]
        return np.where(kept, self.slots(members), self.capacity)
