"""Crash points: silent unless asked for, and then exactly where and when they were asked for."""

from __future__ import annotations

import signal

import pytest
from children import finish, start

from sacbbf.disk import faults
from sacbbf.errors import UsageError

THREE = """
from sacbbf.disk.faults import reach
for point in ("one", "two", "one"):
    reach(point)
    print(point, flush=True)
"""


def hit():
    raise InterruptedError


def test_points_do_nothing_by_default():
    assert finish(start(THREE)) == "one\ntwo\none\n"


@pytest.mark.parametrize(("at", "printed"), [("one#1", ""), ("one#2", "one\ntwo\n"), ("two#1", "one\n")])
def test_the_process_dies_at_the_point_and_visit_asked_for(at, printed, tmp_path):
    log = tmp_path / "points"
    child = start(THREE, SACBBF_CRASH_AT=at, SACBBF_CRASH_LOG=str(log))
    assert child.communicate(timeout=20)[0] == printed
    assert child.returncode == -signal.SIGKILL
    assert log.read_text().splitlines()[-1] == at.partition("#")[0]


def test_the_log_lists_all_points_in_order_and_goes_on_with_an_old_one(tmp_path):
    log = tmp_path / "points"
    for _ in range(2):
        finish(start(THREE, SACBBF_CRASH_LOG=str(log)))
    assert log.read_text() == "one\ntwo\none\n" * 2


@pytest.mark.parametrize("value", ["", "one", "one#", "#1", "one#0", "one#-1", "one#x", "one#1#2", "one#²"])
def test_a_malformed_point_is_refused(value):
    with pytest.raises(UsageError, match=r"SACBBF_CRASH_AT=.*point name#count") as caught:
        faults.plan_from({"SACBBF_CRASH_AT": value})
    assert repr(value) in str(caught.value)


def test_a_log_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(UsageError, match="SACBBF_CRASH_LOG"):
        faults.plan_from({"SACBBF_CRASH_LOG": str(tmp_path / "none" / "log")})


def test_armed_points_act_once_and_only_when_due(armed):
    armed("here", 2, hit)
    faults.reach("here")
    faults.reach("there")
    with pytest.raises(InterruptedError):
        faults.reach("here")
    faults.reach("here")
    armed("here", 1, hit)
    faults.disarm()
    faults.reach("here")
