"""Another number of steps: runs that are extended, start from weights, or have their schedules scaled."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from resuming import differing, outcome

from sacbbf.agents.config import flatten
from sacbbf.cli import run
from sacbbf.commands.resume import total_steps
from sacbbf.disk.lease import state_folder
from sacbbf.errors import UsageError
from sacbbf.run.admission import extend
from sacbbf.run.checkpoint import load, read_manifests
from sacbbf.run.loop import Training
from sacbbf.run.more_steps import extended, fine_tuning, new_cycle, rescaled
from sacbbf.run.policy_file import load_policy
from sacbbf.run.records import RunDirectory, read_lines
from sacbbf.run.settings import CheckpointConfig, Horizon, from_toml, resolve
from sacbbf.run.state import read_training
from toys import IDENTITY, SHORT, run_quietly, toy_config

KEEP = CheckpointConfig(every=40, keep=True)
CHANGES = {"schedule": {"reset_every": 30, "warmup": 64, "n_start": 5}}


def short(steps=100, **words):
    return toy_config("Identity", steps, CHANGES, **{"checkpoint": KEEP, "log_every": 10, **words})


def trained(config, steps):
    training = Training(config)
    for _ in range(steps):
        training.advance(False)
    return training


def state_of(training):
    parts, numbers = read_training(training)
    return {name: array.tobytes() for held in parts.values() for name, array in held.items()} | numbers


# --- configurations ---


def test_an_extended_run_keeps_its_schedules():
    config = short()
    longer = extended(config, 250)
    assert (longer.steps, longer.schedule_steps, longer.horizon) == (250, 100, Horizon(0, 100))
    assert longer.settings == config.settings
    assert extended(longer, 300).horizon == Horizon(0, 100)
    for steps in (100, 99):
        with pytest.raises(UsageError, match=f"steps = {steps}: must be above the 100"):
            extended(config, steps)
    with pytest.raises(UsageError, match="the baseline random does not learn"):
        extended(replace(config, agent="random"), 200)


def test_presets_are_rescaled_and_chosen_settings_stay():
    config, spec = resolve(IDENTITY, steps=10_000)
    other, kept = rescaled(config, spec.kind, 5_000)
    assert other == resolve(IDENTITY, steps=5_000)[0] and kept == ()
    schedule = replace(config.settings.schedule, reset_every=777, replay_ratio=3)
    chosen = replace(config, settings=replace(config.settings, schedule=schedule), log_every=7)
    other, kept = rescaled(chosen, spec.kind, 5_000)
    assert kept == ("schedule.reset_every",)
    found = other.settings.schedule
    assert (found.reset_every, found.replay_ratio, other.log_every, other.steps) == (777, 3, 7, 5_000)
    assert found.cycle == config.settings.schedule.cycle // 2
    beyond, _ = rescaled(extended(config, 20_000), spec.kind, 5_000)  # by the steps that its schedules have
    assert beyond == resolve(IDENTITY, steps=5_000)[0]


def test_a_new_cycle_is_that_of_its_own_number_of_steps():
    config, spec = resolve(IDENTITY, steps=10_000)
    again = new_cycle(config, 10_000, 5_000, spec.kind)
    fresh = resolve(IDENTITY, steps=5_000)[0].settings
    assert (again.steps, again.schedule_steps, again.horizon) == (15_000, 5_000, Horizon(10_000, 5_000))
    assert again.settings.schedule == replace(fresh.schedule, warmup=config.settings.schedule.warmup)
    third = new_cycle(again, 12_000, 20_000, spec.kind)
    assert third.settings.schedule.cycle == 4 * again.settings.schedule.cycle


def test_fine_tuning_has_no_resets():
    config, spec = resolve(IDENTITY, steps=10_000)
    tuned = fine_tuning(config, 5_000, spec.kind)
    plain = resolve(IDENTITY, steps=5_000)[0]
    differing = {name for name, value in flatten(plain).items() if flatten(tuned)[name] != value}
    assert plain.settings.schedule.reset_every > 0 and tuned.settings.schedule.reset_every == 0
    assert differing == {"settings.schedule.reset_every"}


# --- trainings ---


def test_a_training_that_is_extended_goes_on_as_one_that_is_loaded(tmp_path):
    run_quietly(short(), tmp_path / "run")
    here = trained(short(), 100)
    longer = extended(short(), 150)
    here.replan(longer)
    folder = state_folder(tmp_path / "run")
    there = load(folder, list(read_manifests(folder))[-1], lambda: Training(longer)).training
    assert here.replay.ring.capacity == there.replay.ring.capacity == 150
    for training in (here, there):
        for _ in range(50):
            training.advance(False)
    assert state_of(here) == state_of(there)


def test_epsilon_begins_anew_without_a_warm_up_in_a_new_cycle(monkeypatch):
    shares = []

    def choose(logits, generator, epsilon, mask):
        shares.append(epsilon)
        return int(np.argmax(logits))

    monkeypatch.setattr("sacbbf.run.loop.choose", choose)
    config, spec = resolve(IDENTITY, size="tiny", steps=80, agent="bbf")
    config = replace(config, settings=replace(config.settings, acting=replace(config.settings.acting, epsilon_decay=8)))
    training = trained(config, 80)
    training.replan(new_cycle(config, 80, 20, spec.kind))
    shares.clear()
    for _ in range(20):
        training.advance(False)
    end = config.settings.acting.epsilon_end
    assert shares == pytest.approx([1 + (end - 1) * min(step / 8, 1) for step in range(20)])


def test_another_environment_takes_over_between_episodes():
    training = trained(short(), 77)
    first, config = training.env, replace(short(), env="elsewhere")
    closed = []
    first.close = lambda: closed.append(1)
    other = Training(short()).env
    training.set_env(other, config)
    assert closed == [1] and training.env is other and training.config is config
    training.advance(False)
    assert (training.episodes, len(training.actions)) == (8, 1)
    assert np.flatnonzero(training.replay.ring.truncated[70:78]).tolist() == [6]


# --- sacbbf resume --steps ---


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A finished run of 100 steps that kept its state. Not to be written to."""
    out = tmp_path_factory.mktemp("runs") / "kept"
    run_quietly(short(every=50), out)
    return out


