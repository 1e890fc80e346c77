"""Leases of little patience for the tests, and what is looked at and changed around them."""

from __future__ import annotations

import json
import time

import pytest

from sacbbf.disk.lease import Lease

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


def leave_behind(run):
    """Make a state folder whose holder is dead."""
    acquire(run).release()
    change_lease(run / "state.000001", pid=NOBODY, released=False)
    return run / "state.000001"
