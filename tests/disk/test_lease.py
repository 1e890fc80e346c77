"""A lease: what its holder may do, and that none that was taken over can change anything."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time

import pytest
from children import finish, start
from leases import acquire, acquire_at_once, change_lease, leave_behind, names, told, wait_until

from sacbbf.disk import takeover
from sacbbf.disk.files import copy_prefix
from sacbbf.disk.lease import Lease, LeaseLost, state_folder
from sacbbf.errors import RunFailed


class TestHolding:
    def test_a_new_run_gets_its_first_folder(self, tmp_path):
        with acquire(tmp_path) as lease:
            assert (lease.fence, lease.folder, lease.lost) == (1, tmp_path / "state.000001", False)
            assert names(tmp_path) == ["state.000001"]
            assert state_folder(tmp_path) == lease.folder
            lease.check()
        assert told(lease)["released"]

    def test_writes_inside_and_outside(self, tmp_path):
        with acquire(tmp_path) as lease:
            lease.write("one", b"1")
            lease.write("sub/sub/two", b"2")
            lease.write(lease.folder / "three", b"3")
            lease.publish(tmp_path / "result.json", b"{}")
        assert (lease.folder / "one").read_bytes() == b"1"
        assert (lease.folder / "sub" / "sub" / "two").read_bytes() == b"2"
        assert (lease.folder / "three").read_bytes() == b"3"
        assert (tmp_path / "result.json").read_bytes() == b"{}"
        assert names(lease.folder) == ["lease.json", "one", "sub", "three"]

    @pytest.mark.parametrize("name", ["../out", "/out", "sub/../../out"])
    def test_write_stays_inside(self, name, tmp_path):
        with acquire(tmp_path) as lease, pytest.raises(ValueError, match="outside"):
            lease.write(name, b"")

    def test_beats_until_it_is_released(self, tmp_path):
        lease = acquire(tmp_path)
        first = told(lease)["beat"]
        wait_until(lambda: told(lease)["beat"] > first + 1)
        lease.release()
        lease.release()
        last = told(lease)
        time.sleep(0.15)
        assert told(lease) == last
        assert last["released"]
        with pytest.raises(RuntimeError, match="given up"):
            lease.write("late", b"")

    def test_a_full_disk_is_no_loss(self, tmp_path, monkeypatch):
        write = os.write
        failures = []

        def full(descriptor, content):
            if threading.current_thread().name == "lease":
                failures.append(1)
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(descriptor, content)

        with acquire(tmp_path) as lease:
            with monkeypatch.context() as patch:
                patch.setattr(os, "write", full)
                wait_until(lambda: len(failures) > 2)
            beat = told(lease)["beat"]
            wait_until(lambda: told(lease)["beat"] > beat)
            assert not lease.lost
            lease.check()
            wait_until(lambda: names(lease.folder) == ["lease.json"])

    def test_another_error_of_a_write_is_told_as_it_is(self, tmp_path, monkeypatch):
        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        with acquire(tmp_path) as lease:
            with monkeypatch.context() as patch:
                patch.setattr(os, "fsync", full)
                with pytest.raises(OSError, match="No space left"):
                    lease.write("file", b"content")
            with pytest.raises(FileNotFoundError):
                lease.publish(tmp_path / "none" / "file", b"content")
            assert not lease.lost

    def test_a_change_of_the_working_directory_is_no_loss(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "run").mkdir()
        with acquire(type(tmp_path)("run")) as lease:
            monkeypatch.chdir("/")
            lease.write("file", b"content")
        assert (tmp_path / "run" / "state.000001" / "file").read_bytes() == b"content"

    @pytest.mark.parametrize(("patience", "beat_every"), [(1, 0.5), (1, 0), (1, -1), (0, 0)])
    def test_patience_must_outlast_some_beats(self, patience, beat_every, tmp_path):
        with pytest.raises(ValueError, match="patience"):
            Lease.acquire(tmp_path, patience=patience, beat_every=beat_every)


class TestDropping:
    def test_the_state_is_gone(self, tmp_path):
        with acquire(tmp_path) as lease:
            lease.write("sub/file", b"content")
            lease.drop()
        assert names(tmp_path) == []
        assert state_folder(tmp_path) is None

    def test_a_lost_state_is_not_dropped(self, tmp_path):
        lease = acquire(tmp_path)
        (tmp_path / "state.000001").rename(tmp_path / "state.000002")
        with pytest.raises(LeaseLost):
            lease.drop()
        assert names(tmp_path) == ["state.000002"]

    def test_the_folder_of_another_owner_is_given_back(self, tmp_path):
        with acquire(tmp_path) as lease:
            lease.write("file", b"content")
            assert not takeover.withdraw(lease.folder, "somebody else")
            lease.check()
        assert names(tmp_path) == ["state.000001"]
        assert names(lease.folder) == ["file", "lease.json"]

    def test_the_next_owner_clears_up_after_one_killed_on_the_way(self, tmp_path):
        dropped, half_made = tmp_path / ".state.000001.abc.dropped", tmp_path / ".state.abc.new"
        leave_behind(tmp_path).rename(dropped)
        half_made.mkdir()
        (half_made / "lease.json").write_bytes((dropped / "lease.json").read_bytes())
        acquire_at_once(tmp_path).release()
        assert names(tmp_path) == ["state.000001"]

    def test_what_a_living_process_is_creating_is_left_alone(self, tmp_path):
        half_made = tmp_path / ".state.abc.new"
        half_made.mkdir()
        with acquire(tmp_path) as lease:
            (half_made / "lease.json").write_bytes((lease.folder / "lease.json").read_bytes())
            takeover.clean_up(tmp_path)
        assert names(tmp_path) == [".state.abc.new", "state.000001"]


STOPPED = """
run = Path(sys.argv[1])
lease = Lease.acquire(run, patience=1, beat_every=0.05)
lease.write("file", b"mine")
lines = (run / "lines").open("ab", buffering=0)
lines.write(b"one\\n")
print("held", flush=True)
sys.stdin.readline()
lines.write(b"two\\n")
for attempt in (
    lambda: lease.write("file", b"late"),
    lambda: lease.write("sub/file", b"late"),
    lambda: lease.publish(run / "result", b"late"),
    lambda: lease.copy_prefix(run / "lines", 0),
    lease.check,
    lease.drop,
):
    try:
        attempt()
        print("done")
    except LeaseLost as error:
        print("lost")
