"""How an update is computed: the states it encodes, on which device, in which precision."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from encoder_calls import encoder_calls
from learners import ACTIONS, BATCH, SHAPES, config, make_batch, make_learner, make_replay
from small_agents import small_batch, small_learner

from sacbbf.agents.ladder import RUNGS
from sacbbf.learner.learner import Learner
from sacbbf.learner.noise import Noise, NoNoise
from sacbbf.types import Batch

# --- states encoded -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", SHAPES)
def test_encoder_calls_and_samples_per_update(encoder, monkeypatch):
    calls = encoder_calls(monkeypatch)
    learner = make_learner(encoder)
    learner.update(make_batch(SHAPES[encoder]), beta=0.01)
    counted = [(network is learner.target.encoder, states) for network, states in calls]
    assert sorted(counted) == [(False, BATCH), (False, BATCH), (True, 3 * BATCH)]


def shared_and_apart(n: int) -> tuple[list[float], list[int]]:
    """Totals of an update on real windows with and without sharing, and the states that the target encodes.

    Without augmentation a learner shares by itself, unless the batch does not say how far its bootstrap state is.
    """
    totals, encoded = [], []
    for share in (False, True):
        learner = make_learner(loss={"augment": False})
        real = learner.target.encode

        def counting(obs, real=real):
            encoded.append(obs.shape[0])
            return real(obs)

        learner.target.encode = counting  # type: ignore[method-assign]
        batch = make_replay().sample(BATCH, n, 0.99, np.random.default_rng(0))
        batch = batch if share else dataclasses.replace(batch, bootstrap_step=0)
        totals.append(learner.update(batch, beta=0.01).terms.total.item())
    return totals, encoded


def test_sharing_the_bootstrap_state_saves_a_pass_and_changes_nothing_else():
    totals, encoded = shared_and_apart(n=2)
    assert totals[1] == pytest.approx(totals[0], rel=1e-5)
    assert encoded == [3 * BATCH, 2 * BATCH]


@pytest.mark.parametrize(("share", "rows"), [(True, 2), (False, 3)])
def test_augmented_states_are_shared_only_where_the_setting_says_so(share, rows):
    learner = make_learner("nature", compute={"share_bootstrap": share}, loss={"augment": True})
    batch = dataclasses.replace(make_batch(SHAPES["nature"]), bootstrap_step=2)
    assert learner._bootstrap_row(batch) == rows


def test_a_bootstrap_state_beyond_the_predicted_ones_is_not_shared():
    totals, encoded = shared_and_apart(n=3)
    assert totals[0] == totals[1]
    assert encoded == [3 * BATCH, 3 * BATCH]


# --- devices ------------------------------------------------------------------------------------------------


class FakeNoise(NoNoise):
    """Draws on a device that no generator can be made for here."""

    normal = NoNoise.gumbel

    def integers(self, high, shape):
        return torch.zeros(tuple(shape), dtype=torch.int64, device=self.device)


def meta_learner(encoder: str = "impala") -> Learner:
    """A learner on the meta device: shapes without numbers, and an error wherever a CPU tensor is mixed in."""
    device = torch.device("meta")
    return Learner(config(encoder), SHAPES[encoder], ACTIONS, device=device, noise=FakeNoise(device))


@pytest.mark.parametrize("encoder", SHAPES)
def test_update_and_reset_stay_on_their_device(encoder):
    learner = meta_learner(encoder)
    update = learner.update(make_batch(SHAPES[encoder], device="meta"), beta=0.01)
    learner.reset()
    networks = (*learner.online.parameters(), *learner.target.parameters())
    terms = (update.terms.total, update.terms.td, update.terms.target, update.grad_norm)
    assert {tensor.device.type for tensor in (*networks, *terms)} == {"meta"}


@pytest.mark.parametrize("agent", RUNGS)
def test_every_agents_update_stays_on_its_device(agent):
    device = torch.device("meta")
    learner = small_learner(agent, device=device, noise=FakeNoise(device))
    batch = small_batch(learner)
    tensors = {name: value for name in Batch.__slots__ if isinstance(value := getattr(batch, name), torch.Tensor)}
    there = dataclasses.replace(batch, **{name: value.to(device) for name, value in tensors.items()})
    update = learner.update(there, learner.temperature.beta(0))
    terms = [getattr(update.terms, field.name) for field in dataclasses.fields(update.terms)]
    assert {tensor.device.type for tensor in (*terms, update.grad_norm) if tensor is not None} == {"meta"}


def test_a_tensor_on_another_device_is_noticed():
    learner = meta_learner()
    learner.atoms = torch.linspace(-10, 10, 11, device="cpu")
    with pytest.raises((RuntimeError, NotImplementedError), match=r"device|meta"):
        learner.update(make_batch(SHAPES["impala"], device="meta"), beta=0.01)


REDUCED = """
import torch
from learners import SHAPES, make_batch, make_learner

for encoder, shape in SHAPES.items():
    learner, plain = make_learner(encoder, compute={"precision": "bf16"}), make_learner(encoder)
    for one in (learner, plain):
        one.update(make_batch(shape), beta=0.01)
    for name, parameter in learner.online.named_parameters():
        assert parameter.grad.dtype == torch.float32 and parameter.grad.isfinite().all(), (encoder, name)
    grads = [torch.cat([p.grad.flatten() for p in one.online.parameters()]) for one in (learner, plain)]
    print(encoder, float(torch.cosine_similarity(*grads, dim=0)))
"""


def test_updates_in_reduced_precision_are_near_the_exact_ones():
    # In a process of its own: a CPU may report bfloat16 and die of it.
    command, here = [sys.executable, "-c", REDUCED], Path(__file__).parent
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    if done.returncode == -signal.SIGILL:
        pytest.skip("this CPU cannot compute bfloat16")
    assert done.returncode == 0, done.stderr
    found = dict(line.split() for line in done.stdout.splitlines())
    assert found.keys() == SHAPES.keys()
    assert all(float(cosine) > 0.95 for cosine in found.values()), found


def test_dtypes_are_explicit():
    learner = make_learner()
    update = learner.update(make_batch(SHAPES["grid"]), beta=0.01)
    floats = (update.terms.td, update.terms.spr, update.terms.policy, update.terms.target, update.terms.q_values)
    assert {tensor.dtype for tensor in floats} == {torch.float32}
    torch.set_default_dtype(torch.float64)
    try:
        again = make_learner()
        assert {p.dtype for p in again.online.parameters()} == {torch.float32}
        assert again.update(make_batch(SHAPES["grid"]), beta=0.01).terms.total.dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(("behaviour", "offsets"), [("paper", 9), ("released", 8)])
def test_images_are_cropped_at_the_behaviours_offsets(behaviour, offsets):
    asked = []

    class Recording(Noise):
        def integers(self, high, shape):
            asked.append(high)
            return super().integers(high, shape)

    shape = SHAPES["nature"]
    learner = Learner(
        config("nature", behaviour=behaviour, loss={"augment": True}),
        shape,
        ACTIONS,
        noise=Recording(torch.Generator()),
    )
    learner.update(make_batch(shape), beta=0.1)
    assert asked == [offsets]
