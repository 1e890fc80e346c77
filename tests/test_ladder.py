"""The ladder: each agent as its publication has it, each rung as what it changes, and the printed differences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sacbbf.cli import run
from sacbbf.config import AgentConfig
from sacbbf.ladder import RUNGS, change, published
from sacbbf.learner.schedules import for_budget
from sacbbf.presets import AGENTS, BASELINES, SIZES, preset
from sacbbf.rules import check_agent
from sacbbf.run.settings import flatten

HARD = 1.0  # tau of a target network that is copied

# What was published, agent by agent; None: does not apply.
FACTS = {
    "der": {
        "encoder": "nature",
        "width": 1,
        "hidden": 512,
        "atoms": 51,
        "renormalize": False,
        "policy": False,
        "dueling": True,
        "double": True,
        "noisy": True,
        "n": (10, 10),
        "gamma": (0.99, 0.99),
        "target": (HARD, 2_000),
        "ratio": 1,
        "warmup": 1_600,
        "epsilon": (1.0, 0.01, 2_000),
        "rate": 1e-4,
        "prioritised": True,
        "augment": False,
        "spr": None,
        "resets": None,
        "decay": 0.0,
        "acts": "online",
    },
    "otrainbow": {
        "encoder": "nature",
        "width": 1,
        "hidden": 512,
        "atoms": 51,
        "renormalize": False,
        "policy": False,
        "dueling": False,
        "double": False,
        "noisy": False,
        "n": (3, 3),
        "gamma": (0.99, 0.99),
        "target": (HARD, 500),
        "ratio": 8,
        "warmup": 2_000,
        "epsilon": (1.0, 0.01, 50_000),
        "rate": 6.25e-5,
        "prioritised": True,
        "augment": False,
        "spr": None,
        "resets": None,
        "decay": 0.0,
        "acts": "online",
    },
    "drq-eps": {
        "encoder": "nature",
        "width": 1,
        "hidden": 512,
        "atoms": 1,
        "renormalize": False,
        "policy": False,
        "dueling": True,
        "double": True,
        "noisy": False,
        "n": (10, 10),
        "gamma": (0.99, 0.99),
        "target": (HARD, 1),
        "ratio": 1,
        "warmup": 1_600,
        "epsilon": (1.0, 0.01, 5_000),
        "rate": 1e-4,
        "prioritised": False,
        "augment": True,
        "spr": None,
        "resets": None,
        "decay": 0.0,
        "acts": "online",
    },
    "spr": {
        "encoder": "nature",
        "width": 1,
        "hidden": 512,
        "atoms": 51,
        "renormalize": True,
        "policy": False,
        "dueling": True,
        "double": True,
        "noisy": True,
        "n": (10, 10),
        "gamma": (0.99, 0.99),
        "target": (HARD, 1),
        "ratio": 2,
        "warmup": 2_000,
        "epsilon": (1.0, 0.0, 2_001),
        "rate": 1e-4,
        "prioritised": True,
        "augment": True,
        "spr": (5.0, 5),
        "resets": None,
        "decay": 0.0,
        "acts": "online",
    },
    "sr-spr": {
        "encoder": "nature",
        "width": 1,
        "hidden": 512,
        "atoms": 51,
        "renormalize": True,
        "policy": False,
        "dueling": True,
        "double": True,
        "noisy": False,
        "n": (10, 10),
        "gamma": (0.99, 0.99),
        "target": (0.005, 1),
        "ratio": 2,
        "warmup": 2_000,
        "epsilon": (1.0, 0.0, 2_001),
        "rate": 1e-4,
        "prioritised": True,
        "augment": True,
        "spr": (5.0, 5),
        "resets": (40_000, 0.8),
        "decay": 0.0,
        "acts": "target",
    },
    "bbf": {
        "encoder": "impala",
        "width": 4,
        "hidden": 2048,
        "atoms": 51,
        "renormalize": True,
        "policy": False,
        "dueling": True,
        "double": True,
        "noisy": False,
        "n": (10, 3),
        "gamma": (0.97, 0.997),
        "target": (0.005, 1),
        "ratio": 2,
        "warmup": 2_000,
        "epsilon": (1.0, 0.0, 2_000),
        "rate": 1e-4,
        "prioritised": True,
        "augment": True,
        "spr": (5.0, 5),
        "resets": (40_000, 0.5),
        "decay": 0.1,
        "acts": "target",
    },
    "sac-bbf": {
        "encoder": "impala",
        "width": 4,
        "hidden": 2048,
        "atoms": 51,
        "renormalize": True,
        "policy": True,
        "dueling": True,
        "double": None,
        "noisy": False,
        "n": (10, 3),
        "gamma": (0.97, 0.997),
        "target": (0.005, 1),
        "ratio": 2,
        "warmup": 2_000,
        "epsilon": None,
        "rate": 1e-4,
        "prioritised": True,
        "augment": True,
        "spr": (5.0, 5),
        "resets": (40_000, 0.5),
        "decay": 0.1,
        "acts": "target",
    },
    "sac-discrete": {
        "encoder": "nature",
        "width": 1,
        "hidden": 512,
        "atoms": 1,
        "renormalize": False,
        "policy": True,
        "dueling": False,
        "double": None,
        "noisy": False,
        "n": (1, 1),
        "gamma": (0.99, 0.99),
        "target": (0.005, 1),
        "ratio": 1,
        "warmup": 2_000,
        "epsilon": None,
        "rate": 3e-4,
        "prioritised": False,
        "augment": False,
        "spr": None,
        "resets": None,
        "decay": 0.0,
        "acts": "online",
    },
}


def facts(config: AgentConfig) -> dict[str, object]:
    """A configuration in the words of the table above."""
    network, loss, optimiser, schedule = config.network, config.loss, config.optimiser, config.schedule
    acting = config.acting
    epsilon = (acting.epsilon_start, acting.epsilon_end, acting.epsilon_decay)
    return {
        "encoder": network.encoder,
        "width": network.width_scale,
        "hidden": network.hidden_dim,
        "atoms": network.num_atoms,
        "renormalize": network.renormalize,
        "policy": network.policy,
        "dueling": network.dueling,
        "double": loss.double if loss.backup == "greedy" else None,
        "noisy": network.noisy,
        "n": (schedule.n_start, schedule.n_end),
        "gamma": (schedule.gamma_start, schedule.gamma_end),
        "target": (optimiser.tau, optimiser.target_every),
        "ratio": schedule.replay_ratio,
        "warmup": schedule.warmup,
        "epsilon": epsilon if any(epsilon) else None,
        "rate": optimiser.learning_rate,
        "prioritised": config.replay.prioritised,
        "augment": loss.augment,
        "spr": (loss.spr_weight, loss.spr_steps) if loss.spr_weight else None,
        "resets": (schedule.reset_every, schedule.shrink) if schedule.reset_every else None,
        "decay": optimiser.weight_decay,
        "acts": acting.network,
    }


# --- the agents ---


@pytest.mark.parametrize("agent", RUNGS)
def test_an_agent_is_as_it_was_published(agent):
    assert facts(published(agent)) == FACTS[agent]


def test_the_top_of_the_ladder_is_the_default_agent():
    assert published("sac-bbf") == AgentConfig()


def test_every_agent_without_a_policy_is_evaluated_with_a_little_chance():
    assert {name: published(name).acting.epsilon_eval for name in RUNGS} == {
        **dict.fromkeys(("der", "otrainbow", "drq-eps", "spr", "sr-spr", "bbf"), 0.001),
        **dict.fromkeys(("sac-bbf", "sac-discrete"), 0.0),
    }


def test_sac_discrete_has_two_q_networks_and_a_learned_temperature():
    config = published("sac-discrete")
    assert config.network.twin_q and config.loss.target_entropy == 0.98
    assert (config.loss.backup, config.loss.policy_gradient) == ("expected", "expected")
    assert not any(published(name).network.twin_q for name in RUNGS if name != "sac-discrete")


@pytest.mark.parametrize("agent", RUNGS)
def test_a_rung_states_no_change_that_changes_nothing(agent):
    rung = RUNGS[agent]
    below = flatten(AgentConfig() if rung.below is None else published(rung.below))
    stated = {f"{part}.{name}": value for part, settings in rung.changes.items() for name, value in settings.items()}
    assert not {name: value for name, value in stated.items() if below[name] == value}


def test_rungs_stand_one_on_the_other():
    chain = ["der", "otrainbow", "drq-eps", "spr", "sr-spr", "bbf", "sac-bbf"]
    assert [RUNGS[name].below for name in chain] == [None, *chain[:-1]]
    assert list(RUNGS) == [*chain, "sac-discrete"]
    assert [*RUNGS, *BASELINES] == list(AGENTS)


@pytest.mark.parametrize("kind", ["image", "grid", "vector"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("agent", RUNGS)
def test_every_agent_is_within_the_rules_at_every_size(agent, size, kind):
    config = preset(size, kind, SIZES[size].steps, agent=agent)
    check_agent(config)
    kept = ("policy", "noisy", "twin_q", "dueling", "num_atoms", "renormalize")
    assert all(getattr(config.network, name) == getattr(published(agent).network, name) for name in kept)
    assert config.loss.augment == (kind == "image" and published(agent).loss.augment)
    assert (config.schedule.reset_every > 0) == (published(agent).schedule.reset_every > 0)
    assert (config.schedule.beta_start > 0) == (agent == "sac-bbf")


@pytest.mark.parametrize("agent", RUNGS)
def test_paper_size_on_images_is_the_published_agent(agent):
    assert preset("paper", "image", 100_000, agent=agent) == published(agent)


@pytest.mark.parametrize(("agent", "every"), [("der", 20_000), ("drq-eps", 1), ("bbf", 1)])
def test_a_target_that_follows_each_update_does_so_in_longer_runs_too(agent, every):
    assert for_budget(published(agent), 1_000_000).optimiser.target_every == every


# --- `sacbbf list agents --diff` ---


def printed(capsys) -> dict[str, tuple[str, dict[str, tuple[str, str]]]]:
    """The printed ladder: agent -> what it stands on, and setting -> (there, here)."""
    assert run(["list", "agents", "--diff"]) == 0
    found: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {}
    for line in capsys.readouterr().out.splitlines():
        cells = [cell.strip() for cell in line.split("│")[1:-1]]
        if len(cells) != 5:
            continue
        name, below, setting, there, here = cells
        if name:
            found[name] = (below, {})
        found[list(found)[-1]][1][setting] = (there, here)
    return found


def show(value: object) -> str:
    return f"{value:,}" if type(value) is int else str(value)


def test_printed_differences_are_those_of_the_configurations(capsys):
    found = printed(capsys)
    assert list(found) == list(RUNGS)
    for name, (below, rows) in found.items():
        here = flatten(published(name))
        if RUNGS[name].below is None:
            assert below == "-" and {there for there, _ in rows.values()} == {""}
            assert all(show(here[setting]) == value for setting, (_, value) in rows.items())
            continue
        there = flatten(published(RUNGS[name].below))
        assert below == RUNGS[name].below
        assert rows == {
            setting: (show(there[setting]), show(here[setting])) for setting in here if there[setting] != here[setting]
        }


def test_the_foot_of_a_ladder_shows_every_setting_that_any_rung_moves(capsys):
    found = printed(capsys)
    moved = {setting for below, rows in found.values() if below != "-" for setting in rows}
    for name in ("der", "sac-discrete"):
        assert moved <= found[name][1].keys()


def test_a_changed_rung_changes_what_is_printed(capsys, monkeypatch):
    before = printed(capsys)
    rung = RUNGS["bbf"]
    changed = {**rung.changes, "schedule": {**rung.changes["schedule"], "n_end": 7, "warmup": 123}}
    monkeypatch.setitem(RUNGS, "bbf", replace(rung, changes=changed))
    after = printed(capsys)
    assert after["bbf"][1]["schedule.n_end"] == ("10", "7")
    assert after["bbf"][1]["schedule.warmup"] == ("2,000", "123") and "schedule.warmup" not in before["bbf"][1]
    assert after["sr-spr"] == before["sr-spr"] and after["sac-bbf"] == before["sac-bbf"]


def test_a_change_is_of_named_settings_only():
    with pytest.raises(TypeError, match="depth"):
        change(AgentConfig(), {"network": {"depth": 3}})


def test_differences_go_with_agents(capsys):
    assert run(["list", "sizes", "--diff"]) == 2
    assert "diff: goes with agents, not with sizes" in capsys.readouterr().err
