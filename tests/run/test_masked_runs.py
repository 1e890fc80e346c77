"""Runs on an environment that raises at an illegal action: training, evaluation, films, resuming, exports, agents."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from resuming import differing, load_checkpoint, newest, outcome, short_config, stop_at, train_telling

from sacbbf import SACBBF, Agent, UsageError
from sacbbf.agents.presets import change
from sacbbf.cli import run
from sacbbf.disk.lease import state_folder
from sacbbf.envs.base import EnvError
from sacbbf.envs.make import make_env
from sacbbf.errors import RunFailed
from sacbbf.learner.losses import entropy, mask_illegal
from sacbbf.policy import NetworkPolicy
from sacbbf.run.diagnostics import activity, network_metrics
from sacbbf.run.evaluate import ROWS, Plan, evaluate
from sacbbf.run.loop import Training
from sacbbf.run.policy_file import load_policy, read_layout
from sacbbf.run.settings import CheckpointConfig, EvalConfig, resolve
from sacbbf.run.watching import PANEL, PAPER, Judge, Moment, Painter, play
from toys import Choosy, run_quietly, toy_config

pytestmark = pytest.mark.usefixtures("hurried", "armed")
CPU = torch.device("cpu")
AGENTS = ["sac-bbf", "sac-discrete", "bbf", "drq-eps", "der", "random", "blind"]
SETTINGS = {"network.hidden_dim": 16, "network.width_scale": 0.25, "schedule.warmup": 64, "schedule.n_start": 5}


def small(agent="sac-bbf", toy="Choosy", steps=100, **fields):
    config, _ = resolve(f"toys/{toy}-v0", size="tiny", steps=steps, agent=agent)
    tiny = {"network": {"hidden_dim": 16, "width_scale": 0.25}, "schedule": {"warmup": 64}}
    evaluation = EvalConfig(every=80, every_episodes=2, episodes=8, baselines=agent == "sac-bbf")
    return replace(config, settings=change(config.settings, tiny), eval=evaluation, log_every=10, **fields)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run on Choosy. Not to be written to."""
    out = tmp_path_factory.mktemp("runs") / "masked"
    run_quietly(small(diagnose_every=50), out)
    return out


@pytest.fixture(scope="module")
def network(finished):
    return load_policy(finished / "policy.safetensors", CPU)


# --- training and evaluation ---


@pytest.mark.parametrize("agent", AGENTS)
def test_no_agent_takes_an_illegal_action(agent, tmp_path):
    changes = {"acting": {"epsilon_eval": 0.3}} if agent in ("bbf", "drq-eps") else {}
    config = small(agent, toy="Told" if agent == "sac-bbf" else "Choosy")
    result = run_quietly(replace(config, settings=change(config.settings, changes)), tmp_path / "run")
    assert result["finished"] and len(result["returns"]) == 8  # the toy would have raised


@pytest.mark.parametrize("flags", [[], ["--greedy"], ["--critic"]])
def test_no_way_to_evaluate_takes_an_illegal_action(flags, finished, capsys):
    assert run(["evaluate", str(finished), "--episodes", "6", *flags]) == 0
    assert "mean" in capsys.readouterr().out


def test_episodes_do_not_depend_on_how_many_are_played_side_by_side(network):
    def scores(parallel):
        plan = Plan(9, seed=1, stack=1, epsilon=0.2, parallel=parallel)
        policy = NetworkPolicy(network, CPU, ROWS)
        return [record.score for record in evaluate(policy, lambda: make_env("toys/Choosy-v0"), plan)]

    assert scores(1) == scores(4)


def test_warm_up_draws_legal_actions_evenly():
    training = Training(small(steps=4_000))
    training.config = replace(
        training.config, settings=change(training.config.settings, {"schedule": {"warmup": 9_999}})
    )
    pairs = np.zeros((6, 2))  # by the number of legal actions: how often the first of them was taken
    for _ in range(1_500):
        mask, before = training.mask, training.replay.steps_added
        training.advance(measure=False)
        action = int(training.replay.ring.actions[before])
        pairs[int(mask.sum())] += (action == np.flatnonzero(mask)[0], 1)
    for legal in (1, 2, 3):
        assert pairs[legal, 0] / pairs[legal, 1] == pytest.approx(1 / legal, abs=0.08)


def test_diagnostics_see_legal_actions_alone():
    training = Training(small())
    for _ in range(80):
        training.advance(measure=False)
    steps = np.arange(10, 60)
    _, _, logits = activity(training.learner, training.replay, steps)
    masks = training.replay.masks(steps)
    assert torch.equal(logits, mask_illegal(logits, masks))
    found = network_metrics(training.learner, training.replay, steps)
    assert found["entropy_mean"] == pytest.approx(entropy(logits).mean().item())
    assert found["entropy_min"] == 0.0  # a state with one legal action


def test_an_environment_without_masks_cannot_go_on_where_one_with_masks_was():
    for first, second in (("Choosy", "Identity"), ("Identity", "Choosy")):
        training = Training(toy_config(first, 100))
        training.advance(measure=False)
        with pytest.raises(EnvError, match="of legal actions, the environment before had"):
            training.set_env(make_env(f"toys/{second}-v0"), toy_config(second, 100))


# --- stop and resume ---


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Outcome of short_config on Told, without a stop."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    train_telling(short_config("Told"), out)
    return outcome(out)


