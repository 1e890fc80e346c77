"""Who acts and how: epsilon in training and evaluation, and which network plays, is judged and is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sacbbf.agents.ladder import RUNGS
from sacbbf.agents.presets import change
from sacbbf.cli import run
from sacbbf.envs.make import make_env
from sacbbf.policy import FixedPolicy, choose
from sacbbf.run import loop, scoring
from sacbbf.run import train as train_module
from sacbbf.run.evaluate import Plan, evaluate
from sacbbf.run.loop import Training
from sacbbf.run.policy_file import load_policy
from sacbbf.run.records import RunDirectory
from sacbbf.run.settings import EvalConfig, RunConfig, resolve
from sacbbf.seeding import numpy_generator
from toys import run_quietly

GREEDY = np.array([-np.inf, 0.0, -np.inf, -np.inf], np.float32)  # what an agent without a policy says


def small(agent, toy="Catch", steps=68, changes=None, **of_eval) -> RunConfig:
    """A run of an agent with the smallest networks; learning starts at step 64."""
    config, _ = resolve(f"toys/{toy}-v0", size="tiny-paper", steps=steps, agent=agent)
    tiny = {"network": {"hidden_dim": 16, "width_scale": 0.25}, "schedule": {"warmup": 64}}
    settings = change(change(config.settings, tiny), changes or {})
    return replace(config, settings=settings, eval=EvalConfig(**{"episodes": 3, "every_episodes": 2, **of_eval}))


# --- epsilon ---


@pytest.mark.parametrize("greedy", [True, False])
def test_epsilon_is_the_share_of_actions_drawn_from_all(greedy):
    generator = numpy_generator(0, "draws")
    actions = [choose(GREEDY, generator, greedy, epsilon=0.4) for _ in range(4_000)]
    shares = np.bincount(actions, minlength=4) / 4_000
    np.testing.assert_allclose(shares, [0.1, 0.7, 0.1, 0.1], atol=0.03)  # 4 standard errors of the largest


def test_an_epsilon_of_one_is_chance():
    generator = numpy_generator(0, "draws")
    shares = np.bincount([choose(GREEDY, generator, epsilon=1.0) for _ in range(4_000)], minlength=4) / 4_000
    np.testing.assert_allclose(shares, np.full(4, 0.25), atol=0.03)


def test_an_epsilon_of_zero_draws_nothing():
    generator = numpy_generator(0, "draws")
    before = generator.bit_generator.state
    assert choose(GREEDY, generator, greedy=True, epsilon=0.0) == 1
    assert generator.bit_generator.state == before
    rows, oracle = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32), numpy_generator(0, "draws")
    drawn = [choose(row, generator, epsilon=0.0) for row in rows]
    assert drawn == [int(np.argmax(row + oracle.gumbel(size=4))) for row in rows]


def test_epsilon_falls_after_the_warm_up(monkeypatch):
    seen = []

    def noting(logits, generator, greedy=False, epsilon=0.0, mask=None):
        seen.append(epsilon)
        return choose(logits, generator, greedy, epsilon, mask)

    monkeypatch.setattr(loop, "choose", noting)
    changes = {"acting": {"epsilon_start": 1.0, "epsilon_end": 0.2, "epsilon_decay": 4}}
    training = Training(small("bbf", steps=70, changes=changes))
    for _ in range(70):
        training.advance(measure=False)
    assert seen == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2, 0.2])  # of steps 64 to 69


def test_an_evaluation_plays_its_share_of_random_actions():
    plan = Plan(episodes=40, seed=0, stack=1, epsilon=0.4)
    always_right = FixedPolicy([0.0, 0.0, 1.0, 0.0])
    records = evaluate(always_right, lambda: make_env("toys/Favourite-v0"), plan)
    assert np.mean([record.score for record in records]) == pytest.approx(7.0, abs=0.6)  # 10 * (0.6 + 0.1)
    assert evaluate(always_right, lambda: make_env("toys/Favourite-v0"), replace(plan, parallel=3)) == records


@pytest.fixture
def plans(monkeypatch):
    """Plans of all evaluations that follow, with the policies that play them."""
    noted = []

    def noting(policy, make, plan, on_episode=None):
        noted.append((plan, policy))
        return evaluate(policy, make, plan, on_episode)

    monkeypatch.setattr(scoring, "evaluate", noting)
    monkeypatch.setattr("sacbbf.run.evaluate_run.evaluate", noting)
    return noted


def test_every_evaluation_of_an_agent_has_its_epsilon_and_that_of_a_baseline_none(plans, tmp_path):
    changes = {"acting": {"epsilon_eval": 0.25}}
    run_quietly(small("bbf", steps=20, changes=changes, every=10, baselines=True), tmp_path / "run")
    assert [(plan.phase, plan.epsilon) for plan, _ in plans] == [
        ("interval", 0.25),
        ("evaluate", 0.25),
        ("evaluate", 0.0),  # chance
        ("evaluate", 0.0),  # the blind mix
    ]
    plans.clear()
    assert run(["evaluate", str(tmp_path / "run"), "--episodes", "2"]) == 0
    assert [plan.epsilon for plan, _ in plans] == [0.25]


# --- who acts ---


@pytest.mark.parametrize("agent", ["sac-bbf", "der"])
@pytest.mark.parametrize("network", ["online", "target"])
def test_the_network_that_acts_is_evaluated_and_saved(agent, network, plans, tmp_path, monkeypatch):
    made = []

    class Noted(Training):
        def __init__(self, config, **words):
            super().__init__(config, **words)
            made.append(self)

    monkeypatch.setattr(train_module, "Training", Noted)
    still = {"optimiser": {"tau": 0.0, "target_every": 1}, "acting": {"network": network}}  # the target never moves
    run_quietly(small(agent, changes=still, every=66), tmp_path / "run")
    learner = made[0].learner
    acting, other = (learner.online, learner.target) if network == "online" else (learner.target, learner.online)
    assert made[0].actor.network is acting
    assert [policy.policy.network is acting for _, policy in plans] == [True, True]
    assert all(policy.policy.noise is None for _, policy in plans)  # evaluated without noise, whatever the agent
    saved = load_policy(RunDirectory(tmp_path / "run").policy, torch.device("cpu")).state_dict()
    assert all(torch.equal(value, acting.state_dict()[name]) for name, value in saved.items())
    assert any(not torch.equal(value, other.state_dict()[name]) for name, value in saved.items())


@pytest.mark.parametrize("agent", RUNGS)
def test_a_saved_agent_plays_its_final_evaluation_again(agent, tmp_path, capsys):
    result = run_quietly(small(agent), tmp_path / "run")
    assert result["updates"] == 4
    assert run(["evaluate", str(tmp_path / "run"), "--episodes", "3"]) == 0
    returns = " ".join(f"{score:g}" for score in result["returns"])
    assert f"returns {returns}" in capsys.readouterr().out


def test_only_noisy_agents_draw_noise_for_acting():
    for agent, draws in (("der", True), ("bbf", False)):
        training = Training(small(agent))
        before = training.noise.generator.get_state()
        for _ in range(66):
            training.advance(measure=False)
        assert torch.equal(training.noise.generator.get_state(), before) != draws
