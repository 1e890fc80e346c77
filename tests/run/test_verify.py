"""`verify` passes on the shipped cases, and fails under each of the named mutations of the learner."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from sacbbf.learner import losses, update
from sacbbf.learner.learner import Learner
from sacbbf.networks import AgentNetwork, encoders, network, transition
from sacbbf.run import reference_case, verify
from sacbbf.run.reference_case import CaseError, find_cases, load_case
from sacbbf.run.verify import Tolerance, compare, verify_case

Patch = pytest.MonkeyPatch
CASES = ["bbf", "drq_eps", "sac_bbf", "sr_spr"]


@pytest.fixture(scope="module", autouse=True)
def generated_once():
    """Draw each case's parameters once for all tests; they take longer than the updates."""
    original, drawn = reference_case.reference_parameters, {}

    def cached(parameters, seed):
        key = (json.dumps(parameters), seed)
        if key not in drawn:
            drawn[key] = original(parameters, seed)
        return drawn[key]

    reference_case.reference_parameters = cached
    yield
    reference_case.reference_parameters = original


@pytest.mark.parametrize("name", CASES)
def test_shipped_case_is_within_tolerance(name):
    checks = verify_case(find_cases(name)[0])
    assert len(checks) >= 13
    assert [check for check in checks if not check.ok] == []


# --- mutations ----------------------------------------------------------------------------------------------
# Each is applied to the learner after it was built; some replace functions, some hook modules.


def ema_from_old_weights(learner: Learner, patch: Patch) -> None:
    update_target = Learner._update_target

    def too_early(self):
        update_target(self)
        return torch.zeros(())

    patch.setattr(Learner, "_grad_norm", too_early)  # runs before the optimiser's step
    patch.setattr(Learner, "_update_target", lambda self: None)


def decay_on_biases(learner: Learner, patch: Patch) -> None:
    for group in learner.optimiser.param_groups:
        group["weight_decay"] = learner.config.optimiser.weight_decay


def no_decay_on_heads(learner: Learner, patch: Patch) -> None:
    heads = {id(p) for name, p in learner.online.named_parameters() if name.startswith(("q_value", "q_advantage"))}
    decayed, plain = learner.optimiser.param_groups
    plain["params"] += [parameter for parameter in decayed["params"] if id(parameter) in heads]
    decayed["params"] = [parameter for parameter in decayed["params"] if id(parameter) not in heads]


def decay_through_the_gradient(learner: Learner, patch: Patch) -> None:
    matrices = learner.optimiser.param_groups[0]
    matrices["weight_decay"] = 0.0
    for parameter in matrices["params"]:
        parameter.register_hook(lambda grad, p=parameter: grad + 0.1 * p.detach())


def relu_on_predictor_input(learner: Learner, patch: Patch) -> None:
    real = AgentNetwork.predict
    patch.setattr(
        AgentNetwork,
        "predict",
        lambda self, *features: real(self, *(each if each is None else F.relu(each) for each in features)),
    )


def predictor_on_the_target_side(learner: Learner, patch: Patch) -> None:
    real = update.make_goal

    def mutated(online, target, *args):
        goal = real(online, target, *args)
        return replace(goal, projection=target.q_predictor(goal.projection).detach())

    patch.setattr(update, "make_goal", mutated)


def symmetric_pooling_pad(learner: Learner, patch: Patch) -> None:
    patch.setattr(encoders, "max_pool_same", lambda x: F.max_pool2d(x, 3, 2, padding=1))


def channel_first_flatten(learner: Learner, patch: Patch) -> None:
    patch.setattr(network, "to_rows", lambda latent: latent.contiguous().flatten(1))


def no_renormalisation(learner: Learner, patch: Patch) -> None:
    learner.online.renormalize = learner.target.renormalize = False


def renormalised_per_channel(learner: Learner, patch: Patch) -> None:
    def mutated(latent):
        low, high = latent.amin((2, 3), keepdim=True), latent.amax((2, 3), keepdim=True)
        return (latent - low) / (high - low + 1e-5)

    patch.setattr(network, "renormalize", mutated)


