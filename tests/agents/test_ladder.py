"""The ladder: each agent as its publication has it, each rung as what it changes, and the printed differences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sacbbf.agents.config import AgentConfig, flatten
from sacbbf.agents.ladder import RUNGS, change, published
from sacbbf.agents.presets import AGENTS, BASELINES, SIZES, for_budget, preset
from sacbbf.agents.rules import check_agent
from sacbbf.cli import run

# What was published, a column for each agent; None: does not apply. Tau 1 is a target network that is copied.
COLUMNS = ("der", "otrainbow", "drq-eps", "spr", "sr-spr", "bbf", "sac-bbf", "sac-discrete")
FACTS = {
    "encoder": ("nature", "nature", "nature", "nature", "nature", "impala", "impala", "nature"),
    "width": (1, 1, 1, 1, 1, 4, 4, 1),
    "hidden": (512, 512, 512, 512, 512, 2048, 2048, 512),
    "atoms": (51, 51, 1, 51, 51, 51, 51, 1),
    "dueling": (True, False, True, True, True, True, True, False),
    "double": (True, False, True, True, True, True, None, None),
    "noisy": (True, False, False, True, False, False, False, False),
    "policy": (False, False, False, False, False, False, True, True),
    "renormalize": (False, False, False, True, True, True, True, False),
    "n start": (10, 3, 10, 10, 10, 10, 10, 1),
    "n end": (10, 3, 10, 10, 10, 3, 3, 1),
    "gamma start": (0.99, 0.99, 0.99, 0.99, 0.99, 0.97, 0.97, 0.99),
    "gamma end": (0.99, 0.99, 0.99, 0.99, 0.99, 0.997, 0.997, 0.99),
    "tau": (1, 1, 1, 1, 0.005, 0.005, 0.005, 0.005),
    "target every": (2_000, 500, 1, 1, 1, 1, 1, 1),
    "replay ratio": (1, 8, 1, 2, 2, 2, 2, 1),
    "warm-up": (1_600, 2_000, 1_600, 2_000, 2_000, 2_000, 2_000, 2_000),
    "epsilon start": (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0),
    "epsilon end": (0.01, 0.01, 0.01, 0.0, 0.0, 0.0, 0.0, 0.0),
    "epsilon decay": (2_000, 50_000, 5_000, 2_001, 2_001, 2_000, 0, 0),
    "epsilon in evaluation": (0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.0, 0.0),
    "learning rate": (1e-4, 6.25e-5, 1e-4, 1e-4, 1e-4, 1e-4, 1e-4, 3e-4),
    "weight decay": (0.0, 0.0, 0.0, 0.0, 0.0, 0.1, 0.1, 0.0),
    "prioritised": (True, True, False, True, True, True, True, False),
    "augment": (False, False, True, True, True, True, True, False),
    "SPR weight": (0, 0, 0, 5, 5, 5, 5, 0),
    "SPR k": (None, None, None, 5, 5, 5, 5, None),
    "reset every": (0, 0, 0, 0, 40_000, 40_000, 40_000, 0),
    "shrink": (None, None, None, None, 0.8, 0.5, 0.5, None),
    "acts": ("online", "online", "online", "online", "target", "target", "target", "online"),
}


def facts(config: AgentConfig) -> dict[str, object]:
    """A configuration in the words of the table above."""
    network, loss, optimiser, schedule = config.network, config.loss, config.optimiser, config.schedule
    return {
        "encoder": network.encoder,
        "width": network.width_scale,
        "hidden": network.hidden_dim,
        "atoms": network.num_atoms,
        "dueling": network.dueling,
        "double": loss.double if loss.backup == "greedy" else None,
        "noisy": network.noisy,
        "policy": network.policy,
        "renormalize": network.renormalize,
        "n start": schedule.n_start,
        "n end": schedule.n_end,
        "gamma start": schedule.gamma_start,
        "gamma end": schedule.gamma_end,
        "tau": optimiser.tau,
        "target every": optimiser.target_every,
        "replay ratio": schedule.replay_ratio,
        "warm-up": schedule.warmup,
        "epsilon start": config.acting.epsilon_start,
        "epsilon end": config.acting.epsilon_end,
        "epsilon decay": config.acting.epsilon_decay,
        "epsilon in evaluation": config.acting.epsilon_eval,
        "learning rate": optimiser.learning_rate,
        "weight decay": optimiser.weight_decay,
        "prioritised": config.replay.prioritised,
        "augment": loss.augment,
        "SPR weight": loss.spr_weight,
        "SPR k": loss.spr_steps if loss.spr_weight else None,
        "reset every": schedule.reset_every,
        "shrink": schedule.shrink if schedule.reset_every else None,
        "acts": config.acting.network,
    }


# --- the agents ---


@pytest.mark.parametrize("column", range(8), ids=COLUMNS)
def test_an_agent_is_as_it_was_published(column):
    assert facts(published(COLUMNS[column])) == {name: values[column] for name, values in FACTS.items()}


def test_the_top_of_the_ladder_is_the_default_agent():
    assert published("sac-bbf") == AgentConfig()


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
