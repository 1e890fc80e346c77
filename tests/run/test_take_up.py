"""Taking up a run under other circumstances: settings, machine, an environment that does not repeat itself."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from resuming import (
    Killed,
    differing,
    kill_at,
    load_checkpoint,
    manifests,
    outcome,
    short_config,
    signal_at,
    snapshot,
    stop_at,
    train_telling,
)

from sacbbf.cli import run
from sacbbf.disk import faults
from sacbbf.disk.lease import state_folder
from sacbbf.errors import UsageError
from sacbbf.replay.state import read_rows
from sacbbf.run import take_up
from sacbbf.run.checkpoint import encode, manifest_name
from sacbbf.run.records import RunDirectory, read_lines
from sacbbf.run.settings import CheckpointConfig, from_toml
from toys import run_quietly, toy_config

pytestmark = pytest.mark.usefixtures("hurried", "armed")


def with_settings(config, **parts):
    """A configuration with other settings of the agent."""
    changed = {part: replace(getattr(config.settings, part), **changes) for part, changes in parts.items()}
    return replace(config, settings=replace(config.settings, **changed))


# --- settings ---

OTHERS = {
    "seed": lambda config: replace(config, seed=1),
    "steps": lambda config: replace(config, steps=120),
    "log_every": lambda config: replace(config, log_every=20),
    "eval.every": lambda config: replace(config, eval=replace(config.eval, every=0)),
    "settings.replay.capacity": lambda config: with_settings(config, replay={"capacity": 65}),
    "settings.optimiser.learning_rate": lambda config: with_settings(config, optimiser={"learning_rate": 1e-5}),
}


def listed(message):
    """Names of the settings that a refusal lists."""
    return [line.split(":")[0].strip() for line in message.splitlines()[1:]]


@pytest.mark.parametrize(("name", "change"), OTHERS.items(), ids=OTHERS)
def test_another_configuration_is_refused_and_nothing_is_touched(name, change, stopped_run):
    before = snapshot(stopped_run)
    with pytest.raises(UsageError, match="holds another run already") as caught:
        train_telling(change(short_config()), stopped_run)
    assert listed(str(caught.value)) == [name]
    assert f"sacbbf resume {stopped_run}" in str(caught.value)
    assert snapshot(stopped_run) == before


def test_the_command_lists_exactly_what_differs(stopped_run, tmp_path, capsys):
    before = snapshot(stopped_run)
    words = ["--config", str(stopped_run / "config.toml"), "--out", str(stopped_run), "--quiet"]
    others = ["--seed", "3", "--network.hidden-dim", "9", "--checkpoint.every", "5"]
    assert run(["train", *words, *others]) == 2
    error = capsys.readouterr().err
    assert listed(error) == ["seed", "checkpoint.every", "settings.network.hidden_dim"]
    assert "seed: 0 there, 3 here" in error and "hidden_dim: 8 there, 9 here" in error
    assert snapshot(stopped_run) == before


def test_settings_that_no_number_depends_on_may_differ(copied, whole):
    config = short_config(checkpoint=CheckpointConfig(every=3, keep=True), parallel=7)
    result, said = train_telling(config, copied)
    assert result["finished"] and "warning" not in said
    assert differing(outcome(copied), whole) == []
    assert from_toml(copied / "config.toml") == short_config()  # that which the run was begun with


def test_checkpoints_need_not_be_kept_any_longer(copied):
    train_telling(short_config(checkpoint=CheckpointConfig(every=28, keep=False)), copied)
    assert state_folder(copied) is None


def test_the_same_command_takes_the_run_up(copied, whole, capsys):
    words = ["--config", str(copied / "config.toml"), "--out", str(copied)]
    assert run(["train", *words]) == 0
    assert "taken up at step 97 of 100" in capsys.readouterr().out
    assert differing(outcome(copied), whole) == []


# --- the machine ---


def test_another_number_of_threads_is_told(copied, capsys):
    threads = torch.get_num_threads()
    assert run(["resume", str(copied), "--threads", "2"]) == 0
    assert torch.get_num_threads() == threads
    (warning,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning")]
    assert "threads 1 -> 2" in warning and "the same bits as without a stop are no longer promised" in warning
    assert from_toml(copied / "config.toml").threads == 1


def test_another_device_is_told(copied):
    """Begun, as it seems, on a GPU that is not here."""
    manifest = manifests(copied)[-1]
    there = {**manifest.identity, "device": "cuda", "gpu": "Voodoo"}
    (state_folder(copied) / manifest_name(97)).write_bytes(encode(replace(manifest, identity=there)))
    path = copied / "config.toml"
    path.write_text(path.read_text().replace('device = "cpu"', 'device = "cuda"'))
    result, said = train_telling(short_config(), copied)
    assert "device cuda -> cpu, gpu Voodoo -> None" in said and "no longer promised" in said
    assert result["finished"]


def test_other_libraries_are_told(copied, monkeypatch):
    versions = take_up.versions
    monkeypatch.setattr(take_up, "versions", lambda: versions() | {"torch": "0.1"})
    _, said = train_telling(short_config(), copied)
    assert "-> 0.1)" in said and "no longer promised" in said
    assert manifests(copied)[-1].identity["torch"] == "0.1"


@pytest.mark.parametrize(
    ("words", "message"), [(["--device", "tpu"], "device = 'tpu'"), (["--threads", "-1"], "threads = -1")]
)
def test_the_command_refuses_what_is_no_machine(words, message, stopped_run, capsys):
    before = snapshot(stopped_run)
    assert run(["resume", str(stopped_run), *words]) == 2
    assert message in capsys.readouterr().err
    assert snapshot(stopped_run) == before


# --- an environment that does not repeat itself ---


def episodes(out):
    return list(read_lines(RunDirectory(out).record("episodes")))


def cut_steps(out, config):
    """Steps of the newest checkpoint, but for the last, that are marked as cut off in the replay."""
    training = load_checkpoint(out, config)
    first = training.replay.oldest
    rows = read_rows(training.replay, first, training.step - 1)
    training.close()
    return [first + int(row) for row in np.flatnonzero(rows["truncated"])]


def test_an_episode_that_cannot_be_repeated_counts_as_cut_off(tmp_path):
    config = short_config("Noisy")
    stop_at(57, config, tmp_path)
    assert [line["number"] for line in episodes(tmp_path)] == [0, 1, 2, 3, 4]

    signal_at("training: warm-up step", 4)  # step 61, in the next episode
    _, said = train_telling(config, tmp_path)
    assert "toys/Noisy-v0 did not repeat episode 5, so it is not deterministic" in said
    line = episodes(tmp_path)[5]
    assert (line["number"], line["step"], line["length"], line["truncated"]) == (5, 57, 7, True)
    assert manifests(tmp_path)[-1].segments[-1].first == 56  # the row that has changed is stored again

    faults.disarm()
    result, said = train_telling(config, tmp_path)
    assert "did not repeat episode 6" in said
    assert result["finished"] and result["resumes"] == 2
    found = episodes(tmp_path)
    assert [line["number"] for line in found] == list(range(len(found)))
    assert [(line["step"], line["length"]) for line in found[5:]] == [(57, 7), (61, 4), (71, 10), (81, 10), (91, 10)]
    assert result["train_episodes"] == len(found)
    assert cut_steps(tmp_path, config) == [39, 49, 56, 60, 70, 80, 90]


def test_a_run_stopped_again_at_the_same_step_keeps_what_was_cut_off(tmp_path):
    config = short_config("Noisy")
    stop_at(57, config, tmp_path)  # right after the checkpoint of step 56
    for _ in range(2):
        signal_at("episodes.jsonl cut: before write", 1)
        _, said = train_telling(config, tmp_path)
        assert "taken up at step 57" in said
    numbers = [(line["number"], line["step"], line["length"]) for line in episodes(tmp_path)]
    assert numbers[5:] == [(5, 57, 7)]  # the next one had no step yet: it has not been cut off
    faults.disarm()
    assert train_telling(config, tmp_path)[0]["finished"]
    assert cut_steps(tmp_path, config)[:4] == [39, 49, 56, 66]


def test_a_run_killed_while_it_writes_what_was_cut_off_loses_nothing(tmp_path):
    config = short_config("Noisy", checkpoint=CheckpointConfig(every=0, keep=True))
    stop_at(57, config, tmp_path)  # the only checkpoint
    kill_at("manifest: before write")
    with pytest.raises(Killed):
        train_telling(config, tmp_path, max_hours=1e-9)  # stops at the same step, where other things are to be stored
    faults.disarm()
    result, said = train_telling(config, tmp_path)
    assert "taken up at step 57" in said and said.count("warning") == 1
    assert result["finished"]


def test_an_episode_that_had_no_step_is_not_cut_off(tmp_path):
    config = short_config("Noisy")
    stop_at(60, config, tmp_path)
    result, said = train_telling(config, tmp_path)
    assert "warning" not in said
    found = episodes(tmp_path)
    assert [(line["number"], line["length"]) for line in found] == [(number, 10) for number in range(10)]
    assert result["train_episodes"] == 10


def test_a_run_that_fell_back_cuts_off_where_it_fell_to(tmp_path):
    config = short_config("Noisy")
    stop_at(97, config, tmp_path)
    (state_folder(tmp_path) / manifests(tmp_path)[-1].parts["learner"].name).unlink()
    _, said = train_telling(config, tmp_path)
    assert "taken up at step 84" in said and "did not repeat episode 8" in said
    assert [(line["number"], line["step"]) for line in episodes(tmp_path)[8:]] == [(8, 84), (9, 94)]
    assert cut_steps(tmp_path, config) == [39, 49, 59, 69, 79, 83, 93]


def test_a_lost_state_begins_the_run_anew(copied, whole):
    shutil.rmtree(state_folder(copied))
    result, said = train_telling(short_config(), copied)
    assert "has no checkpoint yet: the run starts over" in said
    assert result["resumes"] == 0
    assert differing(outcome(copied), whole) == []
    assert json.loads((copied / "result.json").read_text()) == result


def test_what_a_finished_run_left_behind_is_cleared_away(tmp_path):
    """As by a process that was killed between its result and its end."""
    out = tmp_path / "run"
    run_quietly(toy_config("Identity", 70, checkpoint=CheckpointConfig(keep=True)), out)
    assert state_folder(out) is not None
    result, said = train_telling(toy_config("Identity", 70), out)
    assert result["finished"] and "is finished" in said
    assert state_folder(out) is None