def transition_ignores_the_action(learner: Learner, patch: Patch) -> None:
    real = transition.TransitionModel.forward
    patch.setattr(transition.TransitionModel, "forward", lambda self, latent, actions: real(self, latent, actions * 0))


def advantage_without_mean(learner: Learner, patch: Patch) -> None:
    def mutated(self, features):
        hidden = F.relu(features)
        advantage = self.q_advantage(hidden).unflatten(1, (self.num_actions, self.num_atoms))
        return self.q_value(hidden).unsqueeze(1) + advantage

    patch.setattr(AgentNetwork, "q_logits", mutated)


def entropy_sign(learner: Learner, patch: Patch) -> None:
    real = losses.policy_gradient_sampled

    def mutated(logits, q, action, variance_reduction):
        return real(logits, q, action, variance_reduction) + 2 * 0.01 * losses.entropy(logits)

    patch.setattr(losses, "policy_gradient_sampled", mutated)


def _policy_loss_with_graph(learner: Learner, patch: Patch, loss: Callable) -> None:
    """Replace the sampled policy gradient by `loss(logits, q with its graph, action)`."""
    real, seen = AgentNetwork.q_logits, {}

    def recording(self, features):
        logits = real(self, features)
        if logits.requires_grad:  # at s_t
            seen["logits"] = logits
        return logits

    patch.setattr(AgentNetwork, "q_logits", recording)
    patch.setattr(
        losses,
        "policy_gradient_sampled",
        lambda logits, q, action, _: loss(logits, losses.expected_value(seen["logits"], learner.atoms), action),
    )


def advantage_not_detached(learner: Learner, patch: Patch) -> None:
    def loss(logits, q, action):
        log_policy = F.log_softmax(logits, -1)
        baseline = (log_policy.detach().exp() * q).sum(-1)
        return -(losses.select(q, action) - baseline) * losses.select(log_policy, action)

    _policy_loss_with_graph(learner, patch, loss)


def baseline_not_detached(learner: Learner, patch: Patch) -> None:
    def loss(logits, q, action):
        log_policy = F.log_softmax(logits, -1)
        baseline = (log_policy.exp() * q.detach()).sum(-1)
        return -(losses.select(q.detach(), action) - baseline) * losses.select(log_policy, action)

    _policy_loss_with_graph(learner, patch, loss)


def no_variance_reduction(learner: Learner, patch: Patch) -> None:
    real = losses.policy_gradient_sampled
    patch.setattr(losses, "policy_gradient_sampled", lambda logits, q, action, _: real(logits, q, action, False))


def policy_gradient_not_reaching_the_encoder(learner: Learner, patch: Patch) -> None:
    real = AgentNetwork.project
    patch.setattr(
        AgentNetwork, "project", lambda self, latents: (real(self, latents)[0], real(self, latents.detach())[1])
    )


def no_importance_weight_on_spr(learner: Learner, patch: Patch) -> None:
    real, weights = losses.spr_loss, torch.from_numpy(load_case(find_cases("sr_spr")[0]).arrays["weights"])
    patch.setattr(losses, "spr_loss", lambda *args: real(*args) / weights)


def no_importance_weight_on_td(learner: Learner, patch: Patch) -> None:
    real, weights = losses.td_cross_entropy, torch.from_numpy(load_case(find_cases("sr_spr")[0]).arrays["weights"])
    patch.setattr(losses, "td_cross_entropy", lambda *args: real(*args) / weights)


def target_from_the_online_network(learner: Learner, patch: Patch) -> None:
    real = update.make_goal
    patch.setattr(update, "make_goal", lambda online, target, *args: real(online, online, *args))


def argmax_q_for_the_next_action(learner: Learner, patch: Patch) -> None:
    patch.setattr(losses, "backup_sampled", lambda values, _: losses.backup_greedy(values, values @ learner.atoms))


