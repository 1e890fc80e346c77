"""A lease: one writer at a time, and none that was taken over can change anything."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
import time

import pytest
from children import finish, start, start_holder

from sacbbf.disk import takeover
from sacbbf.disk.files import copy_prefix
from sacbbf.disk.lease import Busy, Lease, LeaseLost, state_folder
from sacbbf.errors import RunFailed, UsageError

QUICK = {"patience": 0.4, "beat_every": 0.05}
AT_ONCE = 1.0  # seconds that taking a free run may last here
NOBODY = 2**31 - 1  # a number that no process has


def acquire(run, **changes):
    return Lease.acquire(run, **{**QUICK, **changes})


def acquire_at_once(run):
    """Take a run that is free: no waiting, although there would be much patience."""
    since = time.monotonic()
    lease = Lease.acquire(run, patience=60, beat_every=0.05, on_wait=pytest.fail)
    assert time.monotonic() - since < AT_ONCE
    return lease


def told(lease):
    return json.loads((lease.folder / "lease.json").read_text())


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def wait_until(condition):
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def change_lease(folder, **values):
    path = folder / "lease.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.fixture
def left_behind(tmp_path):
    """A state folder whose holder is dead."""
    acquire(tmp_path).release()
    change_lease(tmp_path / "state.000001", pid=NOBODY, released=False)
    return tmp_path / "state.000001"


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

    def test_the_next_owner_clears_up_after_one_killed_on_the_way(self, left_behind):
        run = left_behind.parent
        left_behind.rename(run / ".state.000001.abc.dropped")
        start_creating = run / ".state.abc.new"
        start_creating.mkdir()
        (start_creating / "lease.json").write_bytes((run / ".state.000001.abc.dropped" / "lease.json").read_bytes())
        acquire_at_once(run).release()
        assert names(run) == ["state.000001"]


class TestTakingOver:
    def test_what_was_released_is_free(self, tmp_path):
        acquire(tmp_path).release()
        with acquire_at_once(tmp_path) as lease:
            assert lease.fence == 2
            assert names(tmp_path) == ["state.000002"]

    def test_the_state_goes_along_and_temporaries_do_not(self, left_behind):
        (left_behind / "file").write_bytes(b"content")
        (left_behind / ".file.abc.tmp").write_bytes(b"half")
        with acquire_at_once(left_behind.parent) as lease:
            assert (lease.folder / "file").read_bytes() == b"content"
            assert names(lease.folder) == ["file", "lease.json"]

    def test_a_killed_owner_is_no_obstacle(self, tmp_path):
        child = start_holder(tmp_path)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie, which is dead too
        with acquire_at_once(tmp_path) as lease:
            assert lease.fence == 2
        child.communicate()
        with acquire_at_once(tmp_path) as lease:
            assert lease.fence == 3

    def test_an_owner_killed_while_it_is_waited_for_is_followed(self, tmp_path):
        child = start_holder(tmp_path)
        child.send_signal(signal.SIGSTOP)
        since = time.monotonic()
        with Lease.acquire(tmp_path, patience=20, beat_every=0.05, on_wait=lambda _: child.kill()) as lease:
            assert lease.fence == 2
        assert time.monotonic() - since < 10
        child.communicate()

    def test_a_process_that_got_the_same_number_later_is_not_the_owner(self, left_behind):
        change_lease(left_behind, pid=os.getpid(), started=1)
        acquire_at_once(left_behind.parent).release()

    def test_a_living_owner_is_named(self, tmp_path):
        child = start_holder(tmp_path)
        said = []
        since = time.monotonic()
        with pytest.raises(Busy, match=rf"is being written by process {child.pid} on host ") as caught:
            Lease.acquire(tmp_path, patience=3, beat_every=0.05, on_wait=said.append)
        assert time.monotonic() - since < 1.5
        assert isinstance(caught.value, UsageError)
        assert len(said) == 1
        assert f"process {child.pid} on host" in said[0]
        assert "3 s" in said[0]
        finish(child, "\n")

    def test_an_owner_that_gives_up_meanwhile_is_followed(self, tmp_path):
        lease = acquire(tmp_path, patience=60, beat_every=10)
        with acquire(tmp_path, patience=5, on_wait=lambda _: lease.release()) as following:
            assert following.fence == 2

    @pytest.mark.parametrize(
        "strange",
        [
            {"boot": "another boot"},
            {"namespace": "pid:[1]"},
            {"boot": "", "namespace": ""},
            {"pid": -1},
            {"pid": 2**70},
            {"pid": "7"},
            {"released": 1},
            {"fence": 2, "released": True},
        ],
        ids=str,
    )
    def test_an_owner_that_cannot_be_judged_is_waited_for(self, strange, left_behind):
        change_lease(left_behind, **strange)
        self.waits(left_behind.parent)

    @pytest.mark.parametrize("content", [None, b"", b"\xff", b"{", b"[]", b"null", b"{}", b"[" * 60_000])
    def test_a_lease_that_cannot_be_read_is_waited_for(self, content, left_behind):
        (left_behind / "lease.json").unlink()
        if content is not None:
            (left_behind / "lease.json").write_bytes(content)
        self.waits(left_behind.parent)

    def waits(self, run):
        said = []
        since = time.monotonic()
        with acquire(run, patience=0.2, on_wait=said.append) as lease:
            assert time.monotonic() - since >= 0.2
            assert len(said) == 1
            assert lease.fence == 2

    def test_an_owner_whose_lease_cannot_be_read_still_shows_life(self, tmp_path, monkeypatch):
        with acquire(tmp_path):
            monkeypatch.setattr(takeover.holders, "read_raw", lambda _: None)
            with pytest.raises(Busy, match="an unknown process"):
                acquire(tmp_path)

    def test_lower_numbers_are_left_alone(self, left_behind):
        run = left_behind.parent
        left_behind.rename(run / "state.000007")
        change_lease(run / "state.000007", fence=7)
        for name in ("state.000003", "state.9", "state.00000x", "state.0000012"):
            (run / name).mkdir()
        (run / "state.000009").write_bytes(b"a file")
        with acquire_at_once(run) as lease:
            assert lease.fence == 8
        assert (run / "state.000003").is_dir()

    def test_a_first_folder_made_too_late_is_withdrawn(self, left_behind):
        """A process that saw no folder goes on when the first one has been made and taken over."""
        left_behind.rename(left_behind.with_name("state.000002"))
        assert takeover.create(left_behind.parent) is None
        assert names(left_behind.parent) == ["state.000002"]

    def test_a_takeover_under_way_is_not_overtaken(self, left_behind):
        """Between the rename and the new lease the folder still holds the lease of the dead owner."""
        left_behind.rename(left_behind.with_name("state.000002"))
        seen = takeover.look(left_behind.parent)
        assert seen.holder is None
        assert not seen.free

    def test_a_run_that_does_not_exist_has_no_state(self, tmp_path):
        assert state_folder(tmp_path / "none") is None
        with pytest.raises(FileNotFoundError):
            acquire(tmp_path / "none")


CONTEND = """
print("ready", flush=True)
for run in sys.stdin:
    try:
        lease = Lease.acquire(Path(run.strip()), patience=2, beat_every=0.02)
        print("won", lease.fence, flush=True)
    except Busy:
        print("busy", flush=True)
"""


class TestContending:
    def test_exactly_one_of_several_wins(self, tmp_path):
        """New runs, released ones and those of a dead owner, each wanted by three processes at once."""
        contenders = [start(CONTEND) for _ in range(3)]
        for child in contenders:
            assert child.stdout.readline() == "ready\n"
        for number in range(15):
            run = tmp_path / str(number)
            run.mkdir()
            want = 1
            if number % 3:
                Lease.acquire(run, patience=1, beat_every=0.1).release()
                want = 2
            if number % 3 == 2:
                change_lease(run / "state.000001", pid=NOBODY, released=False)
            for child in contenders:
                child.stdin.write(f"{run}\n")
                child.stdin.flush()
            answers = sorted(child.stdout.readline() for child in contenders)
            assert answers == ["busy\n", "busy\n", f"won {want}\n"]
            assert names(run) == [f"state.{want:06d}"]
        for child in contenders:
            finish(child)


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
