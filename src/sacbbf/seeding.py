"""One root seed in, any number of named generators out; nothing else in the project makes randomness."""

from __future__ import annotations

import hashlib
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

EPISODE_SEEDS = 2**31 - 1  # episode seeds are below this: what every environment's seed can hold


def _is_count(value: object) -> bool:
    """Whether it is 0, 1, 2, ...: NumPy's integers are, True and False are not."""
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= 0


def _check_root(root: int) -> int:
    if not _is_count(root):
        raise ValueError(f"a root seed must be an integer of at least 0, got {root!r}")
    return int(root)


def _seed_sequence(root: int, names: tuple[str | int, ...]) -> np.random.SeedSequence:
    """The root's entropy, with the names' SHA-256 digest as the branch that is taken from it."""
    digest = hashlib.sha256()
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | Integral):
            raise TypeError(f"a generator's name is made of strings and integers, got {name!r}")
        # Kind and length go in front, so that no two lists of names spell the same bytes.
        word = name.encode() if isinstance(name, str) else str(int(name)).encode()
        kind = b"s" if isinstance(name, str) else b"i"
        digest.update(kind + len(word).to_bytes(8, "little") + word)
    branch = np.frombuffer(digest.digest(), dtype="<u4")
    return np.random.SeedSequence(_check_root(root), spawn_key=tuple(int(part) for part in branch))


def derive_seed(root: int, *names: str | int) -> int:
    """A seed of 63 bits, in [0, 2**63), that belongs to these names under this root.

    The same on every platform, in every process and in every version of Python and NumPy.
    """
    state = _seed_sequence(root, names).generate_state(1, np.uint64)
    return int(state[0]) >> 1


def numpy_generator(root: int, *names: str | int) -> np.random.Generator:
    """A PCG64 generator of its own for these names under this root."""
    return np.random.Generator(np.random.PCG64(_seed_sequence(root, names)))


def torch_generator(root: int, *names: str | int, device: str | torch.device = "cpu") -> torch.Generator:
    """A PyTorch generator of its own for these names under this root; its draws depend on the device."""
    import torch

    generator = torch.Generator(device=device)
    generator.manual_seed(derive_seed(root, *names))
    return generator


def episode_seed(root: int, phase: str, number: int) -> int:
    """The seed, in [0, 2**31 - 1), with which episode `number` (from 0) of a phase begins.

    Phases ("train", "evaluate", ...) have episodes of their own, so that none is played in both.
    """
    if not _is_count(number):
        raise ValueError(f"an episode's number must be an integer of at least 0, got {number!r}")
    return derive_seed(root, "episode", phase, number) % EPISODE_SEEDS