def _next_by_the_target(learner: Learner, patch: Patch, *names: str) -> None:
    """Let the target network's layers do at s_{t+n}, where there is no gradient, what the online network's do."""

    def mutated(real: Callable) -> Callable:
        return lambda self, x: real(self if torch.is_grad_enabled() else learner.target, x)

    for name in names:
        patch.setattr(AgentNetwork, name, mutated(getattr(AgentNetwork, name)))


def next_action_from_the_target_policy(learner: Learner, patch: Patch) -> None:
    _next_by_the_target(learner, patch, "policy_features", "policy_logits")


def target_network_chooses_the_greedy_action(learner: Learner, patch: Patch) -> None:
    _next_by_the_target(learner, patch, "q_features", "q_logits")


def spr_factor(learner: Learner, patch: Patch) -> None:
    real = losses.spr_loss
    patch.setattr(losses, "spr_loss", lambda *args: real(*args) / 2)


def spr_mask_off_by_one(learner: Learner, patch: Patch) -> None:
    real = losses.spr_loss
    patch.setattr(losses, "spr_loss", lambda p, t, mask: real(p, t, torch.cat([mask[:1] * 0 + 1, mask[:-1]])))


def spr_mean_over_unmasked_steps(learner: Learner, patch: Patch) -> None:
    real = losses.spr_loss
    patch.setattr(losses, "spr_loss", lambda p, t, mask: real(p, t, mask) / mask.mean(0).clamp(min=1e-6))


def adam_eps(learner: Learner, patch: Patch) -> None:
    for group in learner.optimiser.param_groups:
        group["eps"] = 1e-8


def adam_beta1(learner: Learner, patch: Patch) -> None:
    for group in learner.optimiser.param_groups:
        group["betas"] = (0.5, group["betas"][1])


def ema_rate(learner: Learner, patch: Patch) -> None:
    learner.average.tau *= 1.01


def bootstrap_past_the_end(learner: Learner, patch: Patch) -> None:
    real = losses.target_distribution
    patch.setattr(
        losses,
        "target_distribution",
        lambda bootstrap, returns, discount, done, atoms: real(bootstrap, returns, discount, done & False, atoms),
    )


def squared_error_for_huber(learner: Learner, patch: Patch) -> None:
    patch.setattr(losses, "td_huber", lambda q, target: 0.5 * (q - target).square())


MUTATIONS: list[tuple[str, Callable[[Learner, Patch], None]]] = [
    ("sr_spr", ema_from_old_weights),
    ("bbf", decay_on_biases),
    ("bbf", no_decay_on_heads),
    ("bbf", decay_through_the_gradient),
    ("sr_spr", relu_on_predictor_input),
    ("sr_spr", predictor_on_the_target_side),
    ("bbf", symmetric_pooling_pad),
    ("sr_spr", channel_first_flatten),
    ("sr_spr", no_renormalisation),
    ("sr_spr", renormalised_per_channel),
    ("sr_spr", transition_ignores_the_action),
    ("sr_spr", advantage_without_mean),
    ("sac_bbf", entropy_sign),
    ("sac_bbf", advantage_not_detached),
    ("sac_bbf", baseline_not_detached),
    ("sac_bbf", no_variance_reduction),
    ("sac_bbf", policy_gradient_not_reaching_the_encoder),
    ("sr_spr", no_importance_weight_on_spr),
    ("sr_spr", no_importance_weight_on_td),
    ("sr_spr", target_from_the_online_network),
    ("sac_bbf", argmax_q_for_the_next_action),
    ("sac_bbf", next_action_from_the_target_policy),
    ("sr_spr", target_network_chooses_the_greedy_action),
    ("sr_spr", spr_factor),
    ("sr_spr", spr_mask_off_by_one),
    ("sr_spr", spr_mean_over_unmasked_steps),
    ("sr_spr", adam_eps),
    ("sr_spr", adam_beta1),
    ("sr_spr", ema_rate),
    ("sr_spr", bootstrap_past_the_end),
    ("drq_eps", squared_error_for_huber),
]


