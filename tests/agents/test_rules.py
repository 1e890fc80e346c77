"""Settings out of range are refused with a message that names setting, value and range."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sacbbf.agents.config import AgentConfig, flatten
from sacbbf.agents.ranges import all_bounds
from sacbbf.agents.rules import check_agent
from sacbbf.errors import UsageError


def changed(name: str, value: object) -> AgentConfig:
    config = AgentConfig()
    if "." not in name:
        return replace(config, **{name: value})
    part, setting = name.split(".")
    return replace(config, **{part: replace(getattr(config, part), **{setting: value})})


def test_defaults_are_allowed():
    check_agent(AgentConfig())


RANGES = all_bounds(AgentConfig())
NUMBERS = {name: value for name, value in flatten(AgentConfig()).items() if type(value) in (int, float)}


def test_numbers_and_nothing_else_have_a_range():
    assert RANGES.keys() == NUMBERS.keys()
    assert {name.split(".")[0] for name in NUMBERS} == {
        "network", "loss", "optimiser", "schedule", "acting", "replay"
    }  # fmt: skip


@pytest.mark.parametrize("name", RANGES)
def test_a_range_reaches_from_its_lowest_value_to_its_highest(name):
    low, high = RANGES[name].low, RANGES[name].high
    kind = type(NUMBERS[name])
    assert low <= NUMBERS[name] <= high and low < high
    for value in (kind(low) - 1, *([] if high == float("inf") else [kind(high) + 1])):
        with pytest.raises(UsageError, match=f"{name} = {value}: must be"):
            check_agent(changed(name, value))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("network.hidden_dim", 0, "network.hidden_dim = 0: must be a whole number from 1 to 65536"),
        ("network.hidden_dim", 2.5, "network.hidden_dim = 2.5: must be a whole number"),
        ("network.encoder", "", "network.encoder = '': must be a name"),
        ("network.dueling", 1, "network.dueling = 1: must be true or false"),
        ("optimiser.learning_rate", float("nan"), "optimiser.learning_rate = nan: must be a number from 0 to 1"),
        ("optimiser.tau", -0.1, "optimiser.tau = -0.1: must be a number from 0 to 1"),
        ("schedule.gamma_end", 1.0, "schedule.gamma_end = 1.0: must be a number"),
        ("schedule.n_start", 0, "schedule.n_start = 0: must be a whole number"),
        ("schedule.warmup", -1, "schedule.warmup = -1: must be a whole number at least 0"),
        ("schedule.replay_ratio", True, "schedule.replay_ratio = True: must be a whole number"),
        ("behaviour", "mine", "behaviour = 'mine': must be one of paper, released"),
        ("network.policy", False, "loss.backup = 'sampled' needs a policy"),
        ("loss.spr_steps", 0, "loss.spr_steps = 0 with loss.spr_weight > 0"),
    ],
)
def test_bad_setting_is_refused(name, value, message):
    with pytest.raises(UsageError, match=message):
        check_agent(changed(name, value))
