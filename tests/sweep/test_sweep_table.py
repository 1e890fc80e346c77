"""A sweep on the terminal: counts, the time left, and a line for each cell that has ended."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from small_sweep import CARTPOLE, STEPS, begun, put_result, small_spec

from sacbbf.disk.lease import Lease
from sacbbf.sweep import table as tables
from sacbbf.sweep.outcome import Outcome
from sacbbf.sweep.spec import Cell, Variant
from sacbbf.sweep.status import CellState
from sacbbf.sweep.table import LiveTable, details, duration, overview, time_left

SPEC = small_spec(4, variants=(Variant("sac-bbf"), Variant("blind")))


def cell(seed, agent="sac-bbf"):
    return Cell(Variant(agent), CARTPOLE, seed)


STATES = [
    CellState(cell(0), "finished", STEPS, score=1.0),
    CellState(cell(1), "running", 50, 10.0, learns=True),
    CellState(cell(2), "failed", 30, why="[no] luck"),
    CellState(cell(3), "waiting"),
    CellState(cell(0, "blind"), "finished", 7_000, score=1.0),
    CellState(cell(1, "blind"), "stopped"),
]


def printed(thing):
    out = io.StringIO()
    Console(file=out, width=120).print(thing)
    return out.getvalue()


def rows(states):
    lines = [line.split("│") for line in printed(overview(states, SPEC)).splitlines() if "│" in line]
    return {line[1].strip(): [part.strip() for part in line[2:-1]] for line in lines}


def test_the_table_counts_states_and_steps():
    assert rows(STATES) == {
        "sac-bbf": ["1", "1", "-", "1", "1", "230/600"],
        "blind": ["1", "-", "1", "-", "-", "0/0"],
        "all": ["2", "1", "1", "1", "1", "230/600"],
    }


def test_a_single_variant_needs_no_sum():
    assert list(rows(STATES[:4])) == ["sac-bbf"]


def test_cells_at_work_and_failed_ones_have_a_line():
    name = "sac-bbf/CartPole-v1/seed"
    assert details(STATES, SPEC) == [f"{name}1: 50/150 steps, 10.0 steps/s", f"{name}2 failed: [no] luck"]
    assert details([CellState(cell(0), "running", STEPS)], SPEC) == [f"{name}0: evaluating"]


def test_a_long_list_of_failures_is_cut():
    lines = details([CellState(cell(seed), "failed", why="x") for seed in range(23)], SPEC)
    assert len(lines) == 21 and lines[-1] == "and 3 more that failed"


def test_the_time_left_is_that_of_cells_which_are_neither_finished_nor_given_up():
    assert time_left(STATES, SPEC) == (100 + 150) / 10
    assert time_left([STATES[0], STATES[3]], SPEC) is None


def test_the_speed_of_a_warm_up_says_nothing_of_the_time_left():
    warming = CellState(cell(1), "running", 50, 5_000.0)
    assert time_left([warming, STATES[3]], SPEC) is None
    learning = CellState(cell(2), "running", 50, 10.0, learns=True)
    assert time_left([warming, learning, STATES[3]], SPEC) == (100 + 100 + 150) / 20  # both will be as fast


def test_once_cells_have_finished_the_others_take_as_long():
    """100 of 150 steps and 150 more are ahead, at 3 s a step, one cell at a time."""
    finished = CellState(cell(0), "finished", STEPS, score=1.0, seconds=3.0 * STEPS)
    assert time_left([finished, *STATES[1:]], SPEC) == 3.0 * 250
    assert time_left([finished, STATES[3]], SPEC) == 3.0 * 150  # none is at work: as one worker would
    assert time_left([finished], SPEC) is None
    two = [finished, STATES[1], CellState(cell(3), "running", 0)]
    assert time_left(two, SPEC) == 3.0 * 250 / 2


def test_the_search_of_blind_play_takes_no_time_off():
    searching = CellState(cell(2, "blind"), "running", 5_000)
    assert time_left([*STATES, searching], SPEC) == time_left(STATES, SPEC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "less than a minute"),
        (29, "less than a minute"),
        (60, "1 min"),
        (3_599, "1 h"),
        (5_400, "1 h 30 min"),
        (86_400, "1 d"),
        (93_600 + 120, "1 d 2 h"),
    ],
)
def test_times_are_short_words(seconds, words):
    assert duration(seconds) == words


@pytest.fixture
def live(tmp_path):
    """A table without a terminal, and what it prints."""
    spec = small_spec(2)
    directory = begun(tmp_path / "sweep", spec)
    out = io.StringIO()
    states = [CellState(one, "waiting") for one in spec.cells()]
    with LiveTable(Console(file=out, width=40), directory, spec, states) as table:
        yield table, out


def test_without_a_terminal_each_cell_that_ends_has_a_line(live):
    table, out = live
    first, second = table.spec.cells()
    for one in (first, second):
        table.started(one)
    table.tick()
    assert out.getvalue() == ""
    put_result(table.directory, first)
    table.ended(first, Outcome("finished"), "score 1.50")
    table.ended(second, Outcome("failed", "no [luck]"), "given up after 3 attempts")
    assert out.getvalue().splitlines() == [
        f"[1/2] {first.name} finished score 1.50",
        f"[1/2] {second.name} failed: no [luck]; given up after 3 attempts",
    ]


def test_without_a_terminal_there_is_a_line_from_time_to_time(live, monkeypatch):
    table, out = live
    monkeypatch.setattr(tables, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(tables, "LINE_EVERY", 0.0)
    table.started(table.spec.cells()[0])
    table.tick()
    assert out.getvalue() == "0/300 steps, 1 at work, time left unknown\n"


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """A table of five cells that were handed to an executor which queues them."""
    monkeypatch.setattr(tables, "LOOK_EVERY", 0.0)
    spec = small_spec(5)
    directory = begun(tmp_path / "sweep", spec)
    states = [CellState(one, "waiting") for one in spec.cells()]
    with LiveTable(Console(file=io.StringIO()), directory, spec, states, queues=True) as table:
        for one in spec.cells():
            table.started(one)
        yield table


def states_of(table):
    return [state.state for state in table.states.values()]


def test_a_queued_cell_waits_until_its_run_is_held(queue):
    first, second, third = queue.spec.cells()[:3]
    queue.tick()
    assert states_of(queue) == ["waiting"] * 5
    queue.directory.run(first).path.mkdir(parents=True)
    with Lease.acquire(queue.directory.run(first).path):
        queue.tick()
        assert states_of(queue) == ["running", *["waiting"] * 4]
        assert "0/750 steps, 1 at work" in printed(queue.view())
    queue.tick()  # preempted: it is queued again
    assert states_of(queue) == ["waiting"] * 5
    put_result(queue.directory, second)
    queue.ended(second, Outcome("finished"), "")
    queue.ended(third, Outcome("stopped", "interrupt"), "")
    queue.tick()
    assert states_of(queue) == ["waiting", "finished", *["waiting"] * 3]


def test_where_cells_are_many_they_take_turns_to_be_looked_at(queue, monkeypatch):
    looked = []

    def look(directory, one):
        looked.append(one.seed)
        return CellState(one, "waiting")

    monkeypatch.setattr(tables, "LOOKS", 2)
    monkeypatch.setattr(tables, "cell_state", look)
    for _ in range(5):
        queue.tick()
    assert looked == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]


def test_the_view_shows_the_table_the_cells_at_work_and_the_time_left(live):
    table, _ = live
    first = table.spec.cells()[0]
    table.started(first)
    text = printed(table.view())
    assert f"{first.name}: 0/150 steps" in text and "time left unknown" in text and "agent" in text
