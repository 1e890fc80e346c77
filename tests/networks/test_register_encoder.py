"""Encoders of one's own: registered under a name, trained, stored and loaded like those that come with the package."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from sacbbf import SACBBF, Agent, UsageError, register_encoder
from sacbbf.networks.encoders import ENCODERS, make_encoder

CATCH = "toys/Catch-v0"
SETTINGS = {"network.hidden_dim": 8, "schedule.n_start": 3, "schedule.warmup": 40, "network.encoder": "own"}


class Dense(nn.Module):
    """One layer over all that is seen."""

    def __init__(self, in_shape, width_scale):
        super().__init__()
        self.out_shape = (round(12 * width_scale),)
        self.layer = nn.Linear(int(np.prod(in_shape)), *self.out_shape)

    def forward(self, seen):
        return torch.relu(self.layer(seen.flatten(1)))


@pytest.fixture(autouse=True)
def registry():
    """The encoders that come with the package; they are put back when the test is over."""
    before = dict(ENCODERS.parts)
    yield before
    ENCODERS.parts.clear()
    ENCODERS.parts.update(before)


def test_an_own_encoder_is_trained_saved_and_loaded(tmp_path):
    register_encoder("own", Dense)
    agent = SACBBF(CATCH, settings=SETTINGS)
    before = agent.network.encoder.layer.weight.clone()
    agent.learn(callback=lambda agent: agent.steps < 50)
    trained = agent.network.encoder
    assert isinstance(trained, Dense) and not torch.equal(trained.layer.weight, before)
    loaded = Agent.load(agent.save(tmp_path / "agent"))
    assert isinstance(loaded.network.encoder, Dense)
    assert torch.equal(loaded.network.encoder.layer.weight, trained.layer.weight)
    assert loaded.evaluate(5).scores == agent.evaluate(5).scores


def test_a_stored_agent_is_refused_where_its_encoder_is_not_known(tmp_path, registry):
    register_encoder("own", Dense)
    path = SACBBF(CATCH, settings=SETTINGS).save(tmp_path / "agent")
    del ENCODERS.parts["own"]
    with pytest.raises(
        UsageError, match="'own': must be one of impala, nature, centred-nature, grid, mlp, or registered first"
    ):
        Agent.load(path)


def test_an_unknown_name_is_refused():
    with pytest.raises(UsageError, match="encoder = 'own': must be one of"):
        SACBBF(CATCH, settings=SETTINGS)
    with pytest.raises(UsageError, match="or registered first"):
        make_encoder("own", (2, 5, 5), 1.0)


def test_an_encoder_for_vectors_does_not_take_grids():
    register_encoder("own", Dense, dims=1)
    with pytest.raises(UsageError, match="shows a grid, so must be impala or nature or centred-nature or grid"):
        SACBBF(CATCH, settings=SETTINGS)
    assert make_encoder("own", (7,), 2.0).out_shape == (24,)
    with pytest.raises(UsageError, match="takes vectors"):
        make_encoder("own", (2, 5, 5), 1.0)


@pytest.mark.parametrize("dims", [0, 2, 4])
def test_other_dimensions_are_refused(dims, registry):
    with pytest.raises(UsageError, match=f"dims = {dims}"):
        register_encoder("own", Dense, dims=dims)
    assert registry == ENCODERS.parts


def test_a_name_that_is_taken_is_refused(registry):
    with pytest.raises(UsageError, match=r"another network\.encoder of this name"):
        register_encoder("grid", Dense)
    assert registry == ENCODERS.parts
    register_encoder("own", Dense)
    register_encoder("own", Dense)  # the same once more, as when a module is loaded again
    with pytest.raises(UsageError, match="there is another"):
        register_encoder("own", Dense, dims=1)
