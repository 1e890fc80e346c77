"""The crash test's comparison: it sees whatever differs, so that no difference found means that there is none."""

from __future__ import annotations

import json
import shutil
import signal

import numpy as np
import pytest
from resuming import crash_test, flip, manifests, short_config, train_telling

from sacbbf.disk.arrays import pack, unpack
from sacbbf.disk.lease import state_folder
from sacbbf.replay.storage import COLUMNS
from sacbbf.run.checkpoint import encode, manifest_name


@pytest.fixture(scope="module")
def kept_run(tmp_path_factory):
    """A finished run with its checkpoints. Not to be written to."""
    out = tmp_path_factory.mktemp("runs") / "kept"
    train_telling(short_config(), out)
    return out


def repack(path, spoil, compressed=False):
    """Change the arrays of a file."""
    arrays, meta = unpack(path.read_bytes(), compressed=compressed)
    spoil(arrays)
    path.write_bytes(pack(arrays, meta, compressed=compressed))


def flip_last_bit(array):
    array.reshape(-1).view(np.uint8)[0] ^= 1


def change_array(part, prefix):
    def spoil(out):
        manifest = manifests(out)[-1]

        def change(arrays):
            flip_last_bit(arrays[next(name for name in sorted(arrays) if name.startswith(prefix))])

        repack(state_folder(out) / manifest.parts[part].name, change)

    return spoil


def change_row(column):
    def spoil(out):
        segment = manifests(out)[-1].segments[-1]
        repack(state_folder(out) / segment.file.name, lambda rows: flip_last_bit(rows[column]), compressed=True)

    return spoil


def drop_row(out):
    segment = manifests(out)[-1].segments[-1]

    def spoil(rows):
        for name in rows:
            rows[name] = rows[name][:-1]

    repack(state_folder(out) / segment.file.name, spoil, compressed=True)


def drop_line(name):
    def spoil(out):
        path = out / f"{name}.jsonl"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))

    return spoil


def change_generator(out):
    manifest = manifests(out)[-1]
    manifest.numbers["generators"]["actions"]["state"]["state"] ^= 1
    (state_folder(out) / manifest_name(manifest.step)).write_bytes(encode(manifest))


def change_score(out):
    result = json.loads((out / "result.json").read_text())
    result["returns"][0] += 1.0
    (out / "result.json").write_text(json.dumps(result))


CHANGES = {
    "a weight": (change_array("learner", "online."), "learner online."),
    "a weight of the target": (change_array("learner", "target."), "learner target."),
    "a moment of the optimiser": (change_array("learner", "optimiser.exp_avg."), "learner optimiser.exp_avg."),
    "a learner's generator": (change_array("learner", "generator.noise"), "learner generator.noise"),
    "a priority": (change_array("progress", "priorities"), "progress priorities"),
    "a frame in the replay": (change_row("frames"), "replay frames 84"),
    "an action in the replay": (change_row("actions"), "replay actions 84"),
    "a flag in the replay": (change_row("truncated"), "replay truncated 84"),
    "a line missing in episodes": (drop_line("episodes"), "episodes.jsonl"),
    "a line missing in metrics": (drop_line("metrics"), "metrics.jsonl"),
    "a line missing in evaluations": (drop_line("evaluations"), "evaluations.jsonl"),
    "a generator": (change_generator, "numbers"),
    "a score": (change_score, "evaluation"),
    "a byte of the policy": (lambda out: flip(out / "policy.safetensors", -1), "policy.safetensors"),
}


def compared(out, kept_run, code=0):
    tally = crash_test.Tally()
    crash_test.compare("a point", code, out, crash_test.contents(kept_run), tally)
    return tally.differences


@pytest.mark.parametrize(("spoil", "named"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen_and_named(spoil, named, kept_run, tmp_path):
    out = shutil.copytree(kept_run, tmp_path / "copy")
    spoil(out)
    (line,) = compared(out, kept_run)
    assert line.startswith(f"a point: {named}") and line.endswith(" differs")


def test_a_row_missing_in_the_replay_is_missed_in_every_column(kept_run, tmp_path):
    out = shutil.copytree(kept_run, tmp_path / "copy")
    drop_row(out)
    lines = [f"a point: replay {column} 99 differs" for column in ("frames", *COLUMNS)]
    assert sorted(compared(out, kept_run)) == sorted(lines)


def test_all_that_a_missing_state_held_is_missed(kept_run, tmp_path):
    out = shutil.copytree(kept_run, tmp_path / "copy")
    shutil.rmtree(state_folder(out))
    outside = {*crash_test.COMPARED, "evaluation"}
    held = [name for name in crash_test.contents(kept_run) if name not in outside]
    assert sorted(compared(out, kept_run)) == sorted(f"a point: {name} differs" for name in held)
    assert len(held) > 100


def test_the_same_run_does_not_differ(kept_run, tmp_path):
    out = shutil.copytree(kept_run, tmp_path / "copy")
    assert compared(out, kept_run) == []
    assert not out.exists()


def test_a_run_that_failed_differs(kept_run, tmp_path):
    assert compared(tmp_path, kept_run, -signal.SIGKILL) == ["a point: ended with exit code -9"]


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (np.zeros(3), np.zeros(3), True),
        (np.array([0.0]), np.array([-0.0]), False),
        (np.array([np.nan]), np.array([np.nan]), True),
        (np.zeros(3), np.zeros(3, np.float32), False),
        (np.zeros(4), np.zeros((2, 2)), False),
        (np.float32(1), np.float32(1), True),
        (np.float32(1), 1.0, False),
        (np.zeros(1), None, False),
        (b"a", b"a", True),
        (b"a", b"b", False),
        ([1], (1,), False),
        (1, 1.0, False),
    ],
    ids=str,
)
def test_only_the_same_bits_are_equal(first, second, same):
    assert crash_test._equal(first, second) is same
    assert crash_test._equal(second, first) is same


def test_every_part_of_a_run_is_compared(kept_run):
    found = crash_test.contents(kept_run)
    kinds = {name.split(" ")[0] for name in found}
    assert kinds == {*crash_test.COMPARED, "evaluation", "numbers", "learner", "progress", "replay"}
    rows = {name for name in found if name.startswith("replay rewards ")}
    assert {f"replay rewards {step}" for step in range(36, 100)} <= rows
