"""Settings that contradict each other are refused by name, value and reason, before anything is written."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest

from sacbbf.agents.config import ActingConfig, AgentConfig
from sacbbf.agents.ladder import RUNGS, change, published
from sacbbf.agents.ranges import all_bounds
from sacbbf.agents.rules import check_agent
from sacbbf.cli import run
from sacbbf.errors import UsageError

NO_POLICY = "but network.policy = False: this agent has no policy"
TWIN = "with network.twin_q (SAC-Discrete) must be"
NO_NEED = {"loss": {"backup": "greedy", "policy_gradient": "sampled"}}  # of a policy

CASES = [
    ("bbf", {"loss": {"backup": "sampled"}}, f"loss.backup = 'sampled' needs a policy, {NO_POLICY}; must be 'greedy'"),
    ("der", {"loss": {"backup": "expected"}}, f"loss.backup = 'expected' needs a policy, {NO_POLICY}"),
    ("spr", {"loss": {"policy_gradient": "expected"}}, "loss.policy_gradient = 'expected' trains a policy"),
    ("bbf", {"loss": {"variance_reduction": False}}, "loss.variance_reduction = False concerns the policy's gradient"),
    (
        "sac-bbf",
        {"loss": {"policy_gradient": "expected", "variance_reduction": False}},
        "loss.variance_reduction = False: with loss.policy_gradient = 'expected', which samples no action",
    ),
    (
        "sac-bbf",
        {"loss": {"returns": "raw", "return_share": 0.7}},
        "loss.return_share = 0.7: scales returns, but loss.returns = 'raw'",
    ),
    (
        "sac-bbf",
        {"schedule": {"temperature": "target", "beta_end": 0.01}},
        "schedule.beta_end = 0.01: with schedule.temperature = 'target', which learns beta, must be 0",
    ),
    ("bbf", {"schedule": {"beta_start": 0.01}}, "schedule.beta_start = 0.01 and beta_end = 0 weigh a policy's entropy"),
    ("drq-eps", {"schedule": {"beta_end": 0.5}}, "schedule.beta_start = 0 and beta_end = 0.5 weigh a policy's entropy"),
    (
        "sac-bbf",
        {"network": {"num_atoms": 1}, "loss": {"backup": "expected"}},
        "loss.backup = 'expected' averages return distributions, but network.num_atoms = 1 makes Q a scalar",
    ),
    ("sac-bbf", {"network": {"noisy": True}}, "network.noisy = True explores for agents without a policy"),
    (
        "spr",
        {"network": {"projection": "deep"}},
        "network.projection = 'deep': with network.noisy, which has layers of",
    ),
    ("bbf", {"network": {"policy_head": "deep"}}, "network.policy_head = 'deep' makes a policy, but"),
    ("sac-discrete", {"loss": {"auxiliary": "mine"}}, f"loss.auxiliary = 'mine': {TWIN} 'none'"),
    ("bbf", {"schedule": {"temperature": "target"}}, "schedule.temperature = 'target' weighs a policy's entropy"),
    ("sac-discrete", {"schedule": {"temperature": "target"}}, f"schedule.temperature = 'target': {TWIN} 'annealed'"),
    ("sr-spr", {"loss": {"spr_steps": 0}}, "loss.spr_steps = 0 with loss.spr_weight > 0: must be at least 1"),
    ("sac-discrete", {"network": {"policy": False}} | NO_NEED, f"network.policy = False: {TWIN} True"),
    ("sac-discrete", {"network": {"num_atoms": 51}}, f"network.num_atoms = 51: {TWIN} 1"),
    ("sac-discrete", {"network": {"dueling": True}}, f"network.dueling = True: {TWIN} False"),
    ("sac-discrete", {"network": {"renormalize": True}}, f"network.renormalize = True: {TWIN} False"),
    ("sac-discrete", {"network": {"noisy": True}}, "network.noisy = True explores for agents without a policy"),
    ("sac-discrete", {"loss": {"spr_weight": 5.0}}, f"loss.spr_weight = 5.0: {TWIN} 0.0"),
    ("sac-discrete", {"loss": {"backup": "sampled"}}, f"loss.backup = 'sampled': {TWIN} 'expected'"),
    ("sac-discrete", {"loss": {"policy_gradient": "sampled"}}, f"loss.policy_gradient = 'sampled': {TWIN} 'expected'"),
    ("sac-discrete", {"loss": {"variance_reduction": False}}, f"loss.variance_reduction = False: {TWIN} True"),
    ("sac-discrete", {"replay": {"prioritised": True}}, f"replay.prioritised = True: {TWIN} False"),
    ("sac-discrete", {"schedule": {"reset_every": 100}}, f"schedule.reset_every = 100: {TWIN} 0"),
    ("sac-discrete", {"schedule": {"beta_start": 0.01}}, f"schedule.beta_start = 0.01: {TWIN} 0.0"),
    ("sac-discrete", {"schedule": {"beta_end": 0.01}}, f"schedule.beta_end = 0.01: {TWIN} 0.0"),
]


def flags(changes):
    """The words that ask for some changes on the command line."""
    for part, settings in changes.items():
        for name, value in settings.items():
            word = name.replace("_", "-")
            if isinstance(value, bool):
                yield f"--{part}.{word}" if value else f"--{part}.no-{word}"
            else:
                yield from (f"--{part}.{word}", str(value))


@pytest.mark.parametrize(("agent", "changes", "message"), CASES)
def test_a_contradiction_is_refused(agent, changes, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        check_agent(change(published(agent), changes))


@pytest.mark.parametrize(("agent", "changes", "message"), CASES)
def test_train_refuses_it_too_and_writes_nothing(agent, changes, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["train", "toys/Identity-v0", "--agent", agent, "--steps", "20", *flags(changes)]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_released_behaviour_is_not_for_sac_discrete(tmp_path, monkeypatch, capsys):
    message = f"behaviour = 'released': {TWIN} 'paper'"
    with pytest.raises(UsageError, match=re.escape(message)):
        check_agent(replace(published("sac-discrete"), behaviour="released"))
    monkeypatch.chdir(tmp_path)
    assert run(["train", "toys/Identity-v0", "--agent", "sac-discrete", "--behaviour", "released"]) == 2
    assert message in capsys.readouterr().err and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("agent", RUNGS)
def test_every_published_agent_is_free_of_them(agent):
    check_agent(published(agent))


def test_every_number_about_acting_has_a_range():
    for field in fields(ActingConfig):
        assert field.name == "network" or f"acting.{field.name}" in all_bounds(AgentConfig())


@pytest.mark.parametrize(
    ("part", "name", "value", "bounds"),
    [
        ("acting", "epsilon_eval", 1.5, "must be a number from 0 to 1"),
        ("acting", "epsilon_decay", -1, "must be a whole number at least 0"),
        ("acting", "network", "both", "must be one of target, online"),
        ("optimiser", "target_every", 0, "must be a whole number at least 1"),
        ("loss", "target_entropy", 1.01, "must be a number from 0 to 1"),
    ],
)
def test_settings_of_the_ladder_have_ranges(part, name, value, bounds):
    with pytest.raises(UsageError, match=re.escape(f"{part}.{name} = {value!r}: {bounds}")):
        check_agent(change(published("sac-bbf"), {part: {name: value}}))
