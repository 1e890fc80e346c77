"""Replays a file of stored steps through the buffer, and compares its batches with the release's in the file.

The file holds the stored steps (`observation` (T, H, W), `action_stored`, `reward`, `terminal_stored`,
`truncated`, each (T,)) and any number of cases: at which steps, n and gamma, and each field of the batch.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sacbbf.agents.behaviour import RELEASED
from sacbbf.disk.arrays import read_npz
from sacbbf.errors import UsageError
from sacbbf.replay.buffer import Replay
from sacbbf.replay.n_step import same_episode
from sacbbf.run.checks import Check
from sacbbf.types import Batch, BoolArray

Array = npt.NDArray[np.generic]
Arrays = dict[str, Array]

STEP_FIELDS = ("action_stored", "reward", "terminal_stored", "truncated")
# Of returns: the file sums in float64 over discounts rounded to float32, and a batch holds float32.
RETURN_TOLERANCE = 1e-6


def verify_replay(path: Path | str) -> list[Check]:
    """Checks every field of every case in the file at `path`; UsageError if the file is not of its format."""
    arrays = _load(Path(path))
    cases = sorted({int(found[1]) for name in arrays if (found := re.match(r"case(\d+)_", name))})
    if not cases:
        raise UsageError(f"{path}: case0_indices is missing, the file must hold at least one case")
    _check_shapes(str(path), arrays, cases)
    replay = _store_steps(str(path), arrays, *_sizes(arrays, cases[0]))
    return [check for case in cases for check in _verify_case(str(path), arrays, replay, case)]


def _load(path: Path) -> Arrays:
    try:
        return read_npz(path)
    except (ValueError, OSError) as error:
        raise UsageError(f"{path}: not a readable .npz file of plain arrays ({error})") from error


def _sizes(arrays: Arrays, case: int) -> tuple[int, int]:
    """Stack and k of a case, from its states (B, k + 1, H, W, stack)."""
    shape = arrays[f"case{case}_state"].shape
    return shape[4], shape[1] - 1


def _check_shapes(path: str, arrays: Arrays, cases: list[int]) -> None:
    """Every array of the format is there, of a shape that fits the others."""
    steps, height, width = _require(path, arrays, "observation", 3).shape
    for name in STEP_FIELDS:
        _require_shape(path, arrays, name, (steps,))
    states = f"case{cases[0]}_state"
    _require(path, arrays, states, 5)
    stack, k = _sizes(arrays, cases[0])
    for case in cases:
        batch = len(_require(path, arrays, f"case{case}_indices", 1))
        shapes = {
            "state": (batch, k + 1, height, width, stack),
            "next_state": (batch, height, width, stack),
            "action": (batch, k + 1),
            "same_trajectory": (batch, k + 1),
            **dict.fromkeys(("return", "discount", "terminal"), (batch,)),
            **dict.fromkeys(("n", "gamma"), ()),
        }
        for field, shape in shapes.items():
            _require_shape(path, arrays, f"case{case}_{field}", shape)


def _require(path: str, arrays: Arrays, name: str, ndim: int) -> Array:
    if name not in arrays:
        raise UsageError(f"{path}: {name} is missing")
    array = arrays[name]
    if array.ndim != ndim or array.dtype.kind not in "biuf":
        raise UsageError(f"{path}: {name} is {array.dtype} of shape {array.shape}, must be {ndim}D numbers")
    if array.size == 0:
        raise UsageError(f"{path}: {name} has shape {array.shape}, must not be empty")
    return array


def _require_shape(path: str, arrays: Arrays, name: str, shape: tuple[int, ...]) -> None:
    array = _require(path, arrays, name, len(shape))
    if array.shape != shape:
        raise UsageError(f"{path}: {name} has shape {array.shape}, must be {shape}")


def _store_steps(path: str, arrays: Arrays, stack: int, k: int) -> Replay:
    """A buffer of the release's behaviour with the file's steps in it."""
    observation = arrays["observation"]
    try:
        replay = Replay(
            capacity=len(observation),
            frame_shape=(1, *observation.shape[1:]),
            frame_dtype=observation.dtype,
            stack=stack,
            k=k,
            prioritised=False,
            behaviour=RELEASED,
        )
        columns = (arrays[name].tolist() for name in STEP_FIELDS)
        for frame, action, reward, terminal, truncated in zip(observation, *columns, strict=True):
            replay.add(frame[None], action, reward, terminated=bool(terminal), truncated=bool(truncated))
    except ValueError as error:
        raise UsageError(f"{path}: the stored steps do not fit the buffer ({error})") from error
    return replay


def _verify_case(path: str, arrays: Arrays, replay: Replay, case: int) -> list[Check]:
    """One check for the indices and one for each field of the batch."""
    want = {
        name.removeprefix(f"case{case}_"): array for name, array in arrays.items() if name.startswith(f"case{case}_")
    }
    n, gamma = int(want["n"]), float(want["gamma"])
    try:
        batch = replay.assemble(want["indices"], n, gamma)
        valid = replay.is_valid(want["indices"], n)
    except ValueError as error:
        raise UsageError(f"{path}: case{case}_indices, case{case}_n or case{case}_gamma: {error}") from error
    checks = [compare(f"case {case}: indices valid", valid, np.ones_like(valid))]
    for field, got in _as_released(replay, batch).items():
        tolerance = RETURN_TOLERANCE if field == "return" else 0.0
        checks.append(compare(f"case {case}: {field}", got, want[field], tolerance))
    return checks


def _as_released(replay: Replay, batch: Batch) -> Arrays:
    """The batch in the names and the layout of the file: batch first, channels last."""
    states = np.moveaxis(batch.states.numpy(), 2, -1)  # (k + 2, B, H, W, stack)
    return {
        "state": states[:-1].swapaxes(0, 1),
        "action": batch.actions.numpy().T,
        "return": batch.return_n.numpy(),
        "discount": batch.discount_n.numpy(),
        "next_state": states[-1],
        "terminal": batch.done.numpy(),
        "same_trajectory": np.column_stack([_same_at_t(replay, batch), batch.same_episode.numpy().T]),
    }


def _same_at_t(replay: Replay, batch: Batch) -> BoolArray:
    """Column 0 of the release's mask, which no loss uses and a batch leaves out; (B,)."""
    at_t: BoolArray = same_episode(replay.ring.ends(batch.indices[None]), exact=False)[0]
    return at_t


def compare(quantity: str, got: Array, want: Array, tolerance: float = 0.0) -> Check:
    """Compares arrays of one shape: |got - want| <= tolerance * max(1, |want|), and no NaN."""
    expected = want.astype(np.float64)
    difference = np.abs(got.astype(np.float64) - expected)
    difference[np.isnan(difference)] = np.inf  # a NaN is a difference, not a comparison that never fails
    relative = np.divide(difference, np.abs(expected), out=np.zeros_like(difference), where=expected != 0)
    allowed = tolerance * np.maximum(1.0, np.abs(expected))
    worst = np.unravel_index(int(np.argmax(difference - allowed)), difference.shape)
    place = ", ".join(str(int(i)) for i in worst)
    return Check(
        quantity=quantity,
        max_abs=float(difference.max()),
        max_rel=float(relative.max()),
        tolerance="equal" if tolerance == 0.0 else f"{tolerance:.0e} x max(1, |x|)",
        ok=bool((difference <= allowed).all()),
        worst=f"[{place}]: {got[worst]} for {want[worst]}" if difference.max() > 0 else "",
    )
