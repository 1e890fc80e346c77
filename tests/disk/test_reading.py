"""Files that somebody else may have made: regular ones of a plausible size are read, all else is named and refused."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import pytest

from sacbbf.disk.reading import Unreadable, copy_file, is_there, open_file, open_to_append, read_file, read_json


def make_pipe(path):
    os.mkfifo(path)


def make_device(path):
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)


def make_sparse(path):
    with path.open("wb") as file:
        file.truncate(1 << 40)


def make_link_to(target):
    return lambda path: path.symlink_to(target)


IMPOSTORS = {
    "a pipe": (make_pipe, "it is a pipe, not a file"),
    "a folder": (Path.mkdir, "it is a directory, not a file"),
    "a socket": (make_socket, "it is a socket, not a file"),
    "a huge file": (make_sparse, "1,099,511,627,776 bytes, and more than 100 are not plausible"),
    "a link out": (make_link_to("/etc/hostname"), "it is a link that leads out of its folder, to /etc/hostname"),
    "a link to a device": (make_link_to("/dev/zero"), "it is a link that leads out of its folder, to /dev/zero"),
    "a link to nothing": (make_link_to("nothing"), "No such file"),
    "a link to itself": (make_link_to("file"), "symbolic links"),
}


@pytest.fixture
def alarm():
    """Nothing here may wait for a pipe's other end."""
    signal.alarm(20)
    yield
    signal.alarm(0)


@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("kind", IMPOSTORS)
def test_what_is_no_plain_file_is_refused_without_waiting(kind, working_directory):
    make, wrong = IMPOSTORS[kind]
    path = working_directory / "file"
    make(path)
    for read in (read_file, open_file):
        with pytest.raises(Unreadable) as caught:
            read(path, 100)
        assert str(caught.value).startswith(f"cannot read {path}: ")
        assert wrong in str(caught.value) and "; put" in str(caught.value)
    assert is_there(path)


def test_a_device_is_refused_unopened(working_directory, monkeypatch):
    path = working_directory / "file"
    try:
        make_device(path)
    except PermissionError:
        pytest.skip("devices cannot be made here")
    monkeypatch.setattr("os.open", lambda *_: pytest.fail("it was opened"))
    with pytest.raises(Unreadable, match="it is a device"):
        open_file(path, 100)


def test_a_link_may_stay_in_its_folder_and_one_that_was_typed_may_lead_anywhere(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/file").write_bytes(b"inside")
    (tmp_path / "run/link").symlink_to("file")
    assert read_file(tmp_path / "run/link", 6) == b"inside"
    (tmp_path / "way").symlink_to("run")  # the folder itself is where its user says
    assert read_file(tmp_path / "way/link", 6) == b"inside"
    (tmp_path / "link").symlink_to("run/file")
    assert read_file(tmp_path / "link", 6) == b"inside"
    (tmp_path / "run/out").symlink_to("../outside")
    (tmp_path / "outside").write_bytes(b"outside")
    with pytest.raises(Unreadable, match="leads out"):
        read_file(tmp_path / "run/out", 100)
    assert read_file(tmp_path / "run/out", 100, typed=True) == b"outside"


@pytest.mark.parametrize("path", ["nothing", "file/nothing"])
def test_a_file_that_is_not_there_is_no_damage(path, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / path, 100)
    assert not is_there(tmp_path / path)


def test_no_more_is_read_than_is_plausible(tmp_path):
    (tmp_path / "file").write_bytes(bytes(101))
    assert len(read_file(tmp_path / "file", 101)) == 101
    with pytest.raises(Unreadable, match="has 101 bytes"):
        read_file(tmp_path / "file", 100)
    with pytest.raises(Unreadable, match="holds more than 10 bytes"):  # it claims to be empty
        read_file(Path("/proc/self/status"), 10, typed=True)


def test_nothing_stays_open(tmp_path):
    make_sparse(tmp_path / "huge")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        with pytest.raises(Unreadable):
            open_file(tmp_path / "huge", 100)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 200_000, b'{"a": ' * 200_000, b"[]", b"3"])
def test_what_is_no_object_is_refused(content, tmp_path):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(Unreadable, match="it is not a run's result: "):
        read_json(tmp_path / "file", 1 << 24, "a run's result")


@pytest.mark.parametrize("number", [1 << 64, -(1 << 63) - 1, 10**400])
def test_whole_numbers_that_nothing_counts_are_refused(number, tmp_path):
    path = tmp_path / "file"
    path.write_text(json.dumps({"x": [(1 << 64) - 1, -(1 << 63), 1e300]}))
    assert read_json(path, 1 << 20, "a file")["x"] == [(1 << 64) - 1, -(1 << 63), 1e300]
    path.write_text(json.dumps({"x": [number]}))
    with pytest.raises(Unreadable, match="it is not a file: a whole number has more than 64 bits"):
        read_json(path, 1 << 20, "a file")


def test_a_copy_is_made_of_files_alone(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    copy_file(tmp_path / "file", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"content"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Unreadable, match="a pipe"):
        copy_file(tmp_path / "pipe", tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.usefixtures("alarm")
def test_nothing_is_written_through_a_link_or_into_a_pipe(working_directory):
    with open_to_append(working_directory / "log") as file:
        file.write(b"one")
    with open_to_append(working_directory / "log") as file:
        file.write(b"two")
    assert (working_directory / "log").read_bytes() == b"onetwo"
    make = {"pipe": make_pipe, "folder": Path.mkdir, "socket": make_socket, "link": make_link_to("log")}
    for name, put in make.items():
        put(working_directory / name)
        with pytest.raises(Unreadable, match="it is not a file of its own; remove it"):
            open_to_append(working_directory / name)
    assert (working_directory / "log").read_bytes() == b"onetwo"