@pytest.mark.parametrize(("case", "mutate"), MUTATIONS, ids=[mutate.__name__ for _, mutate in MUTATIONS])
def test_mutation_is_noticed(case, mutate, monkeypatch):
    def mutated(loaded, kernels):
        learner = reference_case.build_learner(loaded, kernels)
        mutate(learner, monkeypatch)
        return learner

    monkeypatch.setattr(verify, "build_learner", mutated)
    checks = verify_case(find_cases(case)[0])
    assert any(not check.ok for check in checks)


# --- cases kept elsewhere -----------------------------------------------------------------------------------


def copy_case(name: str, folder: Path, prefix: str) -> Path:
    source = find_cases(name)[0]
    for suffix in (".json", ".npz"):
        shutil.copy(source.with_name(source.name + suffix), folder / (prefix + suffix))
    return folder / prefix


def test_case_is_found_by_prefix_file_folder_and_name(tmp_path):
    prefix = copy_case("sr_spr", tmp_path, "other")
    for given in (prefix, prefix.with_suffix(".json"), prefix.with_suffix(".npz"), tmp_path):
        assert find_cases(str(given)) == [prefix]
    assert [path.name for path in find_cases("sr_spr")] == ["sr_spr_update"]
    assert len(find_cases(None)) == len(CASES)


def test_prefix_may_leave_out_the_word_update(tmp_path):
    prefix = copy_case("sr_spr", tmp_path, "mine_update")
    assert find_cases(str(tmp_path / "mine")) == [prefix]


def test_changed_number_in_a_case_is_noticed(tmp_path):
    prefix = copy_case("sr_spr", tmp_path, "other")
    meta = json.loads(prefix.with_suffix(".json").read_text())
    meta["after_three_updates"]["q_value.bias"]["online_head"][3] += 1e-4
    prefix.with_suffix(".json").write_text(json.dumps(meta))
    failed = [check.quantity for check in verify_case(prefix) if not check.ok]
    assert failed == ["after 3: online entries"]


def test_unknown_expected_quantity_is_not_passed_over(tmp_path):
    prefix = copy_case("sr_spr", tmp_path, "other")
    with np.load(prefix.with_suffix(".npz")) as archive:
        arrays = dict(archive)
    np.savez(prefix.with_suffix(".npz"), **arrays, expect_something=np.zeros(3))
    assert [check.quantity for check in verify_case(prefix) if not check.ok] == ["something"]


def test_unknown_case_is_refused():
    with pytest.raises(CaseError, match="no such case"):
        find_cases("nowhere/at_all")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda meta: meta.pop("encoder"), "lacks encoder"),
        (lambda meta: meta.update(agent="ppo"), "agent = 'ppo', must be one of"),
        (lambda meta: meta.update(hidden_dim=64), "do not fit"),
    ],
)
def test_case_that_makes_no_sense_is_refused(tmp_path, change, message):
    prefix = copy_case("sr_spr", tmp_path, "other")
    meta = json.loads(prefix.with_suffix(".json").read_text())
    change(meta)
    prefix.with_suffix(".json").write_text(json.dumps(meta))
    with pytest.raises(CaseError, match=message):
        verify_case(prefix)


def test_corrupt_archive_is_refused(tmp_path):
    prefix = copy_case("sr_spr", tmp_path, "other")
    prefix.with_suffix(".npz").write_bytes(b"not a zip file")
    with pytest.raises(CaseError, match="cannot read case"):
        verify_case(prefix)


def test_compare_names_the_worst_and_refuses_nan_and_shapes():
    tolerance = Tolerance(rtol=0.0, atol=0.1)
    check = compare("x", [("good", [1.0], [1.0]), ("bad", [1.0, 2.0], [1.0, 2.5])], tolerance)
    assert (check.ok, check.worst, check.max_abs) == (False, "bad", 0.5)
    assert not compare("x", [("nan", [np.nan], [1.0])], tolerance).ok
    assert not compare("x", [("shape", [1.0], [1.0, 1.0])], tolerance).ok
