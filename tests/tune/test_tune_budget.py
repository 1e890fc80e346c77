"""Time that was used counts over all sessions; steps are planned so that everything fits."""

from __future__ import annotations

import json
import math

import pytest
from small_tuning import begun, small_tuning, write_result

from sacbbf.disk.reading import Unreadable
from sacbbf.errors import UsageError
from sacbbf.run.records import RunDirectory
from sacbbf.tune.budget import (
    ASIDE,
    MARGIN,
    STARTUP,
    Budget,
    Clock,
    check_hours,
    planned_steps,
    training_seconds,
)
from sacbbf.tune.space import Choice
from sacbbf.tune.tuning import finished


@pytest.fixture
def now(monkeypatch):
    found = [100.0]
    monkeypatch.setattr("sacbbf.tune.budget.time.monotonic", lambda: found[0])
    return found


def test_the_clock_goes_on_where_the_last_session_left_it(tmp_path, now):
    clock = Clock(tmp_path / "clock.json")
    now[0] += 9.0
    clock.tick()
    assert not clock.path.exists()
    now[0] += 3.0
    clock.tick()  # then the process is killed
    now[0] += 1_000.0
    again = Clock(tmp_path / "clock.json")
    now[0] += 5.0
    assert again.used == 17.0
    clock.path.write_text("{")
    with pytest.raises(UsageError, match=r"cannot read .*clock\.json"):
        Clock(tmp_path / "clock.json")


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf, 10**400, "1", None, [], True])
def test_a_clock_that_shows_no_time_is_refused(seconds, tmp_path):
    path = tmp_path / "clock.json"
    path.write_text(json.dumps({"seconds": seconds}))
    with pytest.raises(Unreadable, match=r"clock\.json: it is not a tuning's clock: (seconds = |a whole number)"):
        Clock(path)


@pytest.mark.parametrize("entry", ["score", "wall_seconds", "updates"])
def test_a_finished_run_must_say_what_a_tuning_counts_with(entry, tmp_path):
    run = RunDirectory(tmp_path / "run")
    write_result(run, 1.0)
    result = json.loads(run.result.read_text())
    assert finished(run) == result
    run.result.write_text(json.dumps(result | {"finished": False}))
    assert finished(run) is None
    del result[entry]
    run.result.write_text(json.dumps(result))
    with pytest.raises(Unreadable, match=f"says that the run is finished, and has no {entry}"):
        finished(run)


@pytest.mark.parametrize("line", [{}, {"step": 5, "steps_per_second": -1}, {"step": "5", "steps_per_second": 2.0}])
def test_speeds_that_make_no_sense_are_refused(line, tmp_path):
    path = tmp_path / "speed.jsonl"
    lines = [{"step": 10, "steps_per_second": 2.0}, {"step": 20, "steps_per_second": None}]
    lines += [{"step": 30, "steps_per_second": 0.0}, {"step": 40, "steps_per_second": 3.0}]
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    assert training_seconds(path) == pytest.approx(10 / 2 + 30 / 3)
    path.write_text(json.dumps({"step": None, "steps_per_second": 1.0} | line) + "\n")
    with pytest.raises(Unreadable, match="it holds no speeds: step = "):
        training_seconds(path)


def test_costs_follow_the_updates_and_what_finished_runs_took(tmp_path, now):
    tuning = small_tuning(space=(Choice("schedule.replay_ratio", (1, 2)),))
    budget = Budget(tuning, None, 1.0, 3, Clock(begun(tmp_path / "tune", tuning).clock), planned=0.5)
    assert budget.run_seconds({}) == pytest.approx(MARGIN * (ASIDE + 0.5 * 900))
    for number, seconds in enumerate((10.0, 12.0)):
        run = RunDirectory(tmp_path / f"run{number}")
        write_result(run, 1.0)  # 9 seconds of training
        run.result.write_text(json.dumps({"finished": True, "score": 1.0, "wall_seconds": seconds, "updates": 900}))
        budget.note(run)
    once, twice = (MARGIN * (STARTUP + 2.0 + 0.01 * updates) for updates in (900, 1_800))
    dear = {"schedule.replay_ratio": 2}
    assert (budget.run_seconds({}), budget.run_seconds(dear)) == pytest.approx((once, twice))
    # Three fresh seeds for each of the two, three at a time: two rounds.
    assert budget.comparison_seconds(dear) == pytest.approx(once + twice)
    # Another trial is two runs, as dear as may be.
    budget.hours = (2 * twice + 2 * once + 1.0) / 3600
    assert budget.may_begin(7, {}) and not budget.may_begin(7, dear)
    assert not budget.search_over(dear)
    now[0] += 2 * twice + 2.0
    assert budget.search_over({})


def test_without_hours_only_the_trials_end_it(tmp_path, now):
    tuning = small_tuning()
    budget = Budget(tuning, 5, None, 1, Clock(begun(tmp_path / "tune", tuning).clock))
    assert budget.left == math.inf and budget.may_begin(4, {}) and not budget.may_begin(5, {})
    assert not budget.search_over({})


def test_planned_steps_use_the_hours_and_never_exceed_the_sizes():
    tuning = small_tuning(steps=20_000, settings={})
    # 10 trials of 2 seeds and 6 runs: 26 runs, 2 at a time, in nine tenths of 0.5 hours, less what is beside training.
    each = 0.9 * 1_800 * 2 / 26 - ASIDE
    per_step = MARGIN * 0.01 * 19_600 / 20_000
    assert planned_steps(tuning, 10, 0.5, 2, 0.01) == int(each / per_step / 100) * 100 == 8_900
    dearer = small_tuning(steps=20_000, settings={}, space=(Choice("schedule.replay_ratio", (1, 2)),))
    assert planned_steps(dearer, 10, 0.5, 2, 0.01) == int(each / 1.5 / per_step / 100) * 100
    assert planned_steps(tuning, None, 0.5, 2, 0.01) < planned_steps(tuning, 10, 0.5, 2, 0.01)
    assert planned_steps(tuning, 10, 100.0, 2, 0.01) == 20_000
    assert planned_steps(tuning, 10, 0.05, 2, 0.01) == 2_000


def test_hours_must_be_enough_for_the_default_and_the_comparison(tmp_path, now):
    tuning = small_tuning()
    budget = Budget(tuning, None, 1.0, 2, Clock(tmp_path / "clock.json"), planned=0.01)
    need = 5 * MARGIN * (ASIDE + 9.0) / 3600  # two runs of the default, then three rounds of two
    budget.hours = need + 1e-6
    check_hours(budget)
    budget.hours = need - 1e-6
    with pytest.raises(
        UsageError, match=r"hours = 0\.04.*: the default \(2 runs\) and the comparison \(6 runs\), 2 at a"
    ):
        check_hours(budget)
