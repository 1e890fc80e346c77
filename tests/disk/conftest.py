"""Crash points that take an action within the test, and are silent again after it."""

from __future__ import annotations

import pytest

from sacbbf.disk import faults


@pytest.fixture
def armed():
    """Function that arms a crash point of this process: point, count, action."""
    yield faults.arm
    faults.disarm()
