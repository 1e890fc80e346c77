"""A replay's content as plain arrays, in parts: rows that never change once written, and what changes at every step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from sacbbf.replay.buffer import Replay
from sacbbf.replay.sum_tree import FLOAT32_MAX
from sacbbf.types import Arrays

PIECE = 4096  # rows copied at a time


def read_rows(replay: Replay, first: int, last: int) -> Arrays:
    """Everything that was stored with steps `first` to `last` - 1, a row for each."""
    if not replay.oldest <= first <= last <= replay.steps_added:
        raise ValueError(f"rows {first} to {last}: stored are {replay.oldest} to {replay.steps_added}")
    slots = replay.ring.slots(np.arange(first, last))
    frames = replay.ring.frames.index_select(0, torch.from_numpy(slots).to(replay.ring.frames.device))
    return {"frames": frames.cpu().numpy()} | {name: column[slots] for name, column in replay.ring.columns.items()}


def write_rows(replay: Replay, first: int, rows: Arrays) -> None:
    """Put rows back at steps `first`, `first` + 1, ...; ValueError if they are not of this replay's kind."""
    ring = replay.ring
    count = len(rows["actions"]) if "actions" in rows else 0
    expected = {"frames": ((count, *ring.frame_shape), ring.frame_dtype)}
    expected |= {name: ((count, *column.shape[1:]), column.dtype) for name, column in ring.columns.items()}
    check_kinds(rows, expected)
    slots = ring.slots(np.arange(first, first + count))
    ring.frames[torch.from_numpy(slots).to(ring.frames.device)] = torch.from_numpy(rows["frames"]).to(
        ring.frames.device
    )
    for name, column in ring.columns.items():
        column[slots] = rows[name]


def read_counters(replay: Replay) -> tuple[Arrays, dict[str, Any]]:
    """Priorities of the slots in use, in order, and the counters."""
    arrays: Arrays = {} if replay.tree is None else {"priorities": replay.tree.leaves[: len(replay)].copy()}
    return arrays, {"steps_added": replay.steps_added, "max_priority": replay.max_priority}


def write_counters(replay: Replay, arrays: Arrays, counters: dict[str, Any]) -> None:
    """Put priorities and counters back; ValueError if they are not of this replay's kind."""
    steps, largest = counters["steps_added"], counters["max_priority"]
    if not isinstance(steps, int) or steps < 0 or not isinstance(largest, float) or not 1.0 <= largest <= FLOAT32_MAX:
        raise ValueError(f"replay counters {counters}: must be a number of steps and a priority of at least 1")
    tree = replay.tree
    used = min(steps, replay.ring.capacity)
    found = len(arrays.get("priorities", ()))  # checkpoints of the version before have those of unused slots too: zeros
    check_kinds(arrays, {} if tree is None else {"priorities": ((max(found, used),), np.dtype(np.float64))})
    if tree is not None:
        if arrays["priorities"][used:].any():
            raise ValueError(f"priorities: holds {found} of them, of which only {used} can be in use")
        leaves = np.zeros(replay.ring.capacity)
        leaves[:used] = arrays["priorities"][:used]
        tree.set_all(leaves)
    replay.restore_counters(steps, largest)


def grown(replay: Replay, capacity: int) -> Replay:
    """Return a larger replay with the same content; ValueError if steps have been overwritten already."""
    if replay.oldest > 0:
        raise ValueError(f"capacity: step 0 of {replay.steps_added} is overwritten, so slots cannot move")
    larger = replay.empty(capacity)
    for first in range(0, replay.steps_added, PIECE):
        last = min(first + PIECE, replay.steps_added)
        write_rows(larger, first, read_rows(replay, first, last))
    write_counters(larger, *read_counters(replay))
    return larger


def check_kinds(arrays: Arrays, expected: dict[str, tuple[tuple[int, ...], np.dtype[Any]]]) -> None:
    """Raise ValueError unless there are exactly the expected arrays, each of its shape and type."""
    if arrays.keys() != expected.keys():
        raise ValueError(f"holds {', '.join(sorted(arrays)) or 'nothing'}; must hold {', '.join(sorted(expected))}")
    for name, (shape, dtype) in expected.items():
        if arrays[name].shape != shape or arrays[name].dtype != dtype:
            found = f"{arrays[name].dtype} of shape {arrays[name].shape}"
            raise ValueError(f"{name} is {found}, must be {dtype} of shape {shape}")


def row_bytes(replay: Replay) -> int:
    """Bytes of one row."""
    ring = replay.ring
    columns = sum(column.nbytes // ring.capacity for column in ring.columns.values())
    return math.prod(ring.frame_shape) * ring.frame_dtype.itemsize + columns
