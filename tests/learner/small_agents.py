"""Agents of the ladder with networks of a few units, and batches for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sacbbf.agents.config import AgentConfig
from sacbbf.agents.ladder import Changes, LearnerName, change, published
from sacbbf.learner.learner import Learner
from sacbbf.types import Batch

OBS, ACTIONS, BATCH = (5,), 3, 6


def small(agent: LearnerName, changes: Changes | None = None) -> AgentConfig:
    """An agent as published, but tiny, for vectors and without augmentation; then `changes`."""
    config = published(agent)
    atoms = 1 if config.network.num_atoms == 1 else 11
    tiny = {
        "network": {"encoder": "mlp", "width_scale": 0.25, "hidden_dim": 16, "num_atoms": atoms},
        "loss": {"augment": False, "spr_steps": 2},
        "replay": {"batch_size": BATCH},
    }
    return change(change(config, tiny), changes or {})


def small_learner(agent: LearnerName, changes: Changes | None = None, **kwargs: Any) -> Learner:
    return Learner(small(agent, changes), OBS, ACTIONS, **kwargs)


def small_batch(learner: Learner, size: int = BATCH, seed: int = 0, **fields: Any) -> Batch:
    """A random batch that fits a learner; `fields` replace parts of it."""
    rng, k = np.random.default_rng(seed), learner.spr_steps
    values: dict[str, Any] = {
        "states": rng.standard_normal((k + 2, size, *OBS)).astype(np.float32),
        "actions": rng.integers(0, ACTIONS, (k + 1, size)),
        "return_n": rng.standard_normal(size).astype(np.float32),
        "discount_n": np.full(size, 0.9, np.float32),
        "done": rng.random(size) < 0.3,
        "same_episode": np.ones((k, size), np.float32),
        "weights": rng.uniform(0.3, 1.0, size).astype(np.float32),
    }
    tensors = {name: torch.as_tensor(value) for name, value in {**values, **fields}.items()}
    return Batch(**tensors, bootstrap_step=10, indices=np.arange(size))


def parameters(network: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in network.named_parameters()}


def gradients(learner: Learner, batch: Batch, beta: float = 0.0) -> dict[str, torch.Tensor | None]:
    """Gradients of an update's loss, by parameter, without taking the step."""
    learner.online.zero_grad(set_to_none=True)
    total, _ = learner.compute(batch, beta)
    total.backward()
    return {name: value.grad for name, value in learner.online.named_parameters()}
