"""A whole run: its order of events, its repeatability, and how it ends."""

from __future__ import annotations

import errno
import json
import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from sacbbf.errors import RunFailed, UsageError
from sacbbf.learner.learner import Learner
from sacbbf.run.baselines import Mix
from sacbbf.run.loop import Training
from sacbbf.run.records import RunDirectory, read_lines
from sacbbf.run.settings import resolve
from toys import Lives, run_quietly, toy_config

COMPARED = ("episodes.jsonl", "metrics.jsonl", "policy.safetensors")


def contents(run, names=COMPARED):
    return {name: (run.path / name).read_bytes() for name in names}


# --- repeatability ---


def test_the_same_seed_gives_the_same_run(finished_run, tmp_path):
    run_quietly(toy_config("Identity", 200, every=50), tmp_path / "again")
    again = RunDirectory(tmp_path / "again")
    names = (*COMPARED, "evaluations.jsonl", "config.toml")
    assert contents(again, names) == contents(finished_run, names)
    first, second = (json.loads(run.result.read_text()) for run in (finished_run, again))
    assert first["returns"] == second["returns"]


def test_another_seed_gives_another_run(finished_run, tmp_path):
    run_quietly(toy_config("Identity", 200, every=50, seed=1), tmp_path / "other")
    other = contents(RunDirectory(tmp_path / "other"))
    assert all(other[name] != content for name, content in contents(finished_run).items())


def test_evaluations_leave_training_untouched(finished_run, tmp_path):
    run_quietly(toy_config("Identity", 200, every=0), tmp_path / "without")
    without = RunDirectory(tmp_path / "without")
    assert contents(without) == contents(finished_run)
    assert list(read_lines(without.record("evaluations"))) == []


def test_a_grid_run_repeats_itself_whatever_is_played_beside_it(tmp_path):
    for name, parallel in (("one", 1), ("many", 8)):
        run_quietly(toy_config("Catch", 90, every=40, parallel=parallel), tmp_path / name)
    one, many = (RunDirectory(tmp_path / name) for name in ("one", "many"))
    names = (*COMPARED, "evaluations.jsonl")
    assert contents(one, names) == contents(many, names)


# --- order of events ---


def record_events(monkeypatch):
    """Every update, reset and environment step of the runs that follow, in order."""
    events = []
    update, reset = Learner.update, Learner.reset

    def noted_update(self, *args, **kwargs):
        events.append("update")
        return update(self, *args, **kwargs)

    def noted_reset(self):
        events.append("reset")
        reset(self)

    monkeypatch.setattr(Learner, "update", noted_update)
    monkeypatch.setattr(Learner, "reset", noted_reset)
    return events


def test_updates_then_reset_then_step(monkeypatch):
    changes = {"schedule": {"warmup": 30, "replay_ratio": 2, "reset_every": 20, "n_start": 3}}
    config = toy_config("Identity", 40, changes)
    events = record_events(monkeypatch)
    training = Training(config)
    answer = training.env.step

    def noted_step(action):
        events.append("step")
        return answer(action)

    training.env.step = noted_step
    for _ in range(40):
        training.advance(measure=False)
    # 80 updates' worth of steps, an interval of 20: resets at steps 10 and 20, as at 30 exactly one is left.
    warmup = ["step"] * 10 + ["reset"] + ["step"] * 10 + ["reset"] + ["step"] * 10
    assert events == warmup + ["update", "update", "step"] * 10
    assert training.learner.updates == (40 - 30) * 2


def test_a_reset_comes_between_updates_and_step(monkeypatch):
    changes = {"schedule": {"warmup": 30, "replay_ratio": 1, "reset_every": 35, "n_start": 3}}
    events = record_events(monkeypatch)
    training = Training(toy_config("Identity", 80, changes))
    for _ in range(36):
        training.advance(measure=False)
    assert events == ["update"] * 6 + ["reset"]
    assert training.learner.updates == 6 and training.learner.updates_since_reset == 0
    training.advance(measure=False)
    assert training.learner.updates_since_reset == 1


def test_updates_of_a_run_are_counted_from_the_warm_up(tmp_path):
    changes = {"schedule": {"warmup": 70, "replay_ratio": 3, "n_start": 3}}
    assert run_quietly(toy_config("Identity", 80, changes), tmp_path / "run")["updates"] == 30


def test_a_run_shorter_than_its_warm_up_learns_nothing_and_ends_well(tmp_path):
    result = run_quietly(toy_config("Identity", 20), tmp_path / "run")
    assert (result["steps"], result["updates"], result["finished"]) == (20, 0, True)


def test_too_short_a_warm_up_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"schedule\.warmup = 0"):
        run_quietly(toy_config("Identity", 20, {"schedule": {"warmup": 0}}), tmp_path / "run")


# --- what is stored, what is recorded ---


@pytest.mark.parametrize(("clip", "stored"), [(True, 1.0), (False, 5.0)])
def test_rewards_are_clipped_for_learning_only(clip, stored):
    training = Training(toy_config("Jackpot", 50, clip_rewards=clip))
    outcomes = [training.advance(measure=False) for _ in range(10)]
    assert outcomes[-1].episode.score == 50.0
    batch = training.replay.assemble(np.array([0, 3]), n=1, gamma=0.9)
    np.testing.assert_allclose(batch.return_n, [stored, stored])


