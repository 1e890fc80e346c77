"""Updates with masks: illegal actions leave no trace, whatever the agent; one graph; the same bits if all are legal."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest
import torch
from small_agents import ACTIONS, BATCH, gradients, small_batch, small_learner
from test_compiled import assert_same_update, pair, traced  # noqa: F401 - a fixture

from sacbbf.agents.config import ScheduleConfig
from sacbbf.learner.batches import split
from sacbbf.learner.learner import Learner
from sacbbf.learner.temperature import Temperature

ALL = torch.ones(BATCH, ACTIONS, dtype=torch.bool)
NO_TWO = ALL & torch.tensor([True, True, False])  # action 2 is never legal
ONE = torch.eye(ACTIONS, dtype=torch.bool)[torch.arange(BATCH) % ACTIONS]
PLAIN = {"network": {"dueling": False}}  # so that Q of one action says nothing of another's
EXACT = {"loss": {"policy_gradient": "expected", "backup": "expected"}}
AGENTS = [
    ("sac-bbf", PLAIN),
    ("sac-bbf", {**PLAIN, **EXACT}),
    ("bbf", PLAIN),
    ("bbf", {**PLAIN, "loss": {"double": False}}),
    ("drq-eps", PLAIN),
    ("der", PLAIN),
    ("sac-discrete", {}),
]
NAMES = ["sampled", "expected", "double", "greedy by the target", "scalar", "noisy", "twin"]


def masked(learner: Learner, mask_t: torch.Tensor, mask_n: torch.Tensor):
    actions = mask_t.float().argmax(1).expand(learner.spr_steps + 1, BATCH)  # legal ones
    return replace(small_batch(learner), actions=actions, mask_t=mask_t, mask_n=mask_n)


def exalt(network: torch.nn.Module) -> None:
    """Make action 2 the likeliest, and the best by far."""
    for name, value in network.named_parameters():
        if name.endswith("head.bias"):  # the policy's, and the twin critics'
            value.data[2] += 50.0
        elif name.startswith("q_advantage.bias"):  # of a plain or noisy layer
            value.data.unflatten(0, (ACTIONS, -1))[2, -1] += 50.0  # its highest return


def outcome(agent, changes, exalted):
    """Terms and gradients of an update in which action 2 is illegal."""
    learner = small_learner(agent, changes)
    if exalted:
        exalt(learner.online)
        exalt(learner.target)
    batch = masked(learner, NO_TWO, NO_TWO)
    state = learner.noise.generator.get_state()
    _, terms = learner.compute(batch, 0.1)
    learner.noise.generator.set_state(state)
    return terms, gradients(learner, batch, 0.1)


@pytest.mark.parametrize(("agent", "changes"), AGENTS, ids=NAMES)
def test_an_illegal_action_leaves_no_trace_however_good_it_looks(agent, changes):
    plain, _ = outcome(agent, changes, exalted=False)
    exalted, grads = outcome(agent, changes, exalted=True)
    assert not torch.equal(plain.q_values[:, 2], exalted.q_values[:, 2])
    for name in ("target", "td", "policy", "entropy", "total"):
        torch.testing.assert_close(getattr(exalted, name), getattr(plain, name), msg=name)
    for name in ("next_action", "policy_action"):
        chosen = getattr(exalted, name)
        assert chosen is None or (chosen < 2).all()
    if exalted.policy_logits is not None:
        assert (torch.softmax(exalted.policy_logits, 1)[:, 2] == 0).all()
        assert grads["policy_head.bias"][2] == 0
    assert all(value is None or value.isfinite().all() for value in grads.values())


@pytest.mark.parametrize(("agent", "changes"), AGENTS, ids=NAMES)
def test_masks_that_allow_all_change_no_bit(agent, changes):
    found = []
    for mask in (None, ALL):
        learner = small_learner(agent, changes)
        update = learner.update(replace(small_batch(learner), mask_t=mask, mask_n=mask), 0.1)
        found.append((update, dict(learner.online.named_parameters())))
    (plain, ours), (full, theirs) = found
    for field in fields(plain.terms):
        rounded = agent == "sac-discrete" and field.name == "total"  # a tensor of target entropies rounds otherwise
        if field.name != "mask" and not rounded and getattr(plain.terms, field.name) is not None:
            assert torch.equal(getattr(full.terms, field.name), getattr(plain.terms, field.name)), field.name
    if agent != "sac-discrete":
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert full.metrics() == pytest.approx(plain.metrics())


@pytest.mark.parametrize(("agent", "changes"), AGENTS, ids=NAMES)
def test_a_single_legal_action_in_each_state_keeps_everything_finite(agent, changes):
    learner = small_learner(agent, changes)
    for _ in range(3):
        update = learner.update(masked(learner, ONE, ONE.flip(0)), 0.1)
    assert all(math.isfinite(value) for value in update.metrics().values())
    assert (update.terms.entropy == 0).all()
    assert all(value.isfinite().all() for value in learner.online.parameters())


def test_a_terminal_state_without_a_legal_action_does_no_harm():
    for agent, changes in AGENTS:
        learner = small_learner(agent, changes)
        done = torch.arange(BATCH) % 2 == 0
        batch = replace(masked(learner, NO_TWO, NO_TWO & ~done[:, None]), done=done)
        update = learner.update(batch, 0.1)
        assert all(math.isfinite(value) for value in update.metrics().values()), agent
        if update.terms.target.dim() == 1:
            torch.testing.assert_close(update.terms.target[done], batch.return_n[done])


def test_metrics_of_q_are_those_of_legal_actions():
    learner = small_learner("sac-bbf", PLAIN)
    update = learner.update(masked(learner, NO_TWO, NO_TWO), 0.1)
    legal = update.terms.q_values[:, :2]
    assert update.metrics()["q/mean"] == pytest.approx(legal.mean().item())
    assert update.metrics()["q/max"] == pytest.approx(legal.max().item())


@pytest.mark.parametrize("agent", ["sac-bbf", "drq-eps", "sac-discrete"])
def test_an_update_with_masks_is_compiled_whole(agent, traced):  # noqa: F811
    plain, compiled = pair(agent)
    assert_same_update(plain, compiled, masked(plain, NO_TWO, ONE))
    assert not traced["graph_break"]
    assert traced["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mask_n": None}, "mask_t, batch.mask_n: got one of them"),
        ({"mask_t": ALL[:, :2]}, r"batch.mask_t: got shape \(6, 2\), must be \(6, 3\)"),
        ({"mask_n": ALL.float()}, "batch.mask_n: got torch.float32, must be torch.bool"),
    ],
)
def test_a_mask_of_another_kind_is_refused(change, words):
    learner = small_learner("sac-bbf")
    with pytest.raises(ValueError, match=words):
        learner.update(replace(masked(learner, ALL, ALL), **change), 0.1)


def test_a_group_of_batches_is_cut_with_its_masks():
    learner = small_learner("sac-bbf")
    first, second = split(masked(learner, NO_TWO, ONE), 2)
    assert torch.equal(torch.cat([first.mask_n, second.mask_n]), ONE)
    assert torch.equal(second.mask_t, NO_TWO[3:])
    assert all(part.mask_t is None for part in split(small_batch(learner), 2))


# --- the entropy that temperatures aim at ---


def test_sac_discrete_aims_at_a_share_of_each_states_own_largest_entropy():
    learner = small_learner("sac-discrete")
    mask = torch.stack([ALL[0], NO_TWO[0], ONE[0]]).repeat(2, 1)
    batch = replace(masked(learner, mask, mask), weights=torch.ones(BATCH))
    wanted = gradients(learner, batch)["log_alpha"].item()
    _, terms = learner.compute(batch, 0.0)
    share, largest = learner.config.loss.target_entropy, torch.tensor([math.log(3), math.log(2), 0.0]).repeat(2)
    alpha = learner.online.log_alpha.exp().item()
    assert wanted == pytest.approx((alpha * (terms.entropy - share * largest)).mean().item(), rel=1e-5)


def test_beta_follows_the_share_of_what_the_states_allow():
    schedule = ScheduleConfig(temperature="target", entropy_start=0.6, entropy_end=0.6, entropy_rate=0.1)
    temperature = Temperature(schedule, 1_000, 4, torch.device("cpu"))
    before = temperature.log_beta.item()
    mask = torch.tensor([[True, True, True, True], [True, True, False, False], [True, False, False, False]])
    entropy = torch.tensor([0.5 * math.log(4), 0.2 * math.log(2), 0.0])
    temperature.follow(entropy, 0, mask)
    share = (0.5 * math.log(4) + 0.2 * math.log(2)) / (math.log(4) + math.log(2))
    assert temperature.log_beta.item() == pytest.approx(before + 0.1 * (0.6 - share), rel=1e-5)
    after = temperature.log_beta.item()
    temperature.follow(torch.zeros(2), 0, mask[2:].expand(2, 4))  # nothing to choose: nothing is lacking
    assert temperature.log_beta.item() == after
