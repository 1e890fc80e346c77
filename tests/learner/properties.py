"""What the tests of the equations share: strategies, and tensors in float64 by hand or by seed."""

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st

seeds = st.integers(0, 2**32 - 1)
batches = st.integers(1, 4)
sizes = st.integers(2, 9)


def check(test):
    """Run a property on a fixed set of examples, without a time limit per example."""
    return settings(deadline=None, derandomize=True, max_examples=60)(test)


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


def random_tensor(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def random_probs(seed, *shape):
    return torch.softmax(3.0 * random_tensor(seed, *shape), dim=-1)