@pytest.fixture
def copied(kept, tmp_path):
    return shutil.copytree(kept, tmp_path / "copied")


@pytest.mark.parametrize("words", ["150", "+50"])
def test_a_finished_run_is_extended(words, copied):
    before = (copied / "policy.safetensors").read_bytes()
    assert run(["resume", str(copied), "--steps", words, "--quiet"]) == 0
    directory = RunDirectory(copied)
    result, config = directory.read_result(), from_toml(directory.config)
    assert (result["steps"], result["finished"], result["resumes"]) == (150, True, 1)
    assert (config.steps, config.horizon, config.settings) == (150, Horizon(0, 100), short().settings)
    assert [line["step"] for line in read_lines(directory.record("episodes"))] == list(range(10, 151, 10))
    assert [line["step"] for line in read_lines(directory.record("evaluations"))] == [50, 100]
    assert directory.policy.read_bytes() != before
    assert run(["resume", str(copied), "--quiet"]) == 0  # as it is
    assert directory.read_result() == result


def test_extending_twice_and_with_stops_between_changes_no_bit(copied, tmp_path):
    other = shutil.copytree(copied, tmp_path / "other")
    for words in ("120", "+30"):
        assert run(["resume", str(copied), "--steps", words, "--quiet"]) == 0
    assert run(["resume", str(other), "--steps", "150", "--quiet"]) == 0
    one, two = (
        {name: value for name, value in outcome(path).items() if name.split()[0] in ("policy.safetensors", "episodes")}
        for path in (copied, other)
    )
    assert differing(one, two) == []
    assert (copied / "policy.safetensors").read_bytes() == (other / "policy.safetensors").read_bytes()
    assert (copied / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()


def test_an_extension_that_was_killed_at_once_is_not_taken_for_finished(copied):
    config = from_toml(copied / "config.toml")
    directory = RunDirectory(copied)
    from rich.console import Console

    longer = extend(config, 130, directory, Console(quiet=True))
    assert directory.read_result()["finished"] is False
    assert from_toml(directory.config) == longer
    assert run(["resume", str(copied), "--quiet"]) == 0
    assert directory.read_result()["steps"] == 130


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("50", "steps = 50: must be above the 100 that this run has already"),
        ("many", "steps = 'many': must be a number of steps in all (600) or of more steps (+300)"),
        ("-5", "must be a number of steps"),
        ("0", "steps = '0'"),
    ],
)
def test_other_numbers_of_steps_are_refused(words, message, copied, capsys):
    before = (copied / "config.toml").read_bytes()
    assert run(["resume", str(copied), f"--steps={words}"]) == 2
    assert message in capsys.readouterr().err
    assert (copied / "config.toml").read_bytes() == before


def test_a_run_without_its_state_names_the_way(finished_run, tmp_path, capsys):
    out = shutil.copytree(finished_run.path, tmp_path / "run")
    before = (out / "config.toml").read_bytes()
    assert run(["resume", str(out), "--steps", "+100"]) == 2
    error = capsys.readouterr().err
    assert "has kept no state to go on from" in error and f"sacbbf train {IDENTITY} --init {out}" in error
    assert (out / "config.toml").read_bytes() == before


def test_numbers_of_steps_in_words():
    assert [total_steps(words, 300) for words in ("600", "+300", "1_000", "10,000")] == [600, 600, 1_000, 10_000]


# --- sacbbf train --init ---


def test_a_run_starts_from_the_weights_of_another(kept, working_directory):
    assert run(["train", IDENTITY, "--init", str(kept), "--steps", "66", "--out", "tuned", *SHORT[:4]]) == 0
    config, start = from_toml(Path("tuned/config.toml")), from_toml(kept / "config.toml")
    assert config.settings.network == start.settings.network and config.size == start.size
    assert config.settings.schedule.reset_every == 0 and config.stack == start.stack
    assert Path("tuned/initial.safetensors").read_bytes() == (kept / "policy.safetensors").read_bytes()
    import torch

    training = Training(config, initial=load_policy(kept / "policy.safetensors", torch.device("cpu")))
    acting = load_policy(kept / "policy.safetensors", torch.device("cpu")).state_dict()
    for network in (training.learner.online, training.learner.target):
        assert all(bool((network.state_dict()[name] == value).all()) for name, value in acting.items())
    for _ in range(66):
        training.advance(False)
    found = load_policy(Path("tuned/policy.safetensors"), torch.device("cpu")).state_dict()
    assert all(bool((training.learner.actor.state_dict()[name] == value).all()) for name, value in found.items())


