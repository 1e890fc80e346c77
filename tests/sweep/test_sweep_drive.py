"""The driver: hands out cells, tries failed ones again, gives up, comes back, stops; the executor here is made up."""

from __future__ import annotations

from collections import defaultdict

import pytest
from small_sweep import begun, put_result, small_spec

from sacbbf.run.stop import Stop
from sacbbf.sweep import drive
from sacbbf.sweep.drive import Driver
from sacbbf.sweep.outcome import Outcome

FINISHED, FAILED = Outcome("finished"), Outcome("failed", "no luck")


class Scripted:
    """An executor whose work ends at the next look, as the script of a cell's seed says; without one it finishes."""

    def __init__(self, directory, scripts=None, places=2):
        self.directory, self.places = directory, places
        self.scripts = {seed: list(outcomes) for seed, outcomes in (scripts or {}).items()}
        self.started = []
        self.at_work = []
        self.stops = 0
        self.most = 0

    def free(self):
        return len(self.at_work) < self.places

    def start(self, cell):
        self.started.append(cell)
        self.at_work.append(cell)
        self.most = max(self.most, len(self.at_work))

    def ended(self):
        over, self.at_work = self.at_work, []
        return [(cell, self._outcome(cell)) for cell in over]

    def _outcome(self, cell):
        if self.stops:
            return Outcome("stopped", "interrupt")
        script = self.scripts.get(cell.seed)
        outcome = script.pop(0) if script else FINISHED
        if callable(outcome):
            outcome = outcome()
        if outcome.kind == "finished":
            put_result(self.directory, cell)
        return outcome

    def stop(self):
        self.stops += 1

    def close(self):
        """Nothing is left."""


class Listener:
    """Notes what it is told."""

    def __init__(self):
        self.started_cells = []
        self.told = defaultdict(list)

    def started(self, cell):
        self.started_cells.append(cell)

    def ended(self, cell, outcome, words):
        self.told[cell.seed].append((outcome.kind, words))

    def tick(self):
        """Time has passed."""


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(drive, "PAUSE", 0.0)


@pytest.fixture
def directory(tmp_path):
    return begun(tmp_path / "sweep", small_spec(5))


@pytest.fixture
def cells(directory):
    return directory.read().cells()


def drive_all(executor, cells, retries=2, stop=None):
    """Drive cells to the end; the totals, and what was told."""
    listener = Listener()
    driver = Driver(executor.directory, executor, listener, retries, pause=0.0)
    return driver.run(cells, stop or Stop()), listener


def seeds(cells):
    return sorted(cell.seed for cell in cells)


def test_all_cells_finish_in_order_and_no_more_at_a_time_than_there_are_places(directory, cells):
    executor = Scripted(directory)
    totals, listener = drive_all(executor, cells)
    assert executor.started == listener.started_cells == totals.finished == cells
    assert executor.most == 2
    assert [listener.told[cell.seed] for cell in cells] == [[("finished", "score 1.50")]] * 5


@pytest.mark.parametrize("retries", [0, 2])
def test_a_cell_that_fails_is_given_up_after_its_retries_and_the_rest_goes_on(retries, directory, cells):
    executor = Scripted(directory, {1: [FAILED] * 10})
    totals, listener = drive_all(executor, cells, retries)
    assert executor.started.count(cells[1]) == retries + 1
    assert totals.failed == [cells[1]] and seeds(totals.finished) == [0, 2, 3, 4]
    note = directory.read_failure(cells[1])
    assert (note["why"], note["attempts"]) == ("no luck", retries + 1)
    left = [f"trying again, {count} of {retries} retries left" for count in range(retries, 0, -1)]
    assert [words for _, words in listener.told[1]] == [
        *left,
        f"given up after {retries + 1} attempt{'s' * (retries > 0)}",
    ]


