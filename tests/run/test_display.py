"""Progress on the terminal: what others print is not lost, and the time left is told from this process's own speed."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from sacbbf.run.display import LINE_EVERY, Display, Pace, fitting
from sacbbf.run.display import clock as words


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


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "?"),
        (0, "0:00:00"),
        (59.6, "0:01:00"),
        (3_723, "1:02:03"),
        (86_399, "23:59:59"),
        (86_400, "1 d 00:00"),
        (260_100, "3 d 00:15"),
    ],
)
def test_the_time_left_goes_on_beyond_a_day(seconds, shown):
    assert words(seconds) == shown


def test_the_time_left_follows_the_last_minute(clock):
    """A warm-up at 100 steps a second, then one a second: what was fast is forgotten."""
    pace = Pace(0, 10_000)
    for step in range(100, 1_001, 100):
        clock.seconds += 1.0
        pace.note(step)
    assert pace.left == 90.0
    for step in range(1_001, 1_201):
        clock.seconds += 1.0
        pace.note(step)
    assert pace.left == pytest.approx(8_800.0)


def test_many_fast_parts_take_little_room(clock):
    pace = Pace(0, 10**6)
    for step in range(1, 10_001):
        clock.seconds += 0.001
        pace.note(step)
    assert len(pace.marks) < 20 and pace.left == pytest.approx(990.0)


@pytest.mark.parametrize("width", [60, 80, 120, 160])
@pytest.mark.parametrize("name", ["training", "evaluating random play"])
def test_a_line_keeps_bar_steps_and_time_left(width, name, clock):
    shown = io.StringIO()
    display = Display(Console(file=shown, force_terminal=True, width=width, color_system=None), "Pong")
    display.begin(name, 100_000, 41_999)
    display.speed(123.4, 246.8)
    display.episode(-20.5)
    clock.seconds += 2.0
    display.advance()
    display.console.print(display._progress)
    (line,) = shown.getvalue().splitlines()
    assert len(line) <= width
    assert "━" in line
    if width >= 80:
        assert f"{name} " in line and "42,000/100,000" in line and "1 d 08:13 left" in line
    if width >= 120:
        assert "score -20.5" in line and "best -20.5" in line
    assert ("123.4 steps/s" in line) == (width == 160)


def test_what_comes_first_stays_where_room_is_short():
    parts = ["score 1.0", "best 2.0", "10 steps/s"]
    assert [fitting(parts, room) for room in (8, 9, 19, 100)] == [
        "",
        "score 1.0",
        "score 1.0; best 2.0",
        "score 1.0; best 2.0; 10 steps/s",
    ]
