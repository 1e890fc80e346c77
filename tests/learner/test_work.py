"""Work done per update, counted rather than timed: a change that makes an update do more fails here."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from encoder_calls import encoder_calls
from torch.utils._python_dispatch import TorchDispatchMode

from sacbbf.learner.learner import Learner
from sacbbf.native import library
from sacbbf.presets import preset
from sacbbf.replay import Replay

CASES = {  # kind -> frame shape, dtype, stack, operations of one update at most (today's count and some more)
    "image": ((1, 84, 84), np.uint8, 4, 310),
    "grid": ((6, 10, 10), np.bool_, 1, 310),
}
BY_PYTORCH = {"image": 430, "grid": 395}  # operations at most where there are no C functions
LARGE = {True: 79e6, False: 94e6}  # bytes at most of the tensors that an update makes, with C functions and without


class Operations(TorchDispatchMode):
    """Counts the operations that reach the tensor library, and the bytes of the tensors that they make."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.made = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = (*args, *(kwargs or {}).values())
        held = {arg.untyped_storage().data_ptr() for arg in given if isinstance(arg, torch.Tensor)}
        made = isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() not in held
        if made:
            self.made += result.untyped_storage().nbytes()
        if made or func._schema.is_mutable or not isinstance(result, torch.Tensor):  # else a view: no work
            self.calls[str(func)] += 1
        return result


def make(kind: str) -> tuple[Learner, Replay]:
    shape, dtype, stack, _ = CASES[kind]
    config = preset("laptop" if kind == "image" else "tiny", kind, 20_000)  # type: ignore[arg-type]
    learner = Learner(config, (stack * shape[0], *shape[1:]), 6)
    replay = Replay(capacity=256, frame_shape=shape, frame_dtype=dtype, stack=stack, k=learner.spr_steps)
    rng = np.random.default_rng(0)
    for _ in range(200):
        replay.add(rng.integers(0, 2, shape).astype(dtype), int(rng.integers(6)), 0.0, terminated=rng.random() < 0.02)
    return learner, replay


def counted(kind: str) -> Operations:
    learner, replay = make(kind)
    learner.learn(replay, 0, np.random.default_rng(0))
    with Operations() as operations:
        learner.learn(replay, 0, np.random.default_rng(1))
    return operations


@pytest.fixture(params=[True, False], ids=["C", "PyTorch"])
def native(request, monkeypatch) -> bool:
    """Whether there are C functions; without a compiler there are none either way."""
    if not request.param:
        monkeypatch.setattr(library, "library", lambda: None)
    return library.library() is not None


@pytest.mark.parametrize("kind", CASES)
def test_operations_per_update(kind, native):
    assert sum(counted(kind).calls.values()) <= (CASES[kind][3] if native else BY_PYTORCH[kind])


@pytest.mark.parametrize("kind", CASES)
def test_no_number_is_read_back_but_the_priorities(kind):
    calls = counted(kind).calls
    assert calls["aten._local_scalar_dense.default"] == 0  # what float() and item() do: wait for the device


def test_no_large_tensor_is_made_that_is_not_needed(native):
    # Frames (7 * 32 states), their floats, activations and gradients; measured today and a tenth more.
    assert counted("image").made <= LARGE[native]


@pytest.mark.parametrize(("kind", "online"), [("image", [32, 32]), ("grid", [64])])
def test_states_encoded_per_update(kind, online, monkeypatch):
    calls = encoder_calls(monkeypatch)
    learner, replay = make(kind)
    learner.learn(replay, 0, np.random.default_rng(0))
    found = {
        target: [states for network, states in calls if (network is learner.target.encoder) == target]
        for target in (False, True)
    }
    assert found == {False: online, True: [6 * 32]}
