"""The learner: what an update changes, what it costs, and what a reset leaves."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from sacbbf.config import AgentConfig, LossConfig, NetworkConfig, OptimiserConfig, ReplayConfig, ScheduleConfig
from sacbbf.learner import learner as learner_module
from sacbbf.learner.batches import split
from sacbbf.learner.learner import Learner
from sacbbf.learner.noise import NoNoise
from sacbbf.networks import AgentNetwork
from sacbbf.replay import Replay
from sacbbf.types import Batch

SHAPES = {"impala": (4, 16, 16), "nature": (4, 16, 16), "grid": (3, 6, 6), "mlp": (5,)}
ACTIONS, BATCH = 3, 8


def config(encoder="grid", **changes) -> AgentConfig:
    base = AgentConfig(
        network=NetworkConfig(encoder=encoder, width_scale=0.25, hidden_dim=16, num_atoms=11),
        loss=LossConfig(spr_steps=2),
        schedule=ScheduleConfig(replay_ratio=2),
        replay=ReplayConfig(batch_size=BATCH),
    )
    parts = {
        name: replace(getattr(base, name), **change) for name, change in changes.items() if isinstance(change, dict)
    }
    plain = {name: change for name, change in changes.items() if not isinstance(change, dict)}
    return replace(base, **parts, **plain)


def make_batch(shape, k=2, size=BATCH, seed=0, device="cpu") -> Batch:
    rng = np.random.default_rng(seed)

    def tensor(values):
        return torch.from_numpy(values).to(device)

    if len(shape) == 1:
        states = rng.standard_normal((k + 2, size, *shape)).astype(np.float32)
    else:
        states = rng.integers(0, 256, (k + 2, size, *shape), dtype=np.uint8)
    return Batch(
        states=tensor(states),
        actions=tensor(rng.integers(0, ACTIONS, (k + 1, size))),
        return_n=tensor(rng.standard_normal(size).astype(np.float32)),
        discount_n=tensor(np.full(size, 0.9, np.float32)),
        done=tensor(rng.random(size) < 0.3),
        same_episode=tensor((rng.random((k, size)) < 0.8).astype(np.float32)),
        weights=tensor(rng.uniform(0.3, 1.0, size).astype(np.float32)),
        bootstrap_step=2,
        indices=np.arange(size),
    )


def make_learner(encoder="grid", seed=0, **changes) -> Learner:
    return Learner(config(encoder, **changes), SHAPES[encoder], ACTIONS, seed=seed)


def parameters(network: AgentNetwork) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in network.named_parameters()}


def fill(replay: Replay, steps: int, shape, dtype=np.uint8, seed=0) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        frame = rng.integers(0, 2, shape).astype(dtype)
        replay.add(frame, int(rng.integers(ACTIONS)), float(rng.standard_normal()), terminated=rng.random() < 0.05)


def make_replay(**kwargs) -> Replay:
    replay = Replay(capacity=500, frame_shape=SHAPES["grid"], frame_dtype=np.uint8, stack=1, k=2, **kwargs)
    fill(replay, 200, SHAPES["grid"])
    return replay


@pytest.mark.parametrize(
    ("encoder", "gradient", "backup", "reduce", "spr_weight"),
    list(
        itertools.product(
            ["grid", "mlp"], ["sampled", "expected"], ["sampled", "expected", "greedy"], [True, False], [5.0, 0.0]
        )
    ),
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
    learner = make_learner(optimiser={"tau": 0.1})
    before = parameters(learner.target)
    learner.update(make_batch(SHAPES["grid"]), beta=0.01)
    online, after = parameters(learner.online), parameters(learner.target)
    for name in before:
        torch.testing.assert_close(after[name], 0.9 * before[name] + 0.1 * online[name])


def test_target_starts_as_a_copy_of_the_online_network():
    learner = make_learner()
    online, target = parameters(learner.online), parameters(learner.target)
    assert all(torch.equal(online[name], target[name]) for name in online)


def test_only_matrices_decay():
    learner = make_learner(optimiser={"learning_rate": 0.0})
    decays = {id(p): group["weight_decay"] for group in learner.optimiser.param_groups for p in group["params"]}
    for name, parameter in learner.online.named_parameters():
        assert decays[id(parameter)] == (0.0 if name.endswith("bias") else 0.1), name


def test_seed_decides_everything():
    totals = []
    for seed in (1, 1, 2):
        learner, replay = make_learner(seed=seed), make_replay()
        for step in range(3):
            learner.learn(replay, step, np.random.default_rng(seed))
        totals.append(parameters(learner.online))
    assert all(torch.equal(totals[0][name], totals[1][name]) for name in totals[0])
    assert not torch.equal(totals[0]["q_projection.weight"], totals[2]["q_projection.weight"])


# --- work done ----------------------------------------------------------------------------------------------


def test_encoder_calls_and_samples_per_update(monkeypatch):
    calls = []
    real = AgentNetwork.encode

    def counting(self, obs):
        calls.append((self is learner.target, obs.shape[0]))
        return real(self, obs)

    monkeypatch.setattr(AgentNetwork, "encode", counting)
    learner = make_learner()
    learner.update(make_batch(SHAPES["grid"]), beta=0.01)
    assert sorted(calls) == [(False, BATCH), (False, BATCH), (True, 3 * BATCH)]


# --- resets -------------------------------------------------------------------------------------------------


def test_reset_mixes_soft_parts_and_replaces_the_rest():
    learner = make_learner(schedule={"shrink": 0.5})
    learner.update(make_batch(SHAPES["grid"]), beta=0.01)
    old, generator = parameters(learner.online), learner.init_generator.get_state()
    learner.reset()
    learner.init_generator.set_state(generator)
    fresh = parameters(learner._fresh_network())
    for name, value in parameters(learner.online).items():
        soft = name.startswith(("encoder.", "transition."))
        want = 0.5 * old[name] + 0.5 * fresh[name] if soft else fresh[name]
        torch.testing.assert_close(value, want)


def test_reset_draws_online_and_target_apart_and_restarts_the_rest():
    learner = make_learner()
    for _ in range(3):
        learner.update(make_batch(SHAPES["grid"]), beta=0.01)
    learner.reset()
    assert not torch.equal(learner.online.q_projection.weight, learner.target.q_projection.weight)
    assert learner.optimiser.state_dict()["state"] == {}
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


@pytest.mark.parametrize(("ratio", "groups"), [(1, 1), (2, 1), (3, 3), (4, 2)])
def test_released_groups_divide_the_replay_ratio(ratio, groups, monkeypatch):
    replay, losses = recorded("released", ratio, monkeypatch)
    assert (len(replay.drawn), len(losses)) == (groups, ratio)


def test_split_cuts_in_order():
    batch = make_batch(SHAPES["grid"], size=2 * BATCH)
    halves = list(split(batch, 2))
    np.testing.assert_array_equal(halves[1].indices, np.arange(BATCH, 2 * BATCH))
    assert torch.equal(torch.cat([half.states for half in halves], 1), batch.states)
    assert torch.equal(torch.cat([half.same_episode for half in halves], 1), batch.same_episode)


# --- devices ------------------------------------------------------------------------------------------------


class FakeNoise(NoNoise):
    """Draws on a device that no generator can be made for here."""

    normal = NoNoise.gumbel

    def integers(self, high, shape):
        return torch.zeros(tuple(shape), dtype=torch.int64, device=self.device)


def meta_learner(monkeypatch) -> Learner:
    """A learner on the meta device: shapes without numbers, and an error wherever a CPU tensor is mixed in."""
    device = torch.device("meta")

    def build(network_config, obs_shape, actions, *, self_prediction, device, generator):
        with device:
            return AgentNetwork(network_config, obs_shape, actions, self_prediction)

    monkeypatch.setattr(learner_module, "build_network", build)
    monkeypatch.setattr(learner_module, "torch_generator", lambda *args, **kwargs: None)
    return Learner(config("impala"), SHAPES["impala"], ACTIONS, device=device, noise=FakeNoise(device))


def test_update_and_reset_stay_on_their_device(monkeypatch):
    learner = meta_learner(monkeypatch)
    update = learner.update(make_batch(SHAPES["impala"], device="meta"), beta=0.01)
    learner.reset()
    networks = (*learner.online.parameters(), *learner.target.parameters())
    terms = (update.terms.total, update.terms.td, update.terms.target, update.grad_norm)
    assert {tensor.device.type for tensor in (*networks, *terms)} == {"meta"}


def test_a_tensor_on_another_device_is_noticed(monkeypatch):
    learner = meta_learner(monkeypatch)
    learner.atoms = torch.linspace(-10, 10, 11, device="cpu")
    with pytest.raises((RuntimeError, NotImplementedError), match=r"device|meta"):
        learner.update(make_batch(SHAPES["impala"], device="meta"), beta=0.01)


def test_dtypes_are_explicit():
    learner = make_learner(optimiser=dict(vars(OptimiserConfig())))
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


# --- how it is computed -------------------------------------------------------------------------------------


def shared_and_apart(n: int) -> tuple[list[float], list[int]]:
    """Totals of an update on real windows with and without sharing, and the states that the target encodes."""
    totals, encoded = [], []
    for share in (False, True):
        learner = make_learner(compute={"share_bootstrap": share}, loss={"augment": False})
        real = learner.target.encode

        def counting(obs, real=real):
            encoded.append(obs.shape[0])
            return real(obs)

        learner.target.encode = counting  # type: ignore[method-assign]
        batch = make_replay().sample(BATCH, n, 0.99, np.random.default_rng(0))
        totals.append(learner.update(batch, beta=0.01).terms.total.item())
    return totals, encoded


def test_sharing_the_bootstrap_state_saves_a_pass_and_changes_nothing_else():
    totals, encoded = shared_and_apart(n=2)
    assert totals[1] == pytest.approx(totals[0], rel=1e-5)
    assert encoded == [3 * BATCH, 2 * BATCH]


def test_a_bootstrap_state_beyond_the_predicted_ones_is_not_shared():
    totals, encoded = shared_and_apart(n=3)
    assert totals[0] == totals[1]
    assert encoded == [3 * BATCH, 3 * BATCH]
