"""Learning goes on: further calls, new cycles, after saving and loading, from weights alone."""

from __future__ import annotations

import json
import os
import signal
import warnings

import numpy as np
import pytest
from small_api import FLAGS, SETTINGS, STEPS, Spy, kept, make

from sacbbf import BBF, SACBBF, Agent, UsageError
from sacbbf.cli import run
from sacbbf.disk.lease import state_folder
from sacbbf.run.checkpoint import Checkpoints, read_manifests
from sacbbf.run.settings import Horizon, from_toml
from sacbbf.run.state import read_training
from toys import IDENTITY, Corridor, Identity, Noisy

RESETTING = {"schedule.reset_every": 20, "schedule.beta_start": 0.5}


def everything(agent):
    """All that learning has brought, as bytes and numbers; speed and seconds are no part of it."""
    parts, numbers = read_training(agent._training)
    arrays = {f"{part} {name}": array.tobytes() for part, held in parts.items() for name, array in held.items()}
    ring = agent._training.replay.ring
    rows = agent.steps
    columns = {name: getattr(ring, name)[:rows].tobytes() for name in ("actions", "rewards", "truncated", "terminated")}
    return arrays | columns | {"numbers": json.dumps(numbers, sort_keys=True, default=str)}


@pytest.fixture(scope="module")
def whole():
    """An agent that learned without a stop, resets and all."""
    return everything(make(settings=RESETTING).learn(STEPS))


# --- further calls ---


def test_every_call_learns_as_many_steps_more():
    env = Spy(Identity())
    agent = make(env).learn(30).learn(30)
    assert agent.steps == env.steps == agent.num_timesteps == 60
    assert (agent.config.steps, agent.config.horizon) == (60, Horizon(0, 30))
    agent.learn(total_timesteps=1)
    assert agent.steps == 61 and agent.config.horizon == Horizon(0, 30)


def test_a_stop_and_further_calls_up_to_the_announced_steps_change_no_bit(whole):
    agent = make(settings=RESETTING)
    agent.learn(STEPS, callback=lambda agent: agent.steps < 41)
    agent.learn(20)
    assert (agent.steps, agent.config.steps) == (61, STEPS)
    agent.learn(30).learn()
    assert everything(agent) == whole


def test_steps_can_be_announced_ahead(whole):
    agent = make(settings=RESETTING | {"steps": STEPS})
    for steps in (70, 50, 40):
        agent.learn(steps)
    assert everything(agent) == whole
    assert make(settings={"steps": 12}).learn().learn(3).config.horizon == Horizon(0, 12)


def test_schedules_keep_their_end_values_beyond_the_announced_steps():
    agent = make(size="tiny-paper", settings=RESETTING | {"log_every": 1}).learn(100)
    at_end, resets = dict(agent.metrics), []
    learner = agent._training.learner
    reset = learner.reset
    learner.reset = lambda: (resets.append(agent.steps), reset())
    seen = []
    agent.learn(60, callback=lambda agent: seen.append((agent.metrics["schedule/beta"], agent.metrics["schedule/n"])))
    assert at_end["schedule/beta"] == 0.0 and {beta for beta, _ in seen} == {0.0}
    assert {n for _, n in seen} == {3} and resets == []


def test_a_new_cycle_begins_schedules_anew_and_keeps_what_was_learned():
    agent = make(size="tiny-paper", settings=RESETTING | {"log_every": 1}).learn(100)
    training, network, rows = agent._training, agent.network, agent._training.replay.ring.rewards[:100].copy()
    resets, reset, betas, losses = [], training.learner.reset, [], []
    training.learner.reset = lambda: (resets.append(agent.num_timesteps), reset())
    agent.learn(
        60,
        reset_num_timesteps=True,
        callback=lambda agent: (betas.append(agent.metrics["schedule/beta"]), losses.append(agent.metrics))[0],
    )
    assert agent._training is training and agent.network is network
    assert (agent.steps, agent.num_timesteps, agent.config.horizon) == (160, 60, Horizon(100, 60))
    assert np.array_equal(training.replay.ring.rewards[:100], rows)
    assert losses[0]["schedule/n"] == 5 and betas[0] == 0.5 and betas[-1] == 0.0
    assert resets == [20] and training.learner.updates == 160 - 64
    agent.learn(10)
    assert agent.num_timesteps == 70 and agent.config.horizon == Horizon(100, 60)
    assert make().learn(20, reset_num_timesteps=True).config.horizon == Horizon()


