"""A policy on disk: what comes back is what was stored, and what cannot be read is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from sacbbf.agents.config import NetworkConfig
from sacbbf.errors import UsageError
from sacbbf.networks import build_network
from sacbbf.policy import NetworkPolicy
from sacbbf.run.policy_file import TRAINING_ONLY, load_policy, policy_bytes

CPU = torch.device("cpu")
CONFIGS = {
    "mlp": (NetworkConfig(encoder="mlp", width_scale=0.25, hidden_dim=8), (4,)),
    "grid": (NetworkConfig(encoder="grid", width_scale=0.25, hidden_dim=8, dueling=False), (2, 6, 6)),
}


def make_network(encoder):
    config, shape = CONFIGS[encoder]
    generator = torch.Generator().manual_seed(1)
    return build_network(config, shape, 3, self_prediction=True, device=CPU, generator=generator)


@pytest.fixture
def stored(tmp_path):
    config, shape = CONFIGS["mlp"]
    path = tmp_path / "policy.safetensors"
    path.write_bytes(policy_bytes(make_network("mlp"), config, shape))
    return path


@pytest.mark.parametrize("encoder", CONFIGS)
def test_a_loaded_policy_acts_and_judges_as_the_stored_one(encoder, tmp_path):
    config, shape = CONFIGS[encoder]
    network, path = make_network(encoder), tmp_path / "policy.safetensors"
    path.write_bytes(policy_bytes(network, config, shape))
    loaded = load_policy(path, CPU)
    states = np.random.default_rng(0).random((5, *shape), np.float32)
    want = NetworkPolicy(network, CPU, 8).logits(states)
    np.testing.assert_array_equal(NetworkPolicy(loaded, CPU, 8).logits(states), want)
    kept = {name: value for name, value in network.state_dict().items() if not name.startswith(TRAINING_ONLY)}
    assert kept.keys() == loaded.state_dict().keys()
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in kept.items())
    assert any(name.startswith("q_projection") for name in kept)
    assert not any(parameter.requires_grad for parameter in loaded.parameters())


def test_parts_for_learning_only_are_not_stored(stored):
    assert any(name.startswith(TRAINING_ONLY) for name in make_network("mlp").state_dict())
    assert not any(name.startswith(TRAINING_ONLY) for name in load_file(stored))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"policy\.safetensors is missing"):
        load_policy(tmp_path / "policy.safetensors", CPU)


def half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def without_description(path):
    save_file(load_file(path), path)


def without_a_tensor(path):
    tensors = load_file(path)
    tensors.pop(next(iter(tensors)))
    meta = '{"network": {"encoder": "mlp", "width_scale": 0.25, "hidden_dim": 8}, "obs_shape": [4], "num_actions": 3}'
    save_file(tensors, path, {"sacbbf": meta})


@pytest.mark.parametrize(
    "damage", [half, lambda path: path.write_bytes(b"no tensors"), without_description, without_a_tensor]
)
def test_a_damaged_file_is_refused(damage, stored):
    damage(stored)
    with pytest.raises(UsageError, match="cannot read the policy"):
        load_policy(stored, CPU)
