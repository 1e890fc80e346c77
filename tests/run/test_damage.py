"""Damaged files: a run goes back to what is whole and ends the same, or says what is wrong and deletes nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from resuming import (
    Killed,
    differing,
    fail_telling,
    flip,
    kept_files,
    kill_at,
    manifests,
    outcome,
    short_config,
    train_telling,
)

from sacbbf.cli import run
from sacbbf.disk import faults
from sacbbf.disk.lease import state_folder
from sacbbf.errors import RunFailed, UsageError
from sacbbf.run.checkpoint import manifest_name
from sacbbf.run.records import RunDirectory

pytestmark = pytest.mark.usefixtures("hurried", "armed")

DAMAGES = {
    "a byte flipped": lambda path: flip(path, path.stat().st_size // 2),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "deleted": Path.unlink,
    "emptied": lambda path: path.write_bytes(b""),
}
RECORD_DAMAGES = {
    "its last line changed": lambda path: flip(path, -3),
    "its first line changed": lambda path: flip(path, 3),
    **{name: damage for name, damage in DAMAGES.items() if name != "a byte flipped"},
}


def file_of(out, role):
    """Path of a file that the newest checkpoint needs."""
    older, newest = manifests(out)
    names = {
        "manifest": manifest_name(newest.step),
        "newest segment": newest.segments[-1].file.name,
        "shared segment": older.segments[-1].file.name,
        **{part: mark.name for part, mark in newest.parts.items()},
    }
    return state_folder(out) / names[role] if role in names else RunDirectory(out).record(role)


def falls_back(out, path, whole, *, told=True):
    """Check that the older checkpoint is used, with a word on the damage, and the run ends as if nothing had been."""
    result, said = train_telling(short_config(), out)
    assert (path.name in said) == ("warning: " in said) == told
    assert "taken up at step 84 of 100" in said
    assert result["finished"]
    assert differing(outcome(out), whole) == []


def gives_up(out, path):
    """Check that the run ends with a word on the damage, and with all its files."""
    before = kept_files(out)
    reason, said = fail_telling(short_config(), out)
    assert reason.startswith(f"no checkpoint of {out} can be used: ") and "Nothing was deleted" in reason
    assert path.name in reason and path.name in said
    assert kept_files(out) == before


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("role", ["manifest", "learner", "progress", "newest segment"])
def test_a_damaged_checkpoint_is_passed_over(role, damage, copied, whole):
    path = file_of(copied, role)
    DAMAGES[damage](path)
    falls_back(copied, path, whole, told=(role, damage) != ("manifest", "deleted"))  # of that there is no trace


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_segment_that_both_checkpoints_need_ends_the_run(damage, copied, whole):
    path = file_of(copied, "shared segment")
    content = path.read_bytes()
    DAMAGES[damage](path)
    gives_up(copied, path)
    if damage == "deleted":  # and brought back from elsewhere
        file_of(copied, "shared segment").write_bytes(content)
        train_telling(short_config(), copied)
        assert differing(outcome(copied), whole) == []


@pytest.mark.parametrize("damage", RECORD_DAMAGES)
@pytest.mark.parametrize("record", ["episodes", "metrics", "evaluations", "speed"])
def test_a_damaged_record_goes_back_to_where_it_was_whole(record, damage, copied, whole):
    path = file_of(copied, record)
    RECORD_DAMAGES[damage](path)
    if damage in ("its last line changed", "truncated"):
        falls_back(copied, path, whole)
    else:
        gives_up(copied, path)


def test_lines_behind_the_last_checkpoint_are_dropped(copied, whole):
    for name in ("episodes", "metrics"):
        with RunDirectory(copied).record(name).open("a") as file:
            file.write('{"step": 98, "number": 9}\n{"st')
    _, said = train_telling(short_config(), copied)
    assert "taken up at step 97" in said and "warning" not in said
    assert differing(outcome(copied), whole) == []


def test_two_damaged_checkpoints_are_both_named(copied, capsys):
    older, newest = manifests(copied)
    flip(state_folder(copied) / newest.parts["learner"].name, 1000)
    (state_folder(copied) / older.parts["progress"].name).unlink()
    before = kept_files(copied)
    reason, said = fail_telling(short_config(), copied)
    assert "step-000000097-learner-0.safetensors has a wrong checksum" in said
    assert "step-000000084-progress-0.safetensors is missing" in said and "progress" in reason
    assert run(["resume", str(copied)]) == 1
    error = capsys.readouterr().err
    assert "sacbbf resume: no checkpoint of" in error and "Traceback" not in error
    assert kept_files(copied) == before


def test_a_directory_is_named_as_it_is_spelt(stopped_run, tmp_path):
    out = shutil.copytree(stopped_run, tmp_path / "a [bold] run[" / "b]")  # as in the terminal's markup
    flip(file_of(out, "learner"), 1000)
    _, said = train_telling(short_config(), out)
    assert f"warning: {file_of(out, 'learner').parent.parent}/" in said
    assert f"{out} is finished" in train_telling(short_config(), out)[1]


def test_a_run_that_went_back_clears_the_damage_away(copied, whole):
    flip(file_of(copied, "learner"), 1000)
    kill_at("policy: before write")
    with pytest.raises(Killed):
        train_telling(short_config(), copied)
    faults.disarm()
    assert [manifest.step for manifest in manifests(copied)] == [84, 100]
    assert not list(state_folder(copied).glob("*97*"))
    train_telling(short_config(), copied)
    assert differing(outcome(copied), whole) == []


def test_a_result_that_cannot_be_read_is_named(copied):
    """Whether the run was finished is unknown then."""
    (copied / "result.json").write_text("{")
    before = kept_files(copied)
    with pytest.raises(UsageError, match=r"cannot read .*result\.json"):
        train_telling(short_config(), copied)
    assert kept_files(copied) == before


# --- a full disk ---


@pytest.fixture
def small_disk(tmp_path):
    """A file system of half a megabyte."""
    mounted = tmp_path / "disk"
    mounted.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(mounted)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    yield mounted
    subprocess.run(["umount", str(mounted)], check=True)


def fill(disk, leave):
    """Fill a file system but for some bytes."""
    with (disk / "filler").open("wb", buffering=0) as file:
        free = shutil.disk_usage(disk).free - leave
        if free > 0:
            file.write(bytes(free))


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("leave", [0, 40_960])
def test_a_full_disk_costs_no_more_than_what_it_had_no_room_for(leave, small_disk, impatient, whole, capsys):
    run_path = small_disk / "run"
    faults.arm("training: step", 12, lambda: fill(small_disk, leave))  # step 76; the last checkpoint is that of 56
    try:
        result, said = train_telling(short_config(), run_path)
        finished = result["finished"]
        assert "warning: the checkpoint at step 84 could not be written (No space left on device)" in said
    except RunFailed as error:
        assert "No space left on device" in str(error) and f"sacbbf resume {run_path}" in str(error)
        finished = False
    faults.disarm()
    assert finished == (leave == 40_960)
    assert [manifest.step for manifest in manifests(run_path)] == [28, 56]
    assert "Traceback" not in capsys.readouterr().err
    (small_disk / "filler").unlink()
    if not finished:
        _, said = train_telling(short_config(), run_path)
        assert "taken up at step 56 of 100" in said and "warning" not in said
        assert differing(outcome(run_path), whole) == []
        return
    names = ["speed", "evaluation", "policy.safetensors", *(name for name in whole if name.endswith(".jsonl"))]
    found = outcome(run_path)
    assert differing({name: found[name] for name in names}, {name: whole[name] for name in names}) == []


def test_a_full_disk_is_told_when_a_run_is_taken_up(small_disk, impatient, copied, whole):
    run_path = shutil.copytree(copied, small_disk / "run")
    fill(small_disk, 0)
    reason, _ = fail_telling(short_config(), run_path)
    assert f"cannot write {run_path}: No space left on device" in reason
    (small_disk / "filler").unlink()
    train_telling(short_config(), run_path)
    assert differing(outcome(run_path), whole) == []