def test_a_new_cycle_is_as_long_as_the_last_unless_said():
    agent = make().learn(30).learn(reset_num_timesteps=True)
    assert (agent.steps, agent.num_timesteps) == (60, 30)


def test_an_interrupt_leaves_the_agent_whole(whole, tmp_path):
    agent = make(settings=RESETTING)

    def interrupt(agent):
        if agent.steps == 73:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(STEPS, callback=interrupt)
    assert agent.steps == 73 and signal.getsignal(signal.SIGINT) is before
    assert everything(Agent.load(agent.save(tmp_path / "agent", replay=True)).learn()) == whole


@pytest.mark.parametrize("wrong", [0, -3, 2.5, True, "10", np.int64(0)])
def test_bad_numbers_of_steps_change_nothing(wrong):
    agent = make().learn(5)
    with pytest.raises(UsageError, match=r"total_timesteps = .*: must be a whole number of at least 1"):
        agent.learn(wrong)
    assert (agent.steps, agent.config.steps) == (5, 5)


@pytest.mark.parametrize("words", [{"eval_every": -1}, {"eval_every": 2.0}, {"eval_episodes": 0, "eval_every": 2}])
def test_bad_evaluation_words_are_refused_at_once(words):
    with pytest.raises(UsageError, match=f"{next(iter(words))} = "):
        make().learn(5, **words)


# --- saved with its replay ---


@pytest.mark.parametrize("stop", [7, 77, 120])
def test_saved_loaded_and_gone_on_is_as_never_stopped(stop, whole, tmp_path):
    first = make(settings=RESETTING)
    first.learn(STEPS, callback=lambda agent: agent.steps < stop)
    path = first.save(tmp_path / "agent", replay=True)
    agent = SACBBF.load(path)
    assert (agent.steps, agent.config) == (stop, first.config)
    assert agent.evaluate(3) == first.evaluate(3)
    assert everything(agent) == everything(first)
    assert everything(agent.learn()) == everything(first.learn()) == whole


def test_saved_in_mid_episode_from_a_function_too(tmp_path):
    first = make(Identity).learn(77)
    path = first.save(tmp_path / "agent", replay=True)
    with pytest.raises(UsageError, match=r"give it again, as in load\(path, env=\.\.\.\)"):
        Agent.load(path)
    assert everything(Agent.load(path, env=Identity).learn(23)) == everything(first.learn(23))


def test_an_agent_beyond_its_announced_steps_and_in_a_new_cycle_goes_on_too(tmp_path):
    first = make(settings=RESETTING).learn(70).learn(20).learn(50, reset_num_timesteps=True)
    agent = Agent.load(first.save(tmp_path / "agent", replay=True))
    assert (agent.steps, agent.num_timesteps) == (140, 50)
    assert everything(agent.learn(15)) == everything(first.learn(15))


def test_it_is_saved_anew_with_and_without(tmp_path, monkeypatch):
    agent = make().learn(70)
    path = agent.save(tmp_path / "agent", replay=True)
    agent.learn(10)
    agent.save(path, replay=True)
    assert Agent.load(path).steps == 80
    assert len(list(read_manifests(state_folder(path)))) == 1
    same = everything(agent)
    agent.save(path, replay=True)  # of the same step
    assert everything(Agent.load(path)) == same

    def fail(*args):
        raise OSError("full")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="full"):
        patch.setattr(Checkpoints, "_write", fail)
        agent.save(path, replay=True)
    assert everything(Agent.load(path)) == same
    agent.save(path)
    assert state_folder(path) is None
    assert sorted(found.name for found in path.iterdir()) == ["config.toml", "policy.safetensors"]
    assert Agent.load(path).steps == 0


def test_what_was_kept_can_be_left_or_is_named_if_damaged(tmp_path):
    path = make().learn(70).save(tmp_path / "agent", replay=True)
    assert Agent.load(path, replay=False).steps == 0
    next(state_folder(path).glob("replay-*")).write_bytes(b"?")
    with pytest.raises(UsageError, match=r"cannot be used \(.*replay-.*\); load\(path, replay=False\)"):
        Agent.load(path)
    assert Agent.load(path, replay=False).evaluate(1).scores