def test_a_cell_that_fails_once_finishes_and_no_failure_is_noted(directory, cells):
    totals, _ = drive_all(Scripted(directory, {1: [FAILED]}), cells)
    assert totals.failed == [] and seeds(totals.finished) == [0, 1, 2, 3, 4]
    assert directory.read_failure(cells[1]) is None


def fail_at(directory, cell, step):
    """A function that fails after a checkpoint."""

    def fail():
        folder = directory.run(cell).path / "state.000001"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"step-{step:09d}.json").touch()
        return FAILED

    return fail


def test_failures_are_counted_anew_when_the_checkpoint_has_advanced(directory, cells):
    failing = [fail_at(directory, cells[0], step) for step in (20, 20, 40, 40, 60)]
    executor = Scripted(directory, {0: failing})
    totals, listener = drive_all(executor, cells[:1], retries=2)
    assert totals.finished == cells[:1] and executor.started == cells[:1] * 6
    left = [words.split()[2] for kind, words in listener.told[0] if kind == "failed"]
    assert left == ["2", "1", "2", "1", "2"]


def test_a_checkpoint_of_before_is_no_progress(directory, cells):
    fail_at(directory, cells[0], 20)()
    executor = Scripted(directory, {0: [FAILED] * 10})
    totals, _ = drive_all(executor, cells[:1], retries=1)
    assert totals.failed == cells[:1] and executor.started == cells[:1] * 2


@pytest.mark.parametrize("kind", ["busy", "stopped"])
def test_a_cell_that_is_busy_or_was_stopped_comes_back_however_often(kind, directory, cells):
    executor = Scripted(directory, {0: [Outcome(kind, "elsewhere")] * 5})
    totals, listener = drive_all(executor, cells, retries=0)
    assert executor.started.count(cells[0]) == 6 and seeds(totals.finished) == [0, 1, 2, 3, 4]
    assert listener.told[0][:-1] == [(kind, "will be tried again")] * 5


class Clock:
    """Time that passes as it is slept through."""

    def __init__(self):
        self.now = 1_000.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def test_a_busy_cell_is_left_alone_for_a_while(directory, cells, monkeypatch):
    clock, begun_at = Clock(), []
    monkeypatch.setattr(drive, "time", clock)
    monkeypatch.setattr(drive, "PAUSE", 0.25)
    executor = Scripted(directory, {0: [Outcome("busy")] * 2}, places=5)
    start = executor.start
    monkeypatch.setattr(executor, "start", lambda cell: (begun_at.append((cell.seed, clock.now)), start(cell)))
    Driver(directory, executor, Listener(), 0, pause=10.0).run(cells, Stop())
    assert begun_at == [*((seed, 1_000.0) for seed in range(5)), (0, 1_010.0), (0, 1_020.0)]


def test_a_wanted_stop_asks_once_and_leaves_the_rest_as_stopped(directory, cells):
    stop = Stop()

    def interrupt():
        stop.reason = "interrupt"
        return FINISHED

    executor = Scripted(directory, {0: [interrupt]}, places=1)
    totals, _ = drive_all(executor, cells, stop=stop)
    assert executor.stops == 1
    assert (totals.finished, totals.failed, totals.stopped) == (cells[:1], [], cells[1:])


def test_a_cell_at_work_when_a_stop_is_wanted_is_waited_for(directory, cells):
    stop = Stop()
    executor = Scripted(directory)
    at_first, looks = executor.ended, []

    def ended():
        looks.append(executor.stops)
        if len(looks) < 4:  # still at work
            stop.reason = "interrupt"
            return []
        return at_first()

    executor.ended = ended
    totals, listener = drive_all(executor, cells, stop=stop)
    assert looks == [0, 1, 1, 1] and executor.started == cells[:2]
    assert seeds(totals.stopped) == [0, 1, 2, 3, 4] and totals.finished == []
    assert listener.told[0] == [("stopped", "goes on when the sweep is started again")]
    assert directory.read_failure(cells[0]) is None