def test_a_lost_life_ends_learning_but_not_the_episode(monkeypatch):
    monkeypatch.setattr("sacbbf.run.loop.make_env", lambda name, settings: Lives())
    config, _ = resolve("CartPole-v1", size="tiny", steps=64)
    training = Training(replace(config, stack=3))
    acted, added = [], []
    act, add = training._act, training.replay.add

    def noted_act():
        acted.append(training.state.tolist())
        return act()

    def noted_add(frame, action, reward, terminated, truncated, life_lost, mask):
        added.append((frame.tolist(), terminated, truncated, life_lost))
        assert mask is None
        add(frame, action, reward, terminated, truncated, life_lost)

    monkeypatch.setattr(training, "_act", noted_act)
    monkeypatch.setattr(training.replay, "add", noted_add)
    outcomes = [training.advance(measure=False) for _ in range(7)]
    ends = [outcome.episode is not None for outcome in outcomes]
    assert ends == [False] * 5 + [True, False]
    assert (outcomes[5].episode.score, outcomes[5].episode.length) == (18.0, 6)
    assert acted == [[0, 0, 10], [0, 10, 11], [10, 11, 12], [0, 0, 13], [0, 13, 14], [13, 14, 15], [0, 0, 10]]
    assert [frame for frame, *_ in added] == [[10], [11], [12], [13], [14], [15], [10]]
    assert [life_lost for *_, life_lost in added] == [False, False, True, False, False, False, False]
    assert [terminated for _, terminated, *_ in added] == [False] * 5 + [True, False]


# --- how a run ends ---


def test_time_is_up_before_the_steps_are(tmp_path):
    result = run_quietly(toy_config("Identity", 100_000), tmp_path / "run", max_hours=0.0003)
    assert 0 < result["steps"] < 100_000
    assert (result["finished"], result["stopped_by"]) == (False, "max_hours")
    assert len(result["returns"]) == 4
    assert RunDirectory(tmp_path / "run").policy.exists()


class InterruptedBy:
    """Sends a signal to this process at the n-th call of a method, then does what the method does."""

    def __init__(self, monkeypatch, owner, name, calls, number):
        original = getattr(owner, name)
        self.left = calls

        def wrapper(*args, **kwargs):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), number)
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, wrapper)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_saves_what_was_learned(number, tmp_path, monkeypatch):
    InterruptedBy(monkeypatch, Learner, "update", 5, number)
    before = signal.getsignal(number)
    result = run_quietly(toy_config("Identity", 10_000), tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    assert (result["stopped_by"], result["finished"], result["score"]) == ("interrupt", False, None)
    assert result["steps"] == 64 + 5  # the step in progress was finished, no other begun
    assert json.loads(run.result.read_text()) == result
    assert run.policy.exists() and run.curve.exists()
    assert signal.getsignal(number) is before


def test_an_interrupt_during_a_long_evaluation_episode_ends_it(tmp_path, monkeypatch):
    calls = []

    def logits(self, states, masks=None):
        calls.append(1)
        if len(calls) == 10:
            os.kill(os.getpid(), signal.SIGINT)
        return np.zeros((len(states), 4), np.float32)

    monkeypatch.setattr("sacbbf.run.train.NetworkPolicy.logits", logits)
    result = run_quietly(toy_config("Endless", 20, every=10), tmp_path / "run")
    assert (result["stopped_by"], result["steps"], result["score"]) == ("interrupt", 10, None)
    assert len(calls) == 10


def test_an_interrupt_during_the_final_evaluation_leaves_a_result_without_score(tmp_path, monkeypatch):
    def logits(self, states, masks=None):
        os.kill(os.getpid(), signal.SIGINT)
        return np.zeros((len(states), 4), np.float32)

    monkeypatch.setattr("sacbbf.run.train.NetworkPolicy.logits", logits)
    result = run_quietly(toy_config("Endless", 20), tmp_path / "run")
    assert (result["stopped_by"], result["steps"], result["score"]) == ("interrupt", 20, None)


def test_an_interrupt_ends_a_blind_search(tmp_path, monkeypatch):
    InterruptedBy(monkeypatch, Mix, "policy", 2, signal.SIGINT)
    result = run_quietly(toy_config("Favourite", 20, agent="blind"), tmp_path / "run")
    assert (result["stopped_by"], result["score"]) == ("interrupt", None)


def test_a_loss_that_is_no_number_ends_the_run(tmp_path, monkeypatch):
    changes = {"optimiser": {"learning_rate": 1.0, "weight_decay": 1e3}}
    with pytest.raises(RunFailed, match=r"TD loss became .* at update \d+: .*learning_rate"):
        run_quietly(toy_config("Identity", 1_000, changes), tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    assert not run.result.exists() and not run.policy.exists()
    assert list(read_lines(run.record("episodes")))


@pytest.mark.parametrize("begun", [False, True])
def test_a_full_disk_leaves_no_half_written_file(begun, tmp_path, monkeypatch, armed):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    run = RunDirectory(tmp_path / "run")
    point = "training: warm-up step" if begun else "config: after directory fsync"
    armed(point, 1, lambda: monkeypatch.setattr(os, "fsync", full))
    with pytest.raises(RunFailed, match=r"cannot write .*: No space left on device; sacbbf resume .*run"):
        run_quietly(toy_config("Identity", 70), run.path)
    names = {path.name for path in run.path.rglob("*")}
    assert not {name for name in names if name.startswith((".", "policy", "result", "step-"))}
    assert ("episodes.jsonl" in names) == begun


def test_comparison_with_chance_and_blind_play(tmp_path):
    result = run_quietly(toy_config("Favourite", 30, baselines=True), tmp_path / "run")
    assert result["baselines"]["blind"]["score"] == 10.0
    assert result["baselines"]["blind"]["mix"] == "always 2"
    assert result["baselines"]["random"]["score"] < 10.0
