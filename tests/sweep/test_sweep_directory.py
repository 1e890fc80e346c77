"""A sweep's directory: which sweeps may begin in it, what a damaged manifest says, and notes of failures."""

from __future__ import annotations

import json

import pytest
from small_sweep import begun, small_spec

from sacbbf.errors import UsageError
from sacbbf.sweep.directory import SweepDirectory


@pytest.fixture
def directory(tmp_path):
    return SweepDirectory(tmp_path / "sweep")


@pytest.mark.parametrize("exists", [False, True])
def test_a_sweep_begins_in_a_new_or_empty_directory(exists, directory):
    if exists:
        directory.path.mkdir()
    directory.begin(small_spec(2))
    assert directory.read() == small_spec(2)
    assert [path.name for path in directory.path.iterdir()] == ["sweep.json"]


def test_a_directory_with_other_files_is_left_alone(directory):
    directory.path.mkdir()
    (directory.path / "thesis.tex").write_text("mine")
    refused(directory.begin, small_spec(), message=f"{directory.path}: holds other files already")
    assert [path.name for path in directory.path.iterdir()] == ["thesis.tex"]


def test_a_file_is_no_directory(directory):
    directory.path.write_text("mine")
    refused(directory.begin, small_spec(), message="holds other files already")
    assert directory.path.read_text() == "mine"


def test_a_sweep_that_another_process_is_storing_is_no_other_file(directory):
    directory.path.mkdir()
    (directory.path / ".sweep.json.0123456789abcdef.tmp").write_text("{")
    directory.begin(small_spec())
    assert directory.read() == small_spec()


def test_the_same_sweep_begins_again_and_writes_nothing(directory):
    directory.begin(small_spec(2))
    before = directory.manifest.stat()
    directory.begin(small_spec(2))
    assert directory.manifest.stat().st_ino == before.st_ino


def test_a_sweep_grows(directory):
    directory.begin(small_spec(2))
    directory.begin(small_spec(5))
    assert directory.read() == small_spec(5)


@pytest.mark.parametrize("seeds", [2, 3])
def test_another_note_is_stored(seeds, directory):
    directory.begin(small_spec(2, note="Other seeds than the paper's."))
    directory.begin(small_spec(seeds, note=""))
    assert directory.read() == small_spec(seeds, note="")


@pytest.mark.parametrize(
    ("other", "message"),
    [(small_spec(2, steps=7), "steps: 150 there, 7 here"), (small_spec(1), "seed1 is there, and not here")],
)
def test_another_sweep_is_refused(other, message, directory):
    directory.begin(small_spec(2))
    refused(directory.begin, other, message=f"{directory.path}: holds another sweep already", more=message)
    assert directory.read() == small_spec(2)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"3", b"{}", b"\xff\xfe", b'{"format": 1}', b'{"format": 2, "spec": {}}', b"[" * 100_000],
)
def test_a_damaged_manifest_is_named(content, directory):
    directory.path.mkdir()
    directory.manifest.write_bytes(content)
    message = f"cannot read {directory.manifest}: it is not the manifest of a sweep"
    refused(directory.read, message=message)
    refused(directory.begin, small_spec(), message=message)
    assert directory.manifest.read_bytes() == content


def test_a_directory_without_manifest_is_no_sweep(directory):
    refused(directory.read, message=f"{directory.path} is not a sweep: it holds no sweep.json")


def test_failures_are_noted_and_forgotten(directory):
    begun(directory.path, small_spec(2))
    first, second = small_spec(2).cells()
    directory.try_again([first, second])  # there is nothing to forget yet
    directory.give_up(first, 3, "no luck")
    found = directory.read_failure(first)
    assert (found["why"], found["attempts"], found["cell"]) == ("no luck", 3, first.name)
    assert found["log"] == str(directory.log(first))
    assert directory.read_failure(second) is None
    directory.try_again([first, second])
    assert directory.read_failure(first) is None


@pytest.mark.parametrize("content", ["{", json.dumps(["no"])])
def test_a_damaged_failure_is_a_failure(content, directory):
    (cell,) = small_spec().cells()
    directory.give_up(cell, 1, "no luck")
    directory.failure(cell).write_text(content)
    assert directory.read_failure(cell)["attempts"] == 0


def refused(function, *args, message, more=""):
    with pytest.raises(UsageError) as caught:
        function(*args)
    assert message in str(caught.value) and more in str(caught.value)
