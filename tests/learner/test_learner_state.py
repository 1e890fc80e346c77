"""A learner's state: put into another learner, it goes on bit for bit; what is not such a state is refused."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from sacbbf.agents.config import AgentConfig, LossConfig, NetworkConfig, ReplayConfig, ScheduleConfig
from sacbbf.learner.learner import Learner
from sacbbf.learner.state import learner_bytes, read_learner, write_learner
from sacbbf.replay import Replay

SHAPES = {"mlp": (5,), "nature": (2, 16, 16)}
ACTIONS = 3


def make_learner(encoder="mlp", seed=0, **network):
    config = AgentConfig(
        network=NetworkConfig(encoder=encoder, width_scale=0.25, hidden_dim=8, num_atoms=5, **network),
        loss=LossConfig(spr_steps=2, augment=encoder == "nature"),
        schedule=ScheduleConfig(replay_ratio=2, n_start=4, cycle=6),
        replay=ReplayConfig(batch_size=4),
    )
    return Learner(config, SHAPES[encoder], ACTIONS, seed=seed)


def make_replay(encoder="mlp"):
    dtype = np.float32 if encoder == "mlp" else np.uint8
    replay = Replay(capacity=80, frame_shape=SHAPES[encoder], frame_dtype=dtype, stack=1, k=2)
    rng = np.random.default_rng(7)
    for _ in range(60):
        frame = rng.integers(0, 2, SHAPES[encoder]).astype(dtype)
        replay.add(frame, int(rng.integers(ACTIONS)), float(rng.standard_normal()), terminated=rng.random() < 0.1)
    return replay


def learn(learner, encoder, *, seed, steps):
    """Metrics of some steps of learning from a replay that is always the same."""
    generator, replay = np.random.default_rng(seed), make_replay(encoder)
    return [learner.learn(replay, step, generator, measure=True) for step in range(steps)]


def bits(learner):
    """All arrays and counters of a learner, in a form that compares bit for bit."""
    arrays, counters = read_learner(learner)
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()}, counters


def copied(learner):
    """A state that later updates do not change."""
    arrays, counters = read_learner(learner)
    return {name: array.copy() for name, array in arrays.items()}, copy.deepcopy(counters)


@pytest.mark.parametrize("encoder", SHAPES)
@pytest.mark.parametrize("moment", ["before any update", "after updates", "right after a reset", "after both"])
def test_a_learner_goes_on_in_another_bit_for_bit(moment, encoder):
    learner, other = make_learner(encoder), make_learner(encoder, seed=5)
    if moment != "before any update":
        learn(learner, encoder, seed=1, steps=2)
    if moment in ("right after a reset", "after both"):
        learner.reset()
    if moment == "after both":
        learn(learner, encoder, seed=2, steps=2)
    write_learner(other, *copied(learner))
    assert bits(other) == bits(learner)
    assert learn(other, encoder, seed=3, steps=3) == learn(learner, encoder, seed=3, steps=3)
    assert bits(other) == bits(learner)
    for one in (learner, other):
        one.reset()
    assert learn(other, encoder, seed=4, steps=2) == learn(learner, encoder, seed=4, steps=2)
    assert bits(other) == bits(learner)


def test_a_state_holds_everything_that_an_update_changes():
    learner = make_learner()
    before, _ = bits(learner)
    learn(learner, "mlp", seed=1, steps=1)
    after, counters = bits(learner)
    assert counters["updates"] == counters["updates_since_reset"] == 2
    assert set(map(tuple, counters["optimiser"].values())) == {("exp_avg", "exp_avg_sq", "step")}
    steps = {array for name, (_, _, array) in after.items() if name.startswith("optimiser.step.")}
    assert steps == {np.float32(2.0).tobytes()}
    changed = {name for name in after if before.get(name) != after[name]}
    assert {name.split(".")[0] for name in changed} == {"online", "target", "optimiser", "generator"}
    assert "generator.noise" in changed
    assert "generator.networks" not in changed  # drawn from by resets alone
    learner.reset()
    assert bits(learner)[0]["generator.networks"] != after["generator.networks"]
    assert not any(name.startswith("optimiser") for name in bits(learner)[0])


def test_a_state_is_within_its_bound():
    learner = make_learner()
    learn(learner, "mlp", seed=1, steps=1)
    arrays, _ = read_learner(learner)
    assert sum(array.nbytes for name, array in arrays.items() if "generator" not in name) == learner_bytes(learner)


def test_writing_copies():
    learner, other = make_learner(), make_learner(seed=5)
    learn(learner, "mlp", seed=1, steps=1)
    write_learner(other, *read_learner(learner))
    want = bits(learner)
    learn(other, "mlp", seed=2, steps=1)
    assert bits(learner) == want


def first(arrays, prefix):
    return next(name for name in arrays if name.startswith(prefix) and arrays[name].ndim > 1)


def without(prefix):
    return lambda arrays, counters: arrays.pop(first(arrays, prefix))


def reshaped(prefix):
    def spoil(arrays, counters):
        name = first(arrays, prefix)
        arrays[name] = arrays[name].reshape(-1)

    return spoil


def retyped(prefix, dtype):
    def spoil(arrays, counters):
        name = first(arrays, prefix)
        arrays[name] = arrays[name].astype(dtype)

    return spoil


def generator(name, state):
    def spoil(arrays, counters):
        held = arrays[f"generator.{name}"]
        arrays[f"generator.{name}"] = state(held)

    return spoil


def counter(name, value):
    return lambda arrays, counters: counters.update({name: value})


def foreign_optimiser(arrays, counters):
    counters["optimiser"]["nobody.weight"] = ["exp_avg"]
    arrays["optimiser.exp_avg.nobody.weight"] = np.zeros(3, np.float32)


def steps(value):
    def spoil(arrays, counters):
        arrays.update({name: np.array(value) for name in arrays if name.startswith("optimiser.step.")})

    return spoil


MALFORMED = {
    "no online weights": without("online."),
    "no target weights": without("target."),
    "no moment": without("optimiser.exp_avg_sq."),
    "no generator": lambda arrays, counters: arrays.pop("generator.noise"),
    "nothing": lambda arrays, counters: arrays.clear(),
    "an array too many": lambda arrays, counters: arrays.update(more=np.zeros(1, np.float32)),
    "weights of another shape": reshaped("online."),
    "moments of another shape": reshaped("optimiser.exp_avg."),
    "weights of another type": retyped("target.", np.float64),
    "weights that are integers": retyped("online.", np.int32),
    "moments of another type": retyped("optimiser.exp_avg_sq.", np.float16),
    "an optimiser of other parameters": foreign_optimiser,
    "steps of an optimiser without its moments": lambda arrays, counters: arrays.pop(
        first(arrays, "optimiser.exp_avg.")
    ),
    "moments of an optimiser without its steps": lambda arrays, counters: counters["optimiser"].popitem(),
    "steps that are no number": steps("many"),
    "steps of another shape": steps([1.0, 2.0]),
    "a generator cut short": generator("networks", lambda state: state[:100]),
    "a generator that is empty": generator("noise", lambda state: state[:0]),
    "a generator of zeros": generator("noise", np.zeros_like),
    "a generator of noise": generator("noise", lambda state: np.random.default_rng(0).integers(0, 255, 5056, np.uint8)),
    "a generator of another type": generator("noise", lambda state: state.astype(np.float32)),
    "a generator of another kind": generator("noise", lambda state: state.view(np.uint16)),
    "a generator in two dimensions": generator("noise", lambda state: state.reshape(2, -1)[:1]),
    "no updates": lambda arrays, counters: counters.pop("updates"),
    "no optimiser": lambda arrays, counters: counters.pop("optimiser"),
    "updates that are no number": counter("updates", "many"),
    "updates below zero": counter("updates", -1),
    "more updates since a reset than in all": counter("updates_since_reset", 3),
    "updates since a reset below zero": counter("updates_since_reset", -1),
}


@pytest.fixture(scope="module")
def learner():
    """A learner after two updates. Not to be changed but by writing a state."""
    made = make_learner()
    learn(made, "mlp", seed=1, steps=1)
    return made


@pytest.mark.parametrize("spoil", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_state_of_this_learner_is_refused(spoil, learner):
    arrays, counters = copied(learner)
    write_learner(learner, arrays, counters)
    spoil(arrays, counters)
    with pytest.raises((ValueError, KeyError)):
        write_learner(learner, arrays, counters)


def test_the_state_of_another_network_is_refused():
    wide = make_learner(dueling=False)
    with pytest.raises(ValueError, match=r"holds other arrays than this agent has: \w"):
        write_learner(make_learner(), *copied(wide))


def test_what_is_wrong_is_named():
    learner = make_learner()
    arrays, counters = copied(learner)
    name = first(arrays, "online.")
    arrays[name] = arrays[name][:1].astype(np.float64)
    with pytest.raises(ValueError, match=rf"{name.removeprefix('online.')} is float64 of shape \(1, .*must be float32"):
        write_learner(make_learner(), arrays, counters)
