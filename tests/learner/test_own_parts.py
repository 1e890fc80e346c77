"""Encoders, projections, heads, optimisers and losses of one's own: they train, reset, act and resume."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from learners import ACTIONS, SHAPES, config, make_batch
from small_agents import OBS, small_batch, small_learner

from parts import OWN
from sacbbf import register_auxiliary_loss, register_optimiser
from sacbbf.agents.ladder import change
from sacbbf.errors import UsageError
from sacbbf.learner.learner import Learner
from sacbbf.learner.state import read_learner, write_learner
from sacbbf.policy import NetworkPolicy
from sacbbf.run.policy_file import load_policy, policy_bytes

pytestmark = pytest.mark.usefixtures("own_parts")
SHAPE = SHAPES["grid"]
NORMED = {"network": {"encoder": "normed"}}


def learner_with(changes, seed=0) -> Learner:
    """A small learner on grids."""
    return Learner(change(config(), changes), SHAPE, ACTIONS, seed=seed)


def update(learner, *seeds, beta=0.01) -> list[float]:
    """Learn from a batch of each seed; the totals."""
    return [learner.update(make_batch(SHAPE, seed=seed), beta).terms.total.item() for seed in seeds]


def tensors(network) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}


def assert_equal(found, want) -> None:
    assert found.keys() == want.keys()
    assert [name for name in want if not torch.equal(found[name], want[name])] == []


def go_on_in_another(changes) -> tuple[Learner, Learner]:
    """A learner, and one of another seed that its state was written into after a reset; both went on from there."""
    learner, other = learner_with(changes), learner_with(changes, seed=5)
    update(learner, 1, 2)
    learner.reset()
    update(learner, 3)
    arrays, counters = read_learner(learner)
    write_learner(other, {name: array.copy() for name, array in arrays.items()}, copy.deepcopy(counters))
    assert update(other, 4, 5) == update(learner, 4, 5)
    return learner, other


# --- all at once ---


@pytest.mark.parametrize("changes", [OWN, NORMED], ids=["all", "encoder"])
def test_parts_of_ones_own_are_trained(changes):
    learner = learner_with(changes)
    before = tensors(learner.online)
    update(learner, *range(3))
    still = [name for name, value in learner.online.named_parameters() if torch.equal(value, before[name])]
    assert still == []


@pytest.mark.parametrize("changes", [OWN, NORMED], ids=["all", "encoder"])
def test_parts_of_ones_own_go_on_in_another_learner_bit_for_bit(changes):
    learner, other = go_on_in_another(changes)
    assert_equal(tensors(other.online), tensors(learner.online))
    assert_equal(tensors(other.target), tensors(learner.target))


# --- norms and buffers ---


def test_norms_start_at_one_and_are_there_after_a_reset_of_fresh_networks():
    learner = learner_with(NORMED)
    for _ in range(2):
        for network in (learner.online, learner.target):
            for norm in (network.encoder.batch_norm, network.encoder.group_norm, network.encoder.layer_norm):
                assert torch.equal(norm.weight, torch.ones_like(norm.weight)) and not norm.bias.any()
            assert network.encode(torch.rand(4, *SHAPE)).std(0).max() > 0.01
        learner.reset()


def test_the_target_network_has_the_online_networks_statistics():
    learner = learner_with(NORMED)
    update(learner, 0, 1)
    online, target = learner.online.encoder.batch_norm, learner.target.encoder.batch_norm
    assert online.num_batches_tracked == 4  # s_t and s_{t+n}, twice
    assert online.running_mean.abs().min() > 0
    assert torch.equal(target.running_mean, online.running_mean) and torch.equal(target.running_var, online.running_var)
    learner.reset()  # the encoder is only perturbed, and so keeps them
    assert learner.online.encoder.batch_norm.num_batches_tracked == 4


def test_acting_goes_by_the_statistics_and_leaves_them_alone():
    learner = learner_with(NORMED)
    update(learner, 0, 1)
    before = tensors(learner.online)
    states = np.random.default_rng(0).integers(0, 256, (6, *SHAPE), np.uint8)
    policy = NetworkPolicy(learner.online, torch.device("cpu"), 6)
    together = policy.logits(states)
    np.testing.assert_allclose(policy.logits(states[:1]), together[:1], atol=1e-6)  # whatever stands beside it
    assert learner.online.training
    assert_equal(tensors(learner.online), before)


def test_a_buffer_is_kept_by_all_that_networks_go_through(tmp_path):
    learner, other = go_on_in_another(NORMED)
    path = tmp_path / "policy.safetensors"
    path.write_bytes(policy_bytes(learner.target, learner.config.network, SHAPE))
    networks = (learner.online, learner.target, other.online, other.target, load_policy(path, torch.device("cpu")))
    assert [network.encoder.threes.tolist() for network in networks] == [[3.0, 3.0]] * 5
    with torch.no_grad():
        learner.online.encoder.threes += 1.0
    update(learner, 0)
    assert learner.target.encoder.threes.tolist() == [4.0, 4.0]  # copied, not averaged


def test_a_policy_file_holds_the_statistics(tmp_path):
    learner, path = learner_with(OWN), tmp_path / "policy.safetensors"
    update(learner, 0, 1)
    path.write_bytes(policy_bytes(learner.target, learner.config.network, SHAPE))
    states = np.random.default_rng(0).integers(0, 256, (3, *SHAPE), np.uint8)
    want, found = (
        NetworkPolicy(network, torch.device("cpu"), 4).logits(states)
        for network in (learner.target, load_policy(path, torch.device("cpu")))
    )
    np.testing.assert_array_equal(found, want)


# --- what is called ---


def test_a_subclass_is_trained_and_acts_as_what_it_is_a_subclass_of():
    learners = [learner_with({"network": {"encoder": name}}) for name in ("grid", "same-grid")]
    totals = [update(learner, 0, 1, 2) for learner in learners]
    assert totals[0] == totals[1]
    assert_equal(tensors(learners[1].online), tensors(learners[0].online))
    states = np.random.default_rng(0).integers(0, 256, (3, *SHAPE), np.uint8)
    logits = [NetworkPolicy(learner.target, torch.device("cpu")).logits(states) for learner in learners]
    np.testing.assert_array_equal(*logits)


@pytest.mark.parametrize("agent", ["sac-bbf", "bbf", "sac-discrete"])
def test_a_projections_own_forward_is_called_in_training_and_acting(agent):
    heads = {"projection": "own"} if agent == "bbf" else {"projection": "own", "policy_head": "own"}
    learner = small_learner(agent, {"network": heads})
    learner.update(small_batch(learner), 0.0)
    projection = learner.online.q_projection if agent == "bbf" else learner.online.policy_projection
    assert projection.called[True] and not projection.called[False]
    NetworkPolicy(learner.online, torch.device("cpu"), 3).logits(np.zeros((2, *OBS), np.float32))
    assert projection.called[False] == [3]


@pytest.mark.parametrize("encoder", SHAPES)
def test_hooks_on_any_layer_are_called_in_training(encoder):
    learner = Learner(config(encoder), SHAPES[encoder], ACTIONS)
    called, names = set(), {name for name, _ in learner.online.named_modules() if name}
    for name, module in learner.online.named_modules():
        module.register_forward_hook(lambda *args, name=name: called.add(name))
    learner.update(make_batch(SHAPES[encoder]), 0.01)
    assert called == names


# --- optimisers ---


@pytest.mark.parametrize("name", ["nadam", "momentum", "adagrad", "adafactor"])
def test_another_optimiser_goes_on_bit_for_bit(name):
    learner, other = go_on_in_another({"optimiser": {"name": name}})
    assert_equal(tensors(other.online), tensors(learner.online))


def test_what_an_optimiser_has_changed_in_its_groups_is_kept_until_a_reset():
    learner, other = learner_with({}), learner_with({})
    for group in learner.optimiser.param_groups:
        group["lr"] *= 0.5
    write_learner(other, *read_learner(learner))
    assert [group["lr"] for group in other.optimiser.param_groups] == [5e-5, 5e-5]
    other.reset()
    assert [group["lr"] for group in other.optimiser.param_groups] == [1e-4, 1e-4]


def test_only_tensors_of_more_than_one_dimension_are_decayed():
    learner = learner_with({**NORMED, "optimiser": {"name": "nadam", "weight_decay": 0.2}})
    decayed, others = learner.optimiser.param_groups
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.2, 0.0)
    assert {parameter.dim() > 1 for parameter in decayed["params"]} == {True}
    assert any(parameter is learner.online.encoder.batch_norm.weight for parameter in others["params"])


# --- auxiliary losses ---


def gradients(name, weight):
    """Gradients of an update with an auxiliary loss of that weight, without the step."""
    learner = learner_with({"loss": {"auxiliary": name, "auxiliary_weight": weight}})
    total, _ = learner.compute(make_batch(SHAPE), 0.01)
    total.backward()
    return {name: value.grad for name, value in learner.online.named_parameters()}


@pytest.mark.parametrize("name", ["ends", "latent-size"])
def test_an_auxiliary_losss_weight_scales_its_gradient(name):
    none, once, thrice = (gradients(name, weight) for weight in (0.0, 1.0, 3.0))
    for parameter, value in none.items():
        torch.testing.assert_close(
            thrice[parameter] - value, 3.0 * (once[parameter] - value), rtol=1e-3, atol=1e-5, msg=parameter
        )
    assert (once["encoder.conv0.weight"] - none["encoder.conv0.weight"]).abs().max() > 1e-4


def test_an_auxiliary_loss_is_a_metric_and_a_part_of_the_total():
    learner = learner_with({"loss": {"auxiliary": "ends", "auxiliary_weight": 2.0}})
    done = learner.update(make_batch(SHAPE), 0.01)
    terms, metrics = done.terms, done.metrics()
    assert metrics["loss/auxiliary"] == pytest.approx(terms.auxiliary.mean().item())
    whole = terms.weights * (terms.td + 5.0 * terms.spr + terms.policy + 2.0 * terms.auxiliary)
    assert metrics["loss/total"] == pytest.approx(whole.mean().item(), rel=1e-5)
    assert "loss/auxiliary" not in learner_with({}).update(make_batch(SHAPE), 0.01).metrics()


def test_an_auxiliary_losss_module_is_kept_reset_and_left_out_of_policy_files(tmp_path):
    learner = learner_with({"loss": {"auxiliary": "ends"}})
    update(learner, 0)
    weight = learner.online.auxiliary.layer.weight
    arrays, _ = read_learner(learner)
    np.testing.assert_array_equal(arrays["online.auxiliary.layer.weight"], weight.detach().numpy())
    assert {"target.auxiliary.layer.weight", "optimiser.exp_avg.auxiliary.layer.weight"} <= arrays.keys()
    before = weight.clone()
    learner.reset()
    assert (weight - before).abs().min() > 0
    path = tmp_path / "policy.safetensors"
    path.write_bytes(policy_bytes(learner.target, learner.config.network, SHAPE))
    assert load_policy(path, torch.device("cpu")).auxiliary is None


def test_what_makes_no_sense_is_refused():
    register_auxiliary_loss("mean", lambda network: lambda terms, batch: terms.td.mean())
    with pytest.raises(ValueError, match=r"auxiliary loss has shape \(\), must be \(8,\)"):
        update(learner_with({"loss": {"auxiliary": "mean"}}), 0)
    with pytest.raises(UsageError, match=r"loss\.auxiliary = 'nothing': must be one of"):
        learner_with({"loss": {"auxiliary": "nothing"}})
    with pytest.raises(UsageError, match=r"optimiser\.name = 'sgd': must be one of adamw, .*, or registered first"):
        learner_with({"optimiser": {"name": "sgd"}})
    register_optimiser("rprop", torch.optim.Rprop)
    with pytest.raises(UsageError, match=r"optimiser\.weight_decay = 0\.1: Rprop has no weight decay; must be 0"):
        learner_with({"optimiser": {"name": "rprop"}})
    learner_with({"optimiser": {"name": "rprop", "weight_decay": 0.0}})
    register_optimiser("none", lambda groups, settings: None)
    with pytest.raises(UsageError, match="built NoneType: must be an Optimizer"):
        learner_with({"optimiser": {"name": "none"}})
