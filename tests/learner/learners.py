"""Small learners by their encoder, and batches and replays for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from sacbbf.agents.config import AgentConfig, LossConfig, NetworkConfig, ReplayConfig, ScheduleConfig
from sacbbf.learner.learner import Learner
from sacbbf.replay import Replay
from sacbbf.types import Batch

SHAPES = {"impala": (4, 16, 16), "nature": (4, 16, 16), "grid": (3, 6, 6), "mlp": (5,)}
ACTIONS, BATCH = 3, 8


def config(encoder="grid", **changes) -> AgentConfig:
    base = AgentConfig(
        network=NetworkConfig(encoder=encoder, width_scale=0.25, hidden_dim=16, num_atoms=11),
        loss=LossConfig(spr_steps=2),
        schedule=ScheduleConfig(replay_ratio=2),
        replay=ReplayConfig(batch_size=BATCH),
    )
    parts = {
        name: replace(getattr(base, name), **change) for name, change in changes.items() if isinstance(change, dict)
    }
    plain = {name: change for name, change in changes.items() if not isinstance(change, dict)}
    return replace(base, **parts, **plain)


def make_batch(shape, k=2, size=BATCH, seed=0, device="cpu") -> Batch:
    rng = np.random.default_rng(seed)

    def tensor(values):
        return torch.from_numpy(values).to(device)

    if len(shape) == 1:
        states = rng.standard_normal((k + 2, size, *shape)).astype(np.float32)
    else:
        states = rng.integers(0, 256, (k + 2, size, *shape), dtype=np.uint8)
    return Batch(
        states=tensor(states),
        actions=tensor(rng.integers(0, ACTIONS, (k + 1, size))),
        return_n=tensor(rng.standard_normal(size).astype(np.float32)),
        discount_n=tensor(np.full(size, 0.9, np.float32)),
        done=tensor(rng.random(size) < 0.3),
        same_episode=tensor((rng.random((k, size)) < 0.8).astype(np.float32)),
        weights=tensor(rng.uniform(0.3, 1.0, size).astype(np.float32)),
        bootstrap_step=2,
        indices=np.arange(size),
    )


def make_learner(encoder="grid", seed=0, **changes) -> Learner:
    return Learner(config(encoder, **changes), SHAPES[encoder], ACTIONS, seed=seed)


def fill(replay: Replay, steps: int, shape, dtype=np.uint8, seed=0) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        frame = rng.integers(0, 2, shape).astype(dtype)
        replay.add(frame, int(rng.integers(ACTIONS)), float(rng.standard_normal()), terminated=rng.random() < 0.05)


def make_replay(**kwargs) -> Replay:
    replay = Replay(capacity=500, frame_shape=SHAPES["grid"], frame_dtype=np.uint8, stack=1, k=2, **kwargs)
    fill(replay, 200, SHAPES["grid"])
    return replay