def test_resume_takes_up_what_was_saved(whole, tmp_path):
    agent = make(settings=RESETTING | {"eval.episodes": 3, "checkpoint.keep": True, "eval.baselines": False})
    agent.learn(STEPS, callback=lambda agent: agent.steps < 77)
    path = agent.save(tmp_path / "agent", replay=True)
    assert run(["resume", str(path), "--quiet"]) == 0
    result = json.loads((path / "result.json").read_text())
    assert (result["steps"], result["finished"]) == (STEPS, True)
    assert everything(Agent.load(path)) == whole
    with pytest.raises(UsageError, match="holds a run"):
        agent.save(path, replay=True)


def test_a_run_that_kept_its_state_goes_on_here_as_there(tmp_path):
    out = tmp_path / "run"
    words = ["--steps", "70", "--seed", "3", "--eval.episodes", "3", "--eval.no-baselines", "--checkpoint.keep"]
    assert run(["train", IDENTITY, "--out", str(out), *words, *FLAGS, "--quiet"]) == 0
    here = Agent.load(out).learn(20)
    assert run(["resume", str(out), "--steps", "+20", "--quiet"]) == 0
    assert (here.steps, from_toml(out / "config.toml").steps) == (90, 90)
    assert kept(here, tmp_path / "here") == (out / "policy.safetensors").read_bytes()
    assert everything(Agent.load(out)) == everything(here) == everything(make().learn(70).learn(20))


def test_a_saved_agent_that_has_not_learned_yet_learns_as_a_new_one(tmp_path):
    path = make().save(tmp_path / "agent", replay=True)
    agent = Agent.load(path).learn(100)
    assert (agent.steps, agent.config.steps) == (100, 100)
    assert agent.config.settings == make().learn(100).config.settings


def test_an_environment_that_does_not_repeat_itself_is_told(tmp_path):
    path = make(lambda: Noisy(), settings={"schedule.reset_every": 0}).learn(77).save(tmp_path / "agent", replay=True)
    with pytest.warns(UserWarning, match="did not repeat episode 7, so it counts as cut off"):
        agent = Agent.load(path, env=lambda: Noisy())
    assert agent.learn(10).steps == 87


# --- in another environment, and from weights alone ---


def test_what_was_learned_goes_on_in_another_environment(tmp_path):
    first = make().learn(77)
    path = first.save(tmp_path / "agent", replay=True)
    spy = Spy(Identity())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent = Agent.load(path, env=spy)
    assert (agent.steps, spy.steps, agent.config.env) == (77, 0, "custom:Spy(Identity)")
    assert np.flatnonzero(agent._training.replay.ring.truncated[70:77]).tolist() == [6]
    first.set_env(Spy(Identity()))
    assert everything(agent.learn(23)) == everything(first.learn(23))
    assert spy.steps == 23


def test_weights_alone_are_fine_tuned_without_resets(tmp_path):
    first = make(settings=RESETTING).learn(100)
    path = first.save(tmp_path / "agent")
    agent = Agent.load(path, env=Identity)
    acting = {name: value.clone() for name, value in agent.network.state_dict().items()}
    assert agent.steps == 0
    agent.learn(64)  # of which all are warm-up: nothing is learned yet
    assert (agent.config.steps, agent.config.settings.schedule.reset_every) == (64, 0)
    found = agent.network.state_dict()
    assert all(bool((found[name] == value).all()) for name, value in acting.items())
    agent.learn(20)
    assert any(bool((agent.network.state_dict()[name] != value).any()) for name, value in acting.items())
    again = Agent.load(agent.save(tmp_path / "tuned", replay=True), env=Identity)
    assert everything(again.learn(5)) == everything(agent.learn(5))


def test_weights_are_not_lost_before_the_first_step(tmp_path):
    path = make().learn(100).save(tmp_path / "agent")
    agent = Agent.load(path)
    acting = kept(agent, tmp_path / "before")
    second = Agent.load(agent.save(tmp_path / "again", replay=True))
    second.learn(30)
    assert kept(second, tmp_path / "after") == acting


@pytest.mark.parametrize(("other", "message"), [(Corridor, r"states of shape \(12,\)"), ("CartPole-v1", r"\(4,\)")])
def test_an_environment_of_other_spaces_is_refused(other, message, tmp_path):
    for replay in (False, True):
        path = make().save(tmp_path / str(replay), replay=replay)
        with pytest.raises(UsageError, match=message):
            Agent.load(path, env=other)


def test_another_agent_is_refused(tmp_path):
    path = make().save(tmp_path / "agent", replay=True)
    with pytest.raises(UsageError, match="holds the agent 'sac-bbf': must be bbf"):
        BBF.load(path)
    assert SETTINGS["log_every"] == Agent.load(path).config.log_every
