"""What the buffer refuses, and what it costs."""

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from replay_oracle import feed, pair

import sacbbf.replay
from sacbbf.replay import Replay

SIZES: dict[str, Any] = {"capacity": 20, "frame_shape": (1, 2, 2), "frame_dtype": np.uint8, "stack": 3, "k": 2}


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("capacity", 6, r"capacity: got 6, must be at least stack \+ k \+ 2 = 7"),
        ("stack", 0, "stack: got 0, must be at least 1"),
        ("k", -1, "k: got -1, must be at least 0"),
        ("frame_shape", (2, 2), r"frame_shape: got \(2, 2\), must be \(C, H, W\) or \(D,\)"),
        ("frame_shape", (0,), r"frame_shape: got \(0,\)"),
        ("frame_dtype", np.float64, "frame_dtype: got .*float64.*, must be uint8, bool or float32"),
        ("frame_dtype", "colour", "frame_dtype: got colour"),
    ],
)
def test_constructor_refuses(name: str, value: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Replay(**{**SIZES, name: value})


FRAME = np.zeros((1, 2, 2), dtype=np.uint8)
REPLAY_FILES = str(Path(sacbbf.replay.__file__).parent / "*")


@pytest.mark.parametrize(
    ("args", "match"),
    [
        ((FRAME[0], 0, 0.0), r"frame: got uint8 of shape \(2, 2\), must be uint8 of shape \(1, 2, 2\)"),
        ((FRAME.astype(np.float32), 0, 0.0), "frame: got float32"),
        ((FRAME, -1, 0.0), "action: got -1, must be an integer of at least 0"),
        ((FRAME, 1.5, 0.0), "action: got 1.5"),
        ((FRAME, 2**31, 0.0), "action: got 2147483648"),
        ((FRAME, 0, float("nan")), "reward: got nan, must be a finite float32"),
        ((FRAME, 0, float("-inf")), "reward: got -inf"),
        ((FRAME, 0, 1e39), "reward: got 1e[+]39"),
    ],
)
def test_add_refuses_and_stores_nothing(args: tuple[Any, int, float], match: str) -> None:
    replay = Replay(**SIZES)
    with pytest.raises(ValueError, match=match):
        replay.add(*args)
    assert len(replay) == 0 and replay.steps_added == 0


@pytest.mark.parametrize(
    ("args", "match"),
    [
        ((0, 3, 0.9), "batch_size: got 0, must be at least 1"),
        ((4, 0, 0.9), "n: got 0, must be at least 1"),
        ((4, 3, 0.0), "gamma: got 0.0, must be above 0 and at most 1"),
        ((4, 3, 1.01), "gamma: got 1.01"),
        ((4, 3, float("nan")), "gamma: got nan"),
        ((4, 12, 0.9), "the buffer holds 12 steps, which is too few for n=12, k=2"),
    ],
)
@pytest.mark.parametrize("prioritised", [True, False])
def test_sample_refuses(args: tuple[int, int, float], match: str, prioritised: bool) -> None:
    replay, oracle = pair(capacity=20, prioritised=prioritised)
    feed(replay, oracle, "." * 12)
    with pytest.raises(ValueError, match=match):
        replay.sample(*args, np.random.default_rng(0))


@pytest.mark.parametrize("prioritised", [True, False])
def test_an_empty_buffer_cannot_be_sampled(prioritised: bool) -> None:
    replay, _ = pair(capacity=20, prioritised=prioritised)
    with pytest.raises(ValueError, match="the buffer holds 0 steps, which is too few for n=1, k=2"):
        replay.sample(1, 1, 0.9, np.random.default_rng(0))


def test_assemble_is_valid_and_priorities_refuse_bad_indices() -> None:
    replay, oracle = pair(capacity=10)
    feed(replay, oracle, "." * 15)
    for t in (4, 13, -1):
        with pytest.raises(ValueError, match=r"indices: got .*: 5 to 12"):
            replay.assemble([6, t], 2, 0.9)
    for t in (4, 15):
        with pytest.raises(ValueError, match=r"indices: got .*: 5 to 14"):
            replay.priorities([t])
    for bad in ([1.5], [[6]], 6, ["a"]):
        with pytest.raises(ValueError, match=r"indices: got .*, must be integers of shape \(B,\)"):
            replay.is_valid(bad, 2)
    with pytest.raises(ValueError, match="n: got 0"):
        replay.assemble([6], 0, 0.9)
    with pytest.raises(ValueError, match="n: got 0"):
        replay.is_valid([6], 0)
    with pytest.raises(ValueError, match="gamma: got 2"):
        replay.assemble([6], 1, 2.0)
    with pytest.raises(ValueError, match=r"indices: got no steps"):
        replay.assemble([], 1, 0.9)


@pytest.mark.parametrize("prioritised", [True, False])
def test_set_priorities_refuses_and_changes_nothing(prioritised: bool) -> None:
    replay, oracle = pair(capacity=10, prioritised=prioritised)
    feed(replay, oracle, "." * 15)
    cases = [
        ([6, 7], [2.0, -1.0], "priorities: got -1.0"),
        ([6, 7], [2.0, float("nan")], "priorities: got nan"),
        ([6, 0], [2.0, float("inf")], "priorities: got inf"),
        ([6, 7], [2.0], r"priorities: got shape \(1,\)"),
        ([6, 15], [2.0, 2.0], "indices: got 6 to 15, must be steps 0 to 14"),
        ([-1, 6], [2.0, 2.0], "indices: got -1 to 6"),
    ]
    for indices, priorities, match in cases:
        with pytest.raises(ValueError, match=match):
            replay.set_priorities(indices, priorities)
    assert replay.priorities([6, 7]).tolist() == [1.0, 1.0]
    assert replay.max_priority == 1.0
    replay.set_priorities([], [])


def test_a_hundred_thousand_atari_steps_fit_in_720_megabytes() -> None:
    # Pages that are never written take no memory, so the full size can be asked for.
    replay = Replay(capacity=100_000, frame_shape=(1, 84, 84), frame_dtype=np.uint8, stack=4, k=5)
    frames = 100_001 * 84 * 84
    assert replay.ring.frames.nbytes == frames
    assert frames < replay.nbytes < frames + 5_000_000 < 720_000_000


def test_batch_has_the_promised_dtypes_and_device() -> None:
    replay, oracle = pair(capacity=20)
    feed(replay, oracle, "." * 20)
    batch = replay.sample(8, 3, 0.9, np.random.default_rng(0))
    assert batch.states.shape == (4, 8, 3, 2, 2) and batch.states.dtype == torch.uint8
    assert batch.actions.shape == (3, 8) and batch.actions.dtype == torch.int64
    assert batch.same_episode.shape == (2, 8) and batch.same_episode.dtype == torch.float32
    assert batch.done.dtype == torch.bool and batch.indices.dtype == np.int64
    for vector in (batch.return_n, batch.discount_n, batch.weights):
        assert vector.shape == (8,) and vector.dtype == torch.float32
    assert {t.device.type for t in (batch.states, batch.actions, batch.weights)} == {"cpu"}


def test_memory_grows_neither_with_steps_nor_with_samples() -> None:
    replay, oracle = pair(capacity=20)
    before = replay.nbytes
    feed(replay, oracle, "." * 60)
    generator = np.random.default_rng(0)
    held = []
    tracemalloc.start()
    try:
        for _ in range(2):
            for _ in range(100):
                replay.add(FRAME, 0, 0.0)
                replay.set_priorities(replay.sample(8, 3, 0.9, generator).indices, np.ones(8))
            gc.collect()
            own = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, REPLAY_FILES)])
            held.append(sum(trace.size for trace in own.traces))  # other threads, such as pytest's, allocate too
    finally:
        tracemalloc.stop()
    assert held[0] > 0
    assert held[1] - held[0] < 400  # bytes of 100 steps: not as much as a pointer for each
    assert replay.nbytes == before
