"""Search spaces: those of the sizes, the words that change them, and what is refused."""

from __future__ import annotations

import pytest

from sacbbf.agents.ladder import RUNGS
from sacbbf.agents.presets import SIZES
from sacbbf.errors import UsageError
from sacbbf.run.settings import resolve
from sacbbf.tune.space import SPACES, Choice, Range, axis_from_json, axis_to_json, default_of, parse_axis, space_of

LEARNERS = list(RUNGS)


def config_of(env="CartPole-v1", **words):
    return resolve(env, device="cpu", **words)[0]


def named(space):
    return {axis.name: axis for axis in space}


@pytest.mark.parametrize("agent", LEARNERS)
@pytest.mark.parametrize("size", SIZES)
def test_a_sizes_space_suits_every_agent_and_holds_its_preset(size, agent):
    """Its ends are checked when it is made; the preset must lie in it, or the first trial would teach nothing."""
    config = config_of(size=size, agent=agent)
    space = space_of(config, (), (), only=False)
    assert "optimiser.learning_rate" in named(space)
    assert all(axis.holds(default_of(axis.name, config)) for axis in space)


@pytest.mark.parametrize(
    ("size", "lacking"), [("tiny", "schedule.beta_start"), ("tiny-paper", "schedule.entropy_start")]
)
def test_every_setting_of_a_space_is_tuned_but_those_of_the_other_temperature(size, lacking):
    found = [axis.name for axis in space_of(config_of(size=size), (), (), only=False)]
    assert found == [one.name for one in SPACES[size] if one.name != lacking]


@pytest.mark.parametrize(
    ("agent", "lacking"),
    [
        ("bbf", {"schedule.beta_start", "schedule.entropy_start"}),
        ("sr-spr", {"schedule.beta_start", "schedule.n_end", "schedule.gamma_end", "schedule.cycle"}),
        ("spr", {"schedule.beta_start", "schedule.reset_every"}),
        ("sac-discrete", {"schedule.beta_start", "schedule.reset_every"}),
    ],
)
def test_what_an_agent_does_not_have_is_not_tuned(agent, lacking):
    assert not lacking & named(space_of(config_of(agent=agent), (), (), only=False)).keys()


def test_counts_of_updates_follow_the_steps():
    """At 20,000 steps the preset's cycle is 2,000 updates and its resets are 8,000 apart; a quarter of it at 5,000."""
    long, short = (
        named(space_of(config_of(size="tiny-paper", steps=steps), (), (), only=False)) for steps in (20_000, 5_000)
    )
    assert (long["schedule.cycle"].low, long["schedule.cycle"].high) == (1_000, 10_000)
    assert (short["schedule.cycle"].low, short["schedule.cycle"].high) == (250, 2_500)
    assert long["schedule.reset_every"].values == (0, 4_000, 8_000)
    assert short["schedule.reset_every"].values == (0, 1_000, 2_000)
    assert long["schedule.beta_start"] == short["schedule.beta_start"]


@pytest.mark.parametrize(
    ("text", "axis"),
    [
        ("optimiser.learning_rate=1e-4:1e-2:log", Range("optimiser.learning_rate", 1e-4, 1e-2, log=True)),
        ("optimiser.learning-rate=0.001:0.01", Range("optimiser.learning_rate", 0.001, 0.01)),
        ("schedule.n_end=1:5", Range("schedule.n_end", 1, 5, whole=True)),
        ("replay_ratio=1,2,4", Choice("schedule.replay_ratio", (1, 2, 4))),
        ("schedule.beta_end=0,0.1", Choice("schedule.beta_end", (0.0, 0.1))),
        ("loss.backup=sampled,expected", Choice("loss.backup", ("sampled", "expected"))),
        ("replay.prioritised=true,false", Choice("replay.prioritised", (True, False))),
    ],
)
def test_words_are_ranges_or_choices(text, axis):
    found = parse_axis(text, config_of())
    assert found == axis and [type(end) for end in found.ends] == [type(end) for end in axis.ends]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "schedule.n_end=5:1",
            "space = 'schedule.n_end=5:1': must be NAME=LOW:HIGH or NAME=LOW:HIGH:log with LOW below",
        ),
        ("schedule.n_end=1:a", "must be NAME=LOW:HIGH"),
        ("schedule.n_end=1:5:linear", "must be NAME=LOW:HIGH"),
        ("schedule.n_end=1.5:5", "schedule.n_end is a whole number"),
        ("schedule.n_end=0:5", "schedule.n_end = 0: must be a whole number from 1 to 100"),
        ("schedule.beta_start=0:1:log", "LOW must be above 0"),
        ("schedule.n_ends=1:5", "schedule.n_ends is no setting of an agent; as in schedule.n_end=1:5; did you mean"),
        ("compute.kernels=auto,off", "compute.kernels is no setting of an agent"),
        ("eval.episodes=1:5", "eval.episodes is no setting of an agent"),
        ("loss.backup=1:5", "loss.backup is no number; must be NAME=a,b,c"),
        ("loss.backup=sampled,best", "loss.backup = 'best': must be one of sampled, expected, greedy"),
        ("seed=1,2", "seed has an option of its own"),
        ("schedule.n_end", "must be NAME=VALUE"),
    ],
)
def test_a_range_that_makes_no_sense_is_refused(text, message):
    with pytest.raises(UsageError) as caught:
        space_of(config_of(), (text,), (), only=False)
    assert message in str(caught.value)


def test_words_replace_a_setting_and_leave_the_others():
    config = config_of()
    own = named(space_of(config, (), (), only=False))
    space = named(space_of(config, ("schedule.n_end=2:3", "loss.spr_weight=0,5"), (), only=False))
    assert space.keys() == own.keys() | {"loss.spr_weight"}
    changed = {name for name in own if space[name] != own[name]}
    assert changed == {"schedule.n_end"} and space["schedule.n_end"].ends == (2, 3)


def test_only_the_words_settings_where_that_is_wanted():
    assert named(space_of(config_of(), ("schedule.n_end=2:3",), (), only=True)).keys() == {"schedule.n_end"}
    with pytest.raises(UsageError, match=r"only = True: leaves no setting to tune"):
        space_of(config_of(), (), (), only=True)


def test_what_is_set_for_all_runs_is_not_tuned():
    config = config_of()
    assert "schedule.n_end" not in named(space_of(config, (), ("schedule.n_end",), only=False))
    with pytest.raises(UsageError, match=r"space = schedule\.n_end: is given by another --set already"):
        space_of(config, ("schedule.n_end=1:3",), ("schedule.n_end",), only=False)
    with pytest.raises(UsageError, match=r"is given by another --space already"):
        space_of(config, ("schedule.n_end=1:3", "schedule.n_end=2:4"), (), only=False)


def test_a_space_survives_being_stored():
    space = space_of(config_of(), ("loss.backup=sampled,expected",), (), only=False)
    assert tuple(axis_from_json(axis_to_json(axis)) for axis in space) == space
