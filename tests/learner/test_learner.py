"""The learner: what an update changes, what a reset leaves, which priorities are written, what is refused."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from learners import BATCH, SHAPES, make_batch, make_learner, make_replay
from small_agents import parameters

from sacbbf.learner.batches import split
from sacbbf.replay import Replay
from sacbbf.types import Batch


@pytest.mark.parametrize(
    ("encoder", "gradient", "backup", "reduce", "spr_weight"),
    [
        (encoder, gradient, backup, reduce, spr_weight)
        for encoder, (gradient, reduce), backup, spr_weight in itertools.product(
            ["grid", "mlp"],
            [("sampled", True), ("sampled", False), ("expected", True)],
            ["sampled", "expected", "greedy"],
            [5.0, 0.0],
        )
    ],
)
def test_every_combination_of_settings_updates(encoder, gradient, backup, reduce, spr_weight):
    loss = {
        "policy_gradient": gradient,
        "backup": backup,
        "variance_reduction": reduce,
        "spr_weight": spr_weight,
    }
    learner = make_learner(encoder, loss=loss)
    before = parameters(learner.online)
    update = learner.update(make_batch(SHAPES[encoder], learner.spr_steps), beta=0.01)
    assert torch.isfinite(update.terms.total) and torch.isfinite(update.grad_norm)
    after = parameters(learner.online)
    assert all(not torch.equal(before[name], after[name]) for name in before if name.endswith("weight"))


@pytest.mark.parametrize("encoder", SHAPES)
@pytest.mark.parametrize("atoms", [11, 1])
def test_agent_without_policy_updates(encoder, atoms):
    network = {"policy": False, "num_atoms": atoms}
    learner = make_learner(encoder, network=network, loss={"backup": "greedy"}, schedule={"beta_start": 0.0})
    update = learner.update(make_batch(SHAPES[encoder]), beta=0.01)
    assert update.terms.policy_logits is None and not update.terms.policy.any()
    assert set(update.metrics()) >= {"loss/td", "loss/spr", "q/mean", "q/max", "grad_norm"}


def test_metrics_of_an_update():
    learner = make_learner()
    metrics = learner.learn(make_replay(), step=0, generator=np.random.default_rng(0), measure=True)
    assert set(metrics) == {
        *("loss/total", "loss/td", "loss/spr", "loss/policy", "policy/entropy", "policy/entropy_min", "q/mean"),
        *("q/max", "grad_norm", "replay/priority", "schedule/n", "schedule/gamma", "schedule/beta"),
    }
    assert metrics["schedule/n"] == 10 and metrics["schedule/beta"] == 0.01


def test_metrics_are_means_and_extremes_of_the_terms():
    learner = make_learner()
    update = learner.update(make_batch(SHAPES["grid"]), beta=0.3)
    terms = {name: getattr(update.terms, name).double().numpy() for name in ("td", "spr", "policy", "entropy")}
    q = update.terms.q_values.double().numpy()
    squares = [parameter.grad.double().square().sum().item() for parameter in learner.online.parameters()]
    assert update.metrics() == pytest.approx(
        {
            "loss/total": update.terms.total.item(),
            **{f"loss/{name}": terms[name].mean() for name in ("td", "spr", "policy")},
            "policy/entropy": terms["entropy"].mean(),
            "policy/entropy_min": terms["entropy"].min(),
            "q/mean": q.mean(),
            "q/max": q.max(),
            "grad_norm": math.sqrt(sum(squares)),
            "schedule/beta": 0.3,
        },
        rel=1e-5,
    )


def test_unmeasured_updates_report_nothing():
    learner = make_learner()
    assert learner.learn(make_replay(), step=0, generator=np.random.default_rng(0)) == {}


def test_total_is_the_weighted_mean_of_the_terms():
    learner = make_learner()
    batch = make_batch(SHAPES["grid"])
    terms = learner.update(batch, beta=0.3).terms
    want = (batch.weights * (terms.td + 5.0 * terms.spr + terms.policy)).mean()
    torch.testing.assert_close(terms.total, want)


def test_repeated_updates_on_one_batch_lower_the_loss():
    learner = make_learner(optimiser={"learning_rate": 3e-3}, loss={"augment": False})
    batch = make_batch(SHAPES["grid"])
    totals = [learner.update(batch, beta=0.0).terms.total.item() for _ in range(60)]
    assert np.mean(totals[-5:]) < 0.7 * np.mean(totals[:5])


def test_target_follows_the_new_weights_by_tau():
    learner = make_learner(optimiser={"tau": 0.1, "learning_rate": 1e-2})  # so that moves stand out from rounding
    before = parameters(learner.target)
    learner.update(make_batch(SHAPES["grid"]), beta=0.01)
    online, after = parameters(learner.online), parameters(learner.target)
    for name in before:
        torch.testing.assert_close(after[name], 0.9 * before[name] + 0.1 * online[name], atol=1e-6, rtol=0)
        assert (after[name] - before[name]).abs().max() > 1e-4, name


def test_target_starts_as_a_copy_of_the_online_network():
    learner = make_learner()
    online, target = parameters(learner.online), parameters(learner.target)
    assert all(torch.equal(online[name], target[name]) for name in online)


def test_only_matrices_decay():
    learner = make_learner(optimiser={"learning_rate": 0.0})
    groups = learner.optimiser.param_groups
    decays = {id(parameter): group["weight_decay"] for group in groups for parameter in group["params"]}
    for name, parameter in learner.online.named_parameters():
        assert decays[id(parameter)] == (0.0 if name.endswith("bias") else 0.1), name


def test_seed_decides_everything():
    starts, noises, ends = [], [], []
    for seed in (1, 1, 2):
        learner, replay = make_learner(seed=seed), make_replay()
        starts.append(parameters(learner.online))
        for step in range(3):
            learner.learn(replay, step, np.random.default_rng(seed))
        ends.append(parameters(learner.online))
        noises.append(learner.noise.normal((5,)))
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    for first, other in ((starts[0], starts[2]), (ends[0], ends[2])):
        assert not torch.equal(first["q_projection.weight"], other["q_projection.weight"])
    assert torch.equal(noises[0], noises[1]) and not torch.equal(noises[0], noises[2])


# --- resets -------------------------------------------------------------------------------------------------


def test_reset_mixes_soft_parts_and_replaces_the_rest():
    learner = make_learner(schedule={"shrink": 0.8})
    learner.update(make_batch(SHAPES["grid"]), beta=0.01)
    networks, generator = (learner.online, learner.target), learner.init_generator.get_state()
    before = [parameters(network) for network in networks]
    learner.reset()
    learner.init_generator.set_state(generator)
    for network, old in zip(networks, before, strict=True):
        fresh = parameters(learner._fresh_network())
        for name, value in parameters(network).items():
            soft = name.startswith(("encoder.", "transition."))
            want = 0.8 * old[name] + 0.2 * fresh[name] if soft else fresh[name]
            torch.testing.assert_close(value, want)


def test_reset_draws_online_and_target_apart_and_restarts_the_rest():
    learner = make_learner()
    for _ in range(3):
        learner.update(make_batch(SHAPES["grid"]), beta=0.01)
    learner.reset()
    assert not torch.equal(learner.online.q_projection.weight, learner.target.q_projection.weight)
    assert not learner.optimiser.state
    assert (learner.updates, learner.updates_since_reset) == (3, 0)
    assert not any(p.requires_grad for p in learner.target.parameters())
    learner.update(make_batch(SHAPES["grid"]), beta=0.01)
    assert learner.updates_since_reset == 1


def test_n_and_gamma_follow_the_updates_since_the_last_reset():
    learner = make_learner(schedule={"cycle": 4})
    seen = []
    for _ in range(5):
        seen.append((learner.n, round(learner.gamma, 4)))
        learner.update(make_batch(SHAPES["grid"]), beta=0.01)
    assert seen[0] == (10, 0.97) and seen[4] == (3, 0.997)
    assert [n for n, _ in seen] == sorted((n for n, _ in seen), reverse=True)
    learner.reset()
    assert learner.n == 10


# --- priorities, paper and released -------------------------------------------------------------------------


class RecordingReplay:
    """A replay that remembers what was drawn and written."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.drawn: list[Batch] = []
        self.written: list[tuple[np.ndarray, np.ndarray]] = []

    def sample(self, *args):
        self.drawn.append(self.replay.sample(*args))
        return self.drawn[-1]

    def set_priorities(self, indices, priorities):
        self.written.append((indices, priorities))
        self.replay.set_priorities(indices, priorities)


