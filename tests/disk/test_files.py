"""Files are whole or not there, whatever happens while they are written."""

from __future__ import annotations

import errno
import os
import signal
import stat

import pytest
from children import start

from sacbbf.disk import files
from sacbbf.disk.files import Damaged, checksum, copy_prefix, read_checked, write_atomically

OLD, NEW = b"old" * 10, b"new" * 1000
BEFORE = ["before write", "inside write", "after write", "after fsync"]
AFTER = ["after rename", "after directory fsync"]


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


class TestWriteAtomically:
    @pytest.mark.parametrize("held", [None, OLD])
    @pytest.mark.parametrize("content", [b"", b"x", NEW])
    def test_replaces_the_content(self, content, held, tmp_path):
        path = tmp_path / "file"
        if held is not None:
            path.write_bytes(held)
        write_atomically(path, content)
        assert path.read_bytes() == content
        assert names(tmp_path) == ["file"]

    def test_others_may_read_what_the_umask_lets_them(self, tmp_path):
        (tmp_path / "plain").write_bytes(b"")
        write_atomically(tmp_path / "file", NEW)
        assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode

    @pytest.mark.parametrize("point", BEFORE + AFTER)
    def test_a_process_killed_at_any_point_leaves_the_old_file_or_the_new_one(self, point, tmp_path):
        path = tmp_path / "file"
        path.write_bytes(OLD)
        code = "files.write_atomically(Path(sys.argv[1]), b'new' * 1000, role='the file')"
        child = start(code, path, SACBBF_CRASH_AT=f"the file: {point}#1")
        child.communicate(timeout=20)
        assert child.returncode == -signal.SIGKILL
        assert path.read_bytes() == (OLD if point in BEFORE else NEW)
        assert [name for name in names(tmp_path) if not name.startswith(".")] == ["file"]
        files.remove_temporaries(tmp_path)
        assert names(tmp_path) == ["file"]

    def test_half_of_the_content_is_in_the_temporary_inside_the_write(self, tmp_path, armed):
        found = []
        aside = tmp_path / "aside"
        aside.mkdir()
        armed("file: inside write", 1, lambda: found.extend(path.read_bytes() for path in aside.iterdir()))
        write_atomically(tmp_path / "file", NEW, folder=aside)
        assert found == [NEW[: len(NEW) // 2]]
        assert names(aside) == []

    @pytest.mark.parametrize("call", ["write", "fsync"])
    def test_a_full_disk_leaves_the_old_file_and_no_temporary(self, call, tmp_path, monkeypatch):
        path = tmp_path / "file"
        path.write_bytes(OLD)
        with monkeypatch.context() as patch:
            patch.setattr(os, call, full)
            with pytest.raises(OSError, match="No space left"):
                write_atomically(path, NEW)
        assert path.read_bytes() == OLD
        assert names(tmp_path) == ["file"]

    def test_a_disk_that_fills_up_on_the_way_does_too(self, tmp_path, monkeypatch):
        path, write = tmp_path / "file", os.write
        path.write_bytes(OLD)
        left = [1000]

        def short_write(descriptor, content):
            if not left[0]:
                full()
            done = write(descriptor, content[: min(300, left[0])])
            left[0] -= done
            return done

        monkeypatch.setattr(os, "write", short_write)
        with pytest.raises(OSError, match="No space left"):
            write_atomically(path, NEW)
        assert (path.read_bytes(), names(tmp_path)) == (OLD, ["file"])
        left[0] = 100_000  # writes that take only a part at a time are gone on with
        write_atomically(path, NEW)
        assert path.read_bytes() == NEW

    def test_a_refused_confirmation_leaves_the_old_file(self, tmp_path):
        path = tmp_path / "file"
        path.write_bytes(OLD)
        with pytest.raises(OSError, match="No space left"):
            write_atomically(path, NEW, confirm=full)
        assert (path.read_bytes(), names(tmp_path)) == (OLD, ["file"])

    def test_what_has_its_name_was_flushed_before(self, tmp_path, monkeypatch):
        calls, fsync, replace = [], os.fsync, os.replace

        def flush(descriptor):
            found = os.fstat(descriptor)
            calls.append("flush folder" if stat.S_ISDIR(found.st_mode) else f"flush {found.st_size} bytes")
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", flush)
        monkeypatch.setattr(os, "replace", lambda *paths: (calls.append("rename"), replace(*paths)))
        write_atomically(tmp_path / "file", NEW)
        assert calls == ["flush 3000 bytes", "rename", "flush folder"]


class TestReadChecked:
    def test_returns_what_checks_out(self, tmp_path):
        (tmp_path / "file").write_bytes(NEW)
        assert read_checked(tmp_path / "file", len(NEW), checksum(NEW)) == NEW

    @pytest.mark.parametrize(
        ("content", "wrong"),
        [
            (None, "is missing"),
            (NEW[:-1], "truncated to 2999 of 3000 bytes"),
            (NEW + b"x", "3001 instead of 3000 bytes"),
            (NEW[:-1] + b"x", "wrong checksum"),
        ],
    )
    def test_names_the_file_and_what_is_wrong(self, content, wrong, tmp_path):
        path = tmp_path / "file"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(Damaged, match=wrong) as caught:
            read_checked(path, len(NEW), checksum(NEW))
        assert str(path) in str(caught.value)

    def test_a_giant_file_is_not_read(self, tmp_path):
        with (tmp_path / "file").open("wb") as file:
            file.truncate(1 << 40)
        with pytest.raises(Damaged, match="are not plausible"):
            read_checked(tmp_path / "file", len(NEW), checksum(NEW))

    def test_what_is_no_file_is_damaged(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path, tmp_path / "pipe"):
            with pytest.raises(Damaged, match="not a file"):
                read_checked(path, 1, checksum(b"x"))

    def test_an_error_of_the_disk_is_damage(self, tmp_path, monkeypatch):
        (tmp_path / "file").write_bytes(NEW)
        monkeypatch.setattr("sacbbf.disk.files.open_file", full)
        with pytest.raises(Damaged, match="cannot be read: No space left"):
            read_checked(tmp_path / "file", len(NEW), checksum(NEW))


class TestCopyPrefix:
    @pytest.mark.parametrize("size", [0, 1, 2, 2999, 3000])
    def test_holds_the_first_bytes_in_a_new_file(self, size, tmp_path):
        path = tmp_path / "file"
        path.write_bytes(NEW)
        with path.open("ab") as former:
            copy_prefix(path, size, tmp_path, "lines")
            former.write(b"of a former writer")
        assert path.read_bytes() == NEW[:size]
        assert names(tmp_path) == ["file"]

    def test_more_than_a_piece(self, tmp_path):
        path, content = tmp_path / "file", os.urandom(5 * files.PIECE // 2)
        path.write_bytes(content)
        copy_prefix(path, len(content) - 7, tmp_path)
        assert path.read_bytes() == content[:-7]

    def test_a_file_that_is_too_short_is_left_as_it_is(self, tmp_path):
        path = tmp_path / "file"
        path.write_bytes(OLD)
        with pytest.raises(Damaged, match="truncated to 30 of 31 bytes"):
            copy_prefix(path, 31, tmp_path)
        assert (path.read_bytes(), names(tmp_path)) == (OLD, ["file"])

    def test_a_missing_file_is_damaged_unless_it_was_empty(self, tmp_path):
        with pytest.raises(Damaged, match="is missing"):
            copy_prefix(tmp_path / "file", 1, tmp_path)
        copy_prefix(tmp_path / "file", 0, tmp_path)
        assert (tmp_path / "file").read_bytes() == b""

    @pytest.mark.parametrize("size", [0, 1, 30])
    def test_passes_the_same_crash_points(self, size, tmp_path):
        path = tmp_path / "file"
        path.write_bytes(OLD)
        log = tmp_path / "log"
        code = "files.copy_prefix(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[1]).parent, 'lines')"
        start(code, path, size, SACBBF_CRASH_LOG=str(log)).communicate(timeout=20)
        assert log.read_text().splitlines() == [f"lines: {point}" for point in BEFORE + AFTER]

    def test_a_full_disk_leaves_the_old_file(self, tmp_path, monkeypatch):
        path = tmp_path / "file"
        path.write_bytes(OLD)
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            copy_prefix(path, 10, tmp_path)
        assert (path.read_bytes(), names(tmp_path)) == (OLD, ["file"])


def test_a_file_system_that_cannot_flush_directories_is_no_error(tmp_path, monkeypatch):
    def refuse(code):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", lambda _: refuse(errno.EINVAL))
    files.sync_directory(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda _: refuse(errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        files.sync_directory(tmp_path)