@pytest.mark.parametrize("step", [23, 64, 75, 84])
def test_a_run_with_masks_that_was_stopped_ends_bit_for_bit_as_without_a_stop(step, whole, tmp_path):
    stop_at(step, short_config("Told"), tmp_path)
    result, said = train_telling(short_config("Told"), tmp_path)
    assert result["finished"] and result["resumes"] == 1 and "warning" not in said
    assert differing(outcome(tmp_path), whole) == []


def test_a_checkpoint_holds_masks_just_where_there_are_some(tmp_path):
    for toy, there in (("Choosy", True), ("Identity", False)):
        config = short_config(toy, checkpoint=CheckpointConfig(every=28, keep=True))
        stop_at(70, config, tmp_path / toy)
        training = load_checkpoint(tmp_path / toy, config)
        assert (training.replay.ring.masks is not None) == (training.mask is not None) == there
        names = json.loads((state_folder(tmp_path / toy) / "step-000000070.json").read_text())["parts"]
        assert set(names) == {"learner", "progress"} and newest(tmp_path / toy).step == 70


def test_a_checkpoint_without_masks_is_refused_where_there_are_some_now(tmp_path, monkeypatch):
    """As one is that was written before masks were known."""
    with monkeypatch.context() as patch:
        patch.setattr("sacbbf.envs.masks.Masks.read", lambda self, info, over: None)
        patch.setattr(Choosy, "act", lambda self, action: (self.begin(), (0.0, False))[1])
        stop_at(70, short_config("Choosy"), tmp_path)
    with pytest.raises(RunFailed, match=r"must hold .*masks"):
        train_telling(short_config("Choosy"), tmp_path)


def test_an_episode_whose_masks_do_not_come_back_is_cut_off(tmp_path, monkeypatch):
    stop_at(75, short_config("Told"), tmp_path)
    begin = Choosy.begin

    def other(self):
        begin(self)
        self.legal[:] = True

    monkeypatch.setattr(Choosy, "begin", other)
    assert load_checkpoint(tmp_path, short_config("Told")).actions == []


# --- films ---


class Pictured(Choosy):
    """Choosy with pictures."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - Gymnasium's own form
    render_mode = "rgb_array"

    def render(self):
        return np.zeros((4, 4, 3), np.uint8)


def test_a_film_shows_which_actions_are_illegal(network):
    judge = Judge(network, 1.0, CPU)
    moments = list(play(judge, make_env(Pictured(), render=True), Plan(1, seed=0, stack=1)))
    assert len(moments) == 9
    for moment in moments:
        assert moment.mask[moment.action]
        assert (moment.probabilities[~moment.mask] == 0).all() and np.isfinite(moment.value)
        assert moment.probabilities.sum() == pytest.approx(1.0)


def test_a_panel_has_a_word_in_place_of_an_illegal_actions_bar():
    config = small()
    moment = Moment(np.zeros((8, 8, 3), np.uint8), np.array([0.0, 1.0]), 1, 0.0, 0.0, 0)
    free, masked = (
        Painter(config, ("a", "b")).draw(each)[:, -PANEL:]
        for each in (moment, replace(moment, mask=np.array([False, True])))
    )
    assert np.array_equal(free[184:], masked[184:])  # the legal one
    assert (masked[162:184, 150:200] != PAPER).any(-1).sum() > 60 and not (masked[162:184, 220:] != PAPER).any()


# --- for others ---


def test_a_policy_says_whether_it_needs_masks(finished, finished_run):
    assert read_layout(finished / "policy.safetensors").masked
    assert not read_layout(finished_run.policy).masked


def test_onnx_takes_masks_and_gives_the_same_numbers(finished, network, tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    assert run(["export", str(finished), "--onnx", str(tmp_path / "policy.onnx")]) == 0
    session = runtime.InferenceSession(tmp_path / "policy.onnx", providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()] == ["states", "masks"]
    rng = np.random.default_rng(0)
    for batch in (1, 7):
        states, masks = rng.random((batch, 5), np.float32), rng.random((batch, 5)) < 0.5
        masks[:, 0] = True
        (found,) = session.run(None, {"states": states, "masks": masks})
        np.testing.assert_allclose(found, NetworkPolicy(network, CPU, ROWS).logits(states, masks), atol=1e-5)
        assert (found[~masks] == -np.inf).all()


def test_an_agent_predicts_legal_actions_and_asks_for_masks(tmp_path):
    agent = SACBBF("toys/Choosy-v0", settings=SETTINGS).learn(90)
    for one in (agent, Agent.load(agent.save(tmp_path / "kept"))):
        env = one.make_env()
        state, info = env.reset(seed=0)
        over = False
        while not over:
            action, _ = one.predict(state, action_masks=info["action_mask"])
            state, _, over, _, info = env.step(int(action))
        assert len(one.evaluate(2).scores) == 2
        with pytest.raises(UsageError, match="action_masks is not given"):
            one.predict(state)
        masks = np.eye(5, dtype=np.bool_)
        actions, _ = one.predict(np.zeros((5, 5), np.float32), deterministic=True, action_masks=masks)
        assert actions.tolist() == [0, 1, 2, 3, 4]
        with pytest.raises(UsageError, match=r"action_masks has shape \(4,\): must be \(5,\)"):
            one.predict(state, action_masks=[1, 1, 1, 1])


def test_an_agent_heeds_masks_that_its_environment_does_not_have():
    agent = SACBBF("toys/Identity-v0", settings=SETTINGS)
    assert not agent.masked
    state = np.eye(5, dtype=np.float32)[0]
    assert {int(agent.predict(state, action_masks=[0, 0, 1, 0, 0])[0]) for _ in range(5)} == {2}
    assert agent.predict(state)[0].shape == ()
