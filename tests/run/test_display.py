"""Progress on the terminal: what others print is not lost, and the time left is told from this process's own speed."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from sacbbf.run.display import LINE_EVERY, Display


@pytest.fixture
def clock(monkeypatch):
    """Seconds that have passed; a test may add to them."""
    passed = SimpleNamespace(seconds=0.0)
    stand_in = SimpleNamespace(monotonic=lambda: passed.seconds)
    monkeypatch.setattr("sacbbf.run.display.time", stand_in)
    return passed


def test_a_quiet_display_lets_others_print(capsys):
    with Display(Console(quiet=True, force_terminal=True), None) as display:
        display.begin("learning", 2)
        print("from a callback")
        display.advance()
    assert capsys.readouterr().out == "from a callback\n"


def test_a_terminal_has_a_live_line():
    shown = io.StringIO()
    with Display(Console(file=shown, force_terminal=True, width=120), None) as display:
        display.begin("learning", 2)
        display.advance()
    assert "learning" in shown.getvalue() and "1/2" in shown.getvalue()


@pytest.mark.parametrize(("done", "left"), [(0, "0:33:00"), (80, "0:06:20")])
def test_the_time_left_is_told_from_the_speed_since_this_process_began(done, left, clock):
    """One step in 20 seconds: 99 or 19 are left."""
    said = io.StringIO()
    with Display(Console(file=said, soft_wrap=True), None) as display:
        display.begin("training", 100, done)
        clock.seconds += 20.0
        display.advance()
    assert said.getvalue() == f"training {done + 1}/100, {left} left\n"


def test_log_lines_come_at_intervals(clock):
    said = io.StringIO()
    with Display(Console(file=said, soft_wrap=True), None) as display:
        display.begin("training", 100)
        for _ in range(9):
            clock.seconds += LINE_EVERY / 3
            display.advance()
    assert [line.split(",")[0] for line in said.getvalue().splitlines()] == [f"training {n}/100" for n in (3, 6, 9)]
