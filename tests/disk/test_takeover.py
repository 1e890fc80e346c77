"""Taking a run over: who is followed at once, who is waited for, and that one of several contenders wins."""

from __future__ import annotations

import os
import signal
import time

import pytest
from children import finish, start, start_holder
from leases import NOBODY, acquire, acquire_at_once, change_lease, leave_behind, names

from sacbbf.disk import takeover
from sacbbf.disk.lease import Busy, Lease, state_folder
from sacbbf.errors import UsageError


@pytest.fixture
def left_behind(tmp_path):
    """A state folder whose holder is dead."""
    return leave_behind(tmp_path)


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
        others = ["state.000003", "state.0000012", "state.00000x", "state.000009", "state.9"]
        assert names(run) == sorted(["state.000008", *others])

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
