"""Environments as names, objects and functions: an agent trains on what it was given, and plays beside it."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit, TransformReward
from small_api import SETTINGS, STEPS, Spy, Strict, kept, make

from sacbbf import SACBBF, UsageError
from sacbbf.run.settings import from_toml
from toys import IDENTITY, Corridor, Favourite, Identity, Noisy


def test_an_object_is_trained_itself_with_its_wrappers():
    spy = Spy(gymnasium.make("CartPole-v1"))
    agent = SACBBF(TimeLimit(spy, 5)).learn(200)
    assert spy.steps == agent.steps == 200
    assert max(spy.lengths) == 5
    assert "the object itself" in repr(agent) and "Spy does not record its arguments" in agent.source.description


def test_a_spec_of_its_own_limits_what_copies_play():
    agent = make(TransformReward(TimeLimit(gymnasium.make("CartPole-v1"), 4), lambda reward: 3 * reward))
    assert "copies of the object, made from its spec with its wrappers" in repr(agent)
    assert set(agent.evaluate(6).scores) == {12.0}


def test_name_object_and_function_learn_the_same(tmp_path):
    agents = [make(IDENTITY), make(gymnasium.make(IDENTITY)), make(lambda: gymnasium.make(IDENTITY))]
    found = {kept(agent.learn(100), tmp_path / str(number)) for number, agent in enumerate(agents)}
    assert len(found) == 1
    assert {agent.config.env for agent in agents} == {IDENTITY}


def test_an_object_that_nobody_registered_learns_and_is_evaluated():
    env = Identity()
    agent = make(env).learn(90)
    assert agent.config.env == "custom:Identity" and len(agent.evaluate(3).scores) == 3
    assert agent.source.shared and "no copy can be made" in agent.source.description
    agent.learn(10)
    assert agent.steps == 100


def test_an_object_is_given_back_between_episodes():
    """Whatever its owner does with it in between, what is learned is the same, and no step joins two episodes."""
    networks = []
    for meddle in (False, True):
        env = Identity()
        agent = make(env).learn(77)
        training = agent._training
        assert training is not None and bool(training.replay.ring.truncated[76])
        if meddle:
            env.reset(seed=8)
            for _ in range(4):
                env.step(0)
        agent.learn(23)
        assert training.episodes == 11 and len(training.actions) == 0  # 7 whole ones and 7 steps; 2 and 3 steps
        networks.append([value.numpy().tobytes() for value in agent.network.state_dict().values()])
    assert networks[0] == networks[1]


def test_evaluation_on_the_only_object_cuts_the_episode_off():
    spy = Spy(Identity())
    lengths = []
    agent = make(spy)
    agent.learn(40, callback=lambda agent: agent.steps != 25 or bool(agent.evaluate(2)))
    lengths = [length for length in spy.lengths if length]
    assert lengths == [10, 10, 5, 10, 10, 10, 5]
    truncated = agent._training.replay.ring.truncated[:40]
    assert np.flatnonzero(truncated).tolist() == [9, 19, 24, 34, 39]


def test_a_played_object_leaves_learning_alone_where_there_are_copies(tmp_path):
    plain = make(gymnasium.make(IDENTITY)).learn(STEPS)
    evaluated = make(gymnasium.make(IDENTITY)).learn(STEPS, eval_every=33, eval_episodes=2)
    assert kept(plain, tmp_path / "plain") == kept(evaluated, tmp_path / "evaluated")


def test_what_is_no_environment_is_refused():
    with pytest.raises(UsageError, match=r"or a function that makes one, got list"):
        SACBBF([1])
    with pytest.raises(UsageError, match="did you mean Pong"):
        SACBBF("Pongg")


def test_settings_of_environments_hold_for_objects():
    agent = make(Identity(), settings={"environment.max_steps": 3})
    assert agent.source.spec.max_steps == 3
    assert agent.learn(20)._training.replay.ring.truncated[:20].tolist() == [step % 3 == 2 for step in range(18)] + [
        False,
        True,
    ]


# --- actions that do not begin at 0 ---


def test_actions_are_the_environments_own():
    agent = make(Strict).learn(100, eval_every=50, eval_episodes=1)  # the environment takes no others
    assert agent.action_space == gymnasium.spaces.Discrete(5, start=3)
    states = np.eye(5, dtype=np.float32)
    assert set(agent.predict(np.repeat(states, 50, axis=0))[0].tolist()) == {3, 4, 5, 6, 7}
    action, _ = agent.predict(states[0], deterministic=True)
    env = Strict()
    env.reset(seed=0)
    env.step(int(action))
    shown = agent.make_env()
    assert shown.action_space == agent.action_space
    shown.reset(seed=0)
    shown.step(7)
    with pytest.raises(UsageError, match=r"action = 0: must be one of Discrete\(5, start=3\)"):
        shown.step(0)


# --- spaces ---


def test_spaces_are_the_environments_own():
    agent = make("CartPole-v1", settings={"stack": 3})
    raw = gymnasium.make("CartPole-v1")
    assert agent.observation_space == raw.observation_space and agent.action_space == raw.action_space
    assert agent.make_env().observation_space.shape == (12,)
    breakout = SACBBF("MinAtar/Breakout-v1")
    assert breakout.observation_space.shape == (10, 10, 4) and breakout.action_space.n == 3
    pong = SACBBF("Pong", size="tiny")
    assert pong.observation_space == pong.make_env().observation_space and pong.action_space.n == 6


def test_an_agent_says_what_it_is():
    agent = make("CartPole-v1", settings={"steps": 2_000}).learn(3)
    assert repr(agent) == (
        "SACBBF('CartPole-v1', size='tiny', seed=3, device='cpu': 3 of 2,000 steps learned; "
        "evaluation plays on further environments made as CartPole-v1)"
    )


# --- another environment ---


def test_learning_goes_on_in_another_environment(tmp_path):
    agent = make().learn(77)
    spy = Spy(Identity())
    agent.set_env(spy)
    assert agent.config.env == "custom:Spy(Identity)" and agent.steps == 77
    agent.learn(23)
    assert spy.steps == 23 and agent.steps == 100
    assert np.flatnonzero(agent._training.replay.ring.truncated[70:100]).tolist() == [6, 16, 26, 29]
    assert from_toml(agent.save(tmp_path / "agent") / "config.toml").env == "custom:Spy(Identity)"
    fresh = make()
    fresh.set_env(Identity)
    assert fresh.learn(10).config.env == "custom:Identity"


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Corridor, r"custom:Corridor: frames of shape \(12,\); must be \(5,\), as in toys/Identity-v0"),
        (Favourite, r"frames of shape \(1,\)"),
        (3, "must be an environment's name"),
    ],
)
def test_an_environment_of_other_spaces_is_refused_and_changes_nothing(other, message):
    agent = make().learn(12)
    for refused in (agent.set_env, lambda env: agent.evaluate(1, env=env)):
        with pytest.raises(UsageError, match=message):
            refused(other)
    assert agent.config.env == IDENTITY and agent.learn(8).steps == 20


def test_evaluation_can_be_had_elsewhere():
    spy = Spy(Identity())
    agent = make()
    assert agent.evaluate(3, env=spy) == agent.evaluate(3) and spy.steps == 30
    with pytest.raises(UsageError, match="frames of shape"):
        agent.evaluate(1, env=Noisy)


@pytest.mark.parametrize("wrap", [lambda env: env, Spy, lambda env: TimeLimit(env, 4)])
def test_the_object_of_training_can_be_named_for_evaluation(wrap):
    """Whether it is copied or played itself: the episode in progress is over, as copying may reset the object."""
    env = gymnasium.make(IDENTITY)
    agent = make(env)
    agent.learn(40, callback=lambda agent: agent.steps != 25 or bool(agent.evaluate(2, env=wrap(env))))
    assert np.flatnonzero(agent._training.replay.ring.truncated[:40]).tolist() == [9, 19, 24, 34, 39]


def test_settings_by_name_stay_when_steps_are_announced():
    agent = make(settings={"schedule.reset_every": 0, "eval.parallel": 2}).learn(3)
    assert agent.config.settings.schedule.reset_every == 0 and agent.config.eval.parallel == 2
    assert agent.config.steps == 3 and agent.config.settings.schedule.warmup == SETTINGS["schedule.warmup"]