lease.release()
print(lease.lost)
"""


class TestLosing:
    def test_a_stopped_owner_loses_the_run_and_can_do_nothing_about_it(self, tmp_path):
        child = start(STOPPED, tmp_path)
        assert child.stdout.readline() == "held\n"
        child.send_signal(signal.SIGSTOP)
        with Lease.acquire(tmp_path, patience=1, beat_every=0.1) as lease:
            lease.copy_prefix(tmp_path / "lines", 4)
            lease.publish(tmp_path / "result", b"new")
            before = told(lease)["owner"]
            child.send_signal(signal.SIGCONT)
            assert finish(child, "\n").split() == ["lost"] * 6 + ["True"]
            assert (lease.folder / "file").read_bytes() == b"mine"
            assert (tmp_path / "lines").read_bytes() == b"one\n"
            assert (tmp_path / "result").read_bytes() == b"new"
            assert told(lease)["owner"] == before
            assert names(lease.folder) == ["file", "lease.json"]
            assert names(tmp_path) == ["lines", "result", "state.000002"]
            lease.check()

    @pytest.mark.parametrize("point", ["before write", "inside write", "after write", "after fsync"])
    @pytest.mark.parametrize("method", ["write", "publish", "copy_prefix"])
    @pytest.mark.parametrize("begun_again", [False, True])
    def test_an_owner_stopped_inside_a_write_does_not_finish_it(self, begun_again, method, point, tmp_path, armed):
        """Meanwhile the run is taken over, or even dropped and begun again under the same number."""
        lease = acquire(tmp_path, patience=60, beat_every=10)
        lease.write("file", b"mine")
        (tmp_path / "out").write_bytes(b"mine")
        following = []

        def lose():
            lease.folder.rename(tmp_path / "state.000002")
            if begun_again:
                (tmp_path / "state.000002").rename(tmp_path / ".old")
                following.append(acquire(tmp_path, patience=60, beat_every=10))

        attempt = {
            "write": lambda: lease.write("file", b"late", "role"),
            "publish": lambda: lease.publish(tmp_path / "out", b"late", "role"),
            "copy_prefix": lambda: lease.copy_prefix(tmp_path / "out", 2, "role"),
        }
        armed(f"role: {point}", 1, lose)
        with pytest.raises(LeaseLost, match="taken over by another process") as caught:
            attempt[method]()
        assert isinstance(caught.value, RunFailed)
        assert lease.lost
        lease.release()
        for other in following:
            assert names(other.folder) == ["lease.json"]
            other.check()
            other.release()
        assert (tmp_path / "out").read_bytes() == b"mine"
        assert ((tmp_path / ".old" if begun_again else tmp_path / "state.000002") / "file").read_bytes() == b"mine"

    def test_a_lost_folder_is_not_made_again(self, tmp_path, monkeypatch):
        lease = acquire(tmp_path, patience=60, beat_every=10)
        lease.folder.rename(tmp_path / "state.000002")
        monkeypatch.setattr(lease, "check", lambda: None)  # as if it had been passed right before
        with pytest.raises(LeaseLost):
            lease.write("sub/file", b"late")
        assert names(tmp_path) == ["state.000002"]
        lease.release()

    def test_the_heartbeat_notices_a_loss(self, tmp_path):
        lease = acquire(tmp_path)
        (tmp_path / "state.000001").rename(tmp_path / "state.000002")
        wait_until(lambda: lease.lost)
        assert names(tmp_path) == ["state.000002"]
        wait_until(lambda: not lease._heart.is_alive())
        lease.release()

    def test_a_lease_in_another_name_is_a_loss(self, tmp_path):
        lease = acquire(tmp_path, patience=60, beat_every=10)
        change_lease(lease.folder, owner="somebody else")
        with pytest.raises(LeaseLost):
            lease.check()
        lease.release()
        assert told(lease)["owner"] == "somebody else"

    def test_a_lease_that_is_missing_is_none(self, tmp_path):
        with acquire(tmp_path, patience=60, beat_every=10) as lease:
            (lease.folder / "lease.json").unlink()
            lease.check()
            lease.write("file", b"content")

    def test_a_copy_that_the_former_owner_had_begun_does_not_appear(self, tmp_path, armed):
        (tmp_path / "lines").write_bytes(b"one\ntwo\n")
        lease = acquire(tmp_path, patience=60, beat_every=10)
        armed("lines: inside write", 1, lambda: lease.folder.rename(tmp_path / "state.000002"))
        with pytest.raises(FileNotFoundError):
            copy_prefix(tmp_path / "lines", 4, lease.folder)
        assert (tmp_path / "lines").read_bytes() == b"one\ntwo\n"
        lease.release()