def recorded(behaviour: str, ratio: int, monkeypatch) -> tuple[RecordingReplay, list[torch.Tensor]]:
    learner = make_learner(behaviour=behaviour, schedule={"replay_ratio": ratio})
    replay = RecordingReplay(make_replay(behaviour=learner.behaviour))
    losses = []
    real = learner.update

    def recording(*args):
        update = real(*args)
        losses.append(update.terms.td)
        return update

    monkeypatch.setattr(learner, "update", recording)
    learner.learn(replay, 0, np.random.default_rng(0))  # type: ignore[arg-type]
    return replay, losses


def test_paper_writes_a_priority_for_every_sample(monkeypatch):
    replay, losses = recorded("paper", 2, monkeypatch)
    assert [len(batch.indices) for batch in replay.drawn] == [BATCH, BATCH]
    for batch, (indices, priorities), td in zip(replay.drawn, replay.written, losses, strict=True):
        np.testing.assert_array_equal(indices, batch.indices)
        np.testing.assert_allclose(priorities, np.sqrt(td.numpy() + 1e-10), rtol=1e-6)


def test_released_writes_two_means_to_the_first_two_of_the_group(monkeypatch):
    replay, losses = recorded("released", 2, monkeypatch)
    (batch,), ((indices, priorities),) = replay.drawn, replay.written
    assert len(batch.indices) == 2 * BATCH
    np.testing.assert_array_equal(indices, batch.indices[:2])
    np.testing.assert_allclose(priorities, [np.sqrt(td.mean().item() + 1e-10) for td in losses], rtol=1e-6)


