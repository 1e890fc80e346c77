"""Batches on their way into an update: drawn, checked, and cut where several were drawn at once."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from numpy.random import Generator

from sacbbf.replay import NoWindow, Replay
from sacbbf.types import Batch


def draw(replay: Replay, size: int, n: int, gamma: float, generator: Generator) -> tuple[Batch, int]:
    """Draw windows for n, and return them with n; NoWindow if there are none.

    Where every episode was cut off before its n-th step, as a short time limit does, n is halved until there are some.
    """
    while True:
        try:
            return replay.sample(size, n, gamma, generator), n
        except NoWindow:
            if n == 1 or len(replay) <= n + replay.k:  # too early to learn
                raise
            n //= 2


def check_batch(batch: Batch, obs_shape: tuple[int, ...], spr_steps: int, num_actions: int) -> None:
    """Raise ValueError for shapes and kinds that a silent broadcast or cast would otherwise hide."""
    k, size = spr_steps, batch.return_n.shape[0] if batch.return_n.dim() else 0
    shapes = {
        "states": (k + 2, size, *obs_shape),
        "actions": (k + 1, size),
        "same_episode": (k, size),
        **dict.fromkeys(("return_n", "discount_n", "done", "weights"), (size,)),
    }
    dtypes = {"actions": torch.int64, "done": torch.bool, "return_n": torch.float32}
    if (batch.mask_t is None) != (batch.mask_n is None):
        raise ValueError("batch.mask_t, batch.mask_n: got one of them, must be both or none")
    if batch.mask_t is not None:
        shapes |= dict.fromkeys(("mask_t", "mask_n"), (size, num_actions))
        dtypes |= dict.fromkeys(("mask_t", "mask_n"), torch.bool)
    for name, shape in shapes.items():
        tensor = getattr(batch, name)
        if tuple(tensor.shape) != shape:
            raise ValueError(f"batch.{name}: got shape {tuple(tensor.shape)}, must be {shape}")
    for name, dtype in dtypes.items():
        if getattr(batch, name).dtype != dtype:
            raise ValueError(f"batch.{name}: got {getattr(batch, name).dtype}, must be {dtype}")


def split(batch: Batch, parts: int) -> Iterator[Batch]:
    """Cut a batch of parts * B windows into `parts` batches of B, in order."""
    if parts == 1:
        yield batch
        return
    size = len(batch.indices) // parts
    for start in range(0, size * parts, size):
        rows = slice(start, start + size)
        yield Batch(
            states=batch.states[:, rows],
            actions=batch.actions[:, rows],
            return_n=batch.return_n[rows],
            discount_n=batch.discount_n[rows],
            done=batch.done[rows],
            same_episode=batch.same_episode[:, rows],
            weights=batch.weights[rows],
            bootstrap_step=batch.bootstrap_step,
            indices=batch.indices[rows],
            mask_t=None if batch.mask_t is None else batch.mask_t[rows],
            mask_n=None if batch.mask_n is None else batch.mask_n[rows],
        )
