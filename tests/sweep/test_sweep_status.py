"""How far a sweep has come, as its files show it."""

from __future__ import annotations

import gc
import json
import os
import time

import pytest
from small_sweep import begun, put_result, small_spec

from sacbbf.disk.lease import Lease
from sacbbf.run.records import RunDirectory
from sacbbf.sweep.spec import Variant
from sacbbf.sweep.status import CellState, cell_state, last_line, saved_step, steps_done, sweep_states


@pytest.fixture
def directory(tmp_path):
    return begun(tmp_path / "sweep", small_spec())


@pytest.fixture
def cell():
    return small_spec().cells()[0]


def put_speed(directory, cell, *lines):
    run = directory.run(cell)
    run.path.mkdir(parents=True, exist_ok=True)
    run.record("speed").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_cell_without_files_is_waiting(directory, cell):
    assert cell_state(directory, cell) == CellState(cell, "waiting")


def test_a_cell_with_a_result_is_finished(directory, cell):
    put_result(directory, cell, score=2.5, steps=150)
    assert cell_state(directory, cell) == CellState(cell, "finished", 150, score=2.5)


def test_a_cell_whose_run_is_held_is_running(directory, cell):
    put_speed(directory, cell, {"step": 10, "steps_per_second": 5.0}, {"step": 20, "steps_per_second": 7.5})
    with Lease.acquire(directory.run(cell).path):
        assert cell_state(directory, cell) == CellState(cell, "running", 20, 7.5)
    assert cell_state(directory, cell).state == "stopped"


def test_a_cell_learns_if_updates_were_made_at_its_speed(directory, cell):
    warming, learning = ({"step": 9, "steps_per_second": 5.0, "updates_per_second": count} for count in (0.0, 2.5))
    put_speed(directory, cell, warming)
    with Lease.acquire(directory.run(cell).path):
        assert cell_state(directory, cell) == CellState(cell, "running", 9, 5.0)
        put_speed(directory, cell, warming, learning)
        assert cell_state(directory, cell) == CellState(cell, "running", 9, 5.0, learns=True)


def test_a_cell_that_was_interrupted_is_stopped(directory, cell):
    put_result(directory, cell, finished=False, score=None)
    put_speed(directory, cell, {"step": 30, "steps_per_second": 5.0})
    assert cell_state(directory, cell) == CellState(cell, "stopped", 30)


def test_a_holder_of_another_machine_that_shows_no_life_counts_as_stopped(directory, cell):
    run = directory.run(cell)
    run.path.mkdir(parents=True)
    lease = Lease.acquire(run.path)
    path = lease.folder / "lease.json"
    strange = json.dumps(json.loads(path.read_text()) | {"boot": "another"})
    lease.release()
    path.write_text(strange)
    assert cell_state(directory, cell).state == "running"
    long_ago = time.time() - 3600
    os.utime(lease.folder, (long_ago, long_ago))
    assert cell_state(directory, cell).state == "stopped"


def test_a_cell_that_was_given_up_has_failed_until_it_is_at_work_again(directory, cell):
    put_speed(directory, cell, {"step": 40, "steps_per_second": 5.0})
    directory.give_up(cell, 3, "no luck")
    assert cell_state(directory, cell) == CellState(cell, "failed", 40, why="no luck")
    with Lease.acquire(directory.run(cell).path):
        assert cell_state(directory, cell).state == "running"
    put_result(directory, cell)
    assert cell_state(directory, cell).state == "finished"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_a_damaged_result_is_a_failure_that_names_the_file(content, directory, cell):
    put_result(directory, cell)
    path = directory.run(cell).result
    path.write_bytes(content)
    found = cell_state(directory, cell)
    assert found.state == "failed" and str(path) in found.why


def test_a_result_of_other_kinds_is_a_failure(directory, cell):
    put_result(directory, cell, steps="many")
    assert cell_state(directory, cell).state == "failed"


@pytest.mark.parametrize("line", [{"step": None}, {"step": "x"}, {"step": 1, "steps_per_second": []}])
def test_a_record_that_makes_no_sense_is_a_failure(line, directory, cell):
    put_speed(directory, cell, line)
    found = cell_state(directory, cell)
    assert found.state == "failed" and found.why


def test_the_result_of_a_finished_cell_is_read_once_until_it_is_written_again(directory, cell, monkeypatch):
    put_result(directory, cell, score=1.0)
    read, reads = RunDirectory.read_result, []
    monkeypatch.setattr(RunDirectory, "read_result", lambda run: (reads.append(run), read(run))[1])
    assert [cell_state(directory, cell).score for _ in range(3)] == [1.0] * 3
    assert len(reads) == 1
    put_result(directory, cell, score=22.0)
    assert [cell_state(directory, cell).score for _ in range(3)] == [22.0] * 3
    assert len(reads) == 2


def test_a_result_that_appears_is_seen(directory, cell):
    put_result(directory, cell, finished=False)
    assert cell_state(directory, cell).state == "stopped"
    put_result(directory, cell)
    assert cell_state(directory, cell).state == "finished"


def test_steps_done_are_those_that_train():
    """The search of blind play takes steps too, and trains nothing."""
    spec = small_spec(2, variants=(Variant("sac-bbf"), Variant("blind")))
    cells = {(cell.variant.agent, cell.seed): cell for cell in spec.cells()}
    states = [
        CellState(cells["sac-bbf", 0], "finished", 150),
        CellState(cells["sac-bbf", 1], "running", 40),
        CellState(cells["blind", 0], "finished", 7_000),
        CellState(cells["blind", 1], "running", 3_000),
    ]
    assert steps_done(states, spec) == 190


def test_the_last_whole_line_counts(tmp_path):
    path = tmp_path / "lines"
    assert last_line(path) == {}
    for content, expected in [
        ("", {}),
        ('{"step": 1}', {}),
        ('{"step": 1}\n', {"step": 1}),
        ('{"step": 1}\n{"step": 2}\n{"st', {"step": 2}),
        ('{"step": 1}\n{"step": \n', {}),
        ("[1]\n", {}),
        ('{"step": 1}\n' * 5_000 + '{"step": 2}\n{"', {"step": 2}),
    ]:
        path.write_text(content)
        assert last_line(path) == expected, content[-40:]


def test_the_newest_checkpoint_counts(directory, cell):
    run = directory.run(cell)
    assert saved_step(run) == 0
    run.path.mkdir(parents=True)
    with Lease.acquire(run.path) as lease:
        assert saved_step(run) == 0
        for name in ("step-000000020.json", "step-000000100.json", "step-000000040.json", "step-mine.json"):
            (lease.folder / name).touch()
        assert saved_step(run) == 100


def test_ten_thousand_cells_are_looked_at_in_no_time(tmp_path):
    spec = small_spec(10_000)
    directory = begun(tmp_path / "sweep", spec)
    cells = spec.cells()
    for cell in cells[:3_000]:
        run = directory.run(cell)
        run.path.mkdir(parents=True)
        run.result.write_text('{"finished": true, "steps": 150, "score": 1.0}')
    directory.give_up(cells[5_000], 1, "no luck")
    gc.collect()  # else a collection of all that other tests left may fall into the measured time
    start = time.thread_time()
    states = sweep_states(directory, cells)
    assert time.thread_time() - start < 1  # of this thread's CPU time, which nothing else stretches
    assert [state.cell for state in states] == cells
    expected = {"finished": 3_000, "failed": 1, "waiting": 6_999}
    assert {name: sum(state.state == name for state in states) for name in expected} == expected
