"""Denormals are flushed to zero during a run, by every thread, and as before when it is over."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch.optim import AdamW

from sacbbf.machine.denormals import denormals_are_flushed, flush_denormals

ENTRIES = 1 << 20  # enough for PyTorch to use all its threads

IN_ALL_THREADS = f"""
import torch
from sacbbf.machine.denormals import flush_denormals
torch.set_num_threads(2)
with flush_denormals():
    print(int((torch.full(({ENTRIES},), 1e-30).mul_(1e-10) > 0).sum()))
"""


@pytest.fixture(autouse=True)
def as_usual():
    torch.set_flush_denormal(False)
    yield
    torch.set_flush_denormal(False)


def moments(updates: int) -> torch.Tensor:
    """AdamW's average gradient of a weight that had one gradient, and none since."""
    weight = torch.nn.Parameter(torch.ones(64))
    optimiser = AdamW([weight], lr=1e-3, fused=True)
    for number in range(updates):
        weight.grad = torch.full((64,), 1e-3 if number == 0 else 0.0)
        optimiser.step()
    return optimiser.state[weight]["exp_avg"]


def test_an_average_without_gradients_ends_at_zero():
    usual = moments(1_000)
    assert (usual > 0.0).all()
    assert (usual < torch.finfo(torch.float32).tiny).all()  # and stays there: 0.9 times the smallest is the smallest
    with flush_denormals():
        assert (moments(1_000) == 0.0).all()


def test_it_ends_as_it_began():
    assert not denormals_are_flushed()
    with flush_denormals():
        assert denormals_are_flushed()
        with flush_denormals():
            assert denormals_are_flushed()
        assert denormals_are_flushed()
    assert not denormals_are_flushed()


def test_after_a_failure_too():
    with pytest.raises(ValueError, match="of another kind"), flush_denormals():
        raise ValueError("of another kind")
    assert not denormals_are_flushed()


def test_it_holds_for_every_thread():
    done = subprocess.run([sys.executable, "-c", IN_ALL_THREADS], check=True, capture_output=True, text=True)
    assert int(done.stdout) == 0