def test_it_acts_by_those_weights_from_its_first_step(kept, working_directory):
    words = ["--steps", "40", "--out", "tuned", *SHORT[:4]]
    assert run(["train", IDENTITY, "--init", str(kept), *words]) == 0
    scores = [line["score"] for line in read_lines(Path("tuned/episodes.jsonl"))]
    drawn = [line["score"] for line in read_lines(kept / "episodes.jsonl")][:4]  # chance, of the same seed
    assert scores != drawn


def test_such_a_run_is_taken_up_with_and_without_the_flag(kept, working_directory):
    words = ["train", IDENTITY, "--init", str(kept), "--steps", "90", *SHORT[:4]]
    assert run([*words, "--out", "whole"]) == 0
    assert run([*words, "--out", "stopped", "--max-hours", "0.0000001"]) == 0
    assert json.loads(Path("stopped/result.json").read_text())["stopped_by"] == "max_hours"
    shutil.copytree("stopped", "same")
    assert run(["resume", "stopped", "--quiet"]) == 0
    assert run([*words, "--out", "same"]) == 0
    contents = {Path(out, "policy.safetensors").read_bytes() for out in ("whole", "stopped", "same")}
    assert len(contents) == 1
    Path("stopped/initial.safetensors").write_bytes(b"?")
    assert run(["train", "--config", "whole/config.toml", "--out", "copy", "--quiet"]) == 2
    assert not Path("copy/config.toml").exists()


def test_resets_can_be_asked_for(kept, working_directory):
    words = ["--init", str(kept), "--steps", "10", "--schedule.reset-every", "50", "--out", "run", *SHORT[:4]]
    assert run(["train", IDENTITY, *words]) == 0
    assert from_toml(Path("run/config.toml")).settings.schedule.reset_every == 50


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["toys/Corridor-v0"], "takes states of shape (5,); toys/Corridor-v0 shows states of shape (12,)"),
        (["MinAtar/Breakout-v1"], "takes states of shape (5,); MinAtar/Breakout-v1 shows states of shape"),
        (["toys/Identity-v0", "--agent", "bbf"], "agent = 'bbf': must be 'sac-bbf', as in"),
        (["toys/Identity-v0", "--agent", "random"], "the baseline random has no weights to start from"),
        (["toys/Identity-v0", "--network.hidden-dim", "32"], "network.hidden_dim = 32: must be 16, as in"),
    ],
)
def test_weights_that_do_not_fit_are_refused(words, message, kept, working_directory, capsys):
    assert run(["train", *words, "--init", str(kept), "--steps", "20", "--out", "run"]) == 2
    assert message in capsys.readouterr().err
    assert not Path("run").exists()


def test_nothing_starts_from_what_is_no_run(working_directory, capsys):
    assert run(["train", IDENTITY, "--init", "nowhere", "--steps", "20"]) == 2
    assert "nowhere is not a run directory" in capsys.readouterr().err


# --- sacbbf train --config FILE --steps N ---


def test_a_files_schedules_follow_the_steps_and_it_is_said(kept, working_directory, capsys):
    words = ["--config", str(kept / "config.toml"), "--out", "run", "--agent", "random"]
    assert run(["train", *words, "--steps", "40"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "is for 100 steps: its schedules are scaled to 40; schedule.reset_every as the file has it" in said
    found = from_toml(Path("run/config.toml"))
    plain = resolve(IDENTITY, size="tiny-paper", steps=40)[0].settings.schedule
    assert found.steps == 40 and found.settings.schedule.reset_every == 30
    assert found.settings.schedule.cycle == plain.cycle
    assert found.settings.schedule.beta_final_updates == plain.beta_final_updates


def test_flags_still_replace_what_was_scaled(kept, working_directory):
    words = ["--config", str(kept / "config.toml"), "--out", "run", "--agent", "random", "--quiet"]
    assert run(["train", *words, "--steps", "40", "--schedule.cycle", "77"]) == 0
    assert from_toml(Path("run/config.toml")).settings.schedule.cycle == 77


def test_nothing_is_said_where_nothing_is_scaled(kept, working_directory, capsys):
    words = ["--config", str(kept / "config.toml"), "--out", "run", "--agent", "random"]
    assert run(["train", *words, "--steps", "100"]) == 0
    assert "scaled" not in capsys.readouterr().out
    Path("part.toml").write_text("seed = 4\n")
    assert run(["train", IDENTITY, "--config", "part.toml", "--steps", "20", "--out", "two", "--agent", "random"]) == 0
    assert "scaled" not in capsys.readouterr().out