@pytest.mark.parametrize(("behaviour", "n"), [("paper", 7), ("released", 10)])  # 10 * 0.3^(1/4) after one update
def test_what_is_measured_is_the_last_update(behaviour, n):
    learner = make_learner(behaviour=behaviour, schedule={"replay_ratio": 2, "cycle": 4})
    replay = RecordingReplay(make_replay(behaviour=learner.behaviour))
    metrics = learner.learn(replay, 0, np.random.default_rng(0), measure=True)  # type: ignore[arg-type]
    _, priorities = replay.written[-1]
    last = priorities if behaviour == "paper" else priorities[-1:]
    assert metrics["loss/td"] == pytest.approx(np.square(last).mean(), rel=1e-5)
    assert metrics["replay/priority"] == pytest.approx(priorities.mean(), rel=1e-6)
    assert metrics["schedule/n"] == n
    assert metrics["schedule/gamma"] == pytest.approx(0.97 if n == 10 else 1 - 0.03 * 0.1**0.25)


@pytest.mark.parametrize(("ratio", "groups"), [(1, 1), (2, 1), (3, 3), (4, 2)])
def test_released_groups_divide_the_replay_ratio(ratio, groups, monkeypatch):
    replay, losses = recorded("released", ratio, monkeypatch)
    assert (len(replay.drawn), len(losses)) == (groups, ratio)


def test_split_cuts_in_order():
    batch = make_batch(SHAPES["grid"], size=2 * BATCH)
    halves = list(split(batch, 2))
    np.testing.assert_array_equal(halves[1].indices, np.arange(BATCH, 2 * BATCH))
    per_step = ("states", "actions", "same_episode")  # (steps, B, ...)
    for name in (*per_step, "return_n", "discount_n", "done", "weights"):
        parts = [getattr(half, name) for half in halves]
        assert [part.shape[name in per_step] for part in parts] == [BATCH, BATCH], name
        assert torch.equal(torch.cat(parts, int(name in per_step)), getattr(batch, name)), name
    assert [half.bootstrap_step for half in halves] == [batch.bootstrap_step] * 2


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "change", "message"),
    [
        ("states", lambda x: x[:-1], r"batch.states: got shape \(3, 8, 3, 6, 6\), must be \(4, 8, 3, 6, 6\)"),
        ("actions", lambda x: x[:1], r"batch.actions: got shape \(1, 8\), must be \(3, 8\)"),
        ("weights", lambda x: x[:, None], r"batch.weights: got shape \(8, 1\), must be \(8,\)"),
        ("same_episode", lambda x: x.T, r"batch.same_episode: got shape \(8, 2\), must be \(2, 8\)"),
        ("done", lambda x: x.float(), r"batch.done: got torch.float32, must be torch.bool"),
        ("return_n", lambda x: x.double(), r"batch.return_n: got torch.float64, must be torch.float32"),
    ],
)
def test_batch_of_wrong_shape_or_kind_is_refused(field, change, message):
    batch = make_batch(SHAPES["grid"])
    with pytest.raises(ValueError, match=message):
        make_learner().update(replace(batch, **{field: change(getattr(batch, field))}), beta=0.01)
