"""The search over made-up runs: how it ends, prunes, stops, goes on, and keeps to its hours."""

from __future__ import annotations

import statistics

import pytest
from small_tuning import RATE, STEPS, MadeUp, begun, by_rate, opened, searching, small_tuning

from sacbbf.errors import RunFailed
from sacbbf.run.stop import Stop
from sacbbf.tune.study import best_of

RUN = 9.0  # seconds of a made-up run: 900 updates of a hundredth of a second


@pytest.fixture
def tuning():
    return small_tuning()


@pytest.fixture
def directory(tmp_path, tuning):
    return begun(tmp_path / "tune", tuning)


@pytest.fixture
def study(directory, tuning):
    found = opened(directory, tuning)
    yield found
    found.close()


def cells_of(executor, number):
    name = f"trial-{number:03d}" if number else "default"
    return [cell for cell in executor.started if cell.variant.name == name]


def test_a_search_ends_with_its_trials_and_a_score_is_the_mean_over_the_seeds(directory, tuning, study):
    executor = MadeUp(directory.search)
    search, listener, _ = searching(directory, tuning, study, executor, trials=3)
    search.run(Stop())
    trials = study.trials()
    assert [trial.state for trial in trials] == ["finished"] * 3 and listener.begun == [0, 1, 2]
    for trial in trials:
        cells = cells_of(executor, trial.number)
        assert [cell.seed for cell in cells] == [100, 101]
        assert trial.score == pytest.approx(statistics.fmean(by_rate(cell) for cell in cells))
        assert cells[0].variant.settings == trial.settings
    assert listener.ended_trials[0] == f"score {trials[0].score:.2f}"


def test_evaluations_are_reported_by_the_steps_of_all_seeds_and_averaged_with_the_scores_before(
    directory, tuning, study
):
    search, *_ = searching(directory, tuning, study, MadeUp(directory.search), trials=1)
    search.run(Stop())
    first, second = (by_rate(cell) for cell in tuning.search([tuning.variant(0, {})]).cells())
    expected = {STEPS * number // 5: first * number / 5 for number in range(1, 6)}
    expected |= {STEPS + STEPS * number // 5: (first + second * number / 5) / 2 for number in range(1, 6)}
    assert study.trials()[0].points == pytest.approx(expected)


def test_a_search_finds_better_settings_than_the_default(directory, tuning, study):
    search, *_ = searching(directory, tuning, study, MadeUp(directory.search, places=2), trials=14)
    search.run(Stop())
    best = best_of(study.trials())
    assert best.score > study.trials()[0].score + 20 and 1e-3 < best.settings[RATE] < 9e-3


def falling(cell):
    """A score that falls from trial to trial; all rates are worse than the default's."""
    name = cell.variant.name
    return 100.0 - (int(name.removeprefix("trial-")) if name != "default" else 0)


def test_a_trial_below_the_median_is_stopped_and_its_second_seed_never_starts(directory, tuning, study):
    executor = MadeUp(directory.search, falling)
    search, listener, _ = searching(directory, tuning, study, executor, trials=5)
    search.run(Stop())
    assert [trial.state for trial in study.trials()] == ["finished"] * 3 + ["pruned"] * 2
    for number in (3, 4):
        (cell,) = cells_of(executor, number)
        assert cell in executor.stopped and not directory.search.run(cell).result.exists()
        assert "below the median" in listener.ended_trials[number]
        assert study.trials()[number].points == {200: falling(cell) / 5}
    assert len(executor.stopped) == 2


def test_a_search_that_was_stopped_takes_up_the_trials_at_work(directory, tuning, study):
    executor = MadeUp(directory.search, places=2)
    search, listener, _ = searching(directory, tuning, study, executor, trials=4)
    stop = Stop()
    listener.on_tick = lambda number: setattr(stop, "reason", "interrupt" if number == 8 else "")
    search.run(stop)
    states = [trial.state for trial in study.trials()]
    assert states == ["at work", "at work"] and executor.asked == 1 and not executor.at_work
    settings = [trial.settings for trial in study.trials()]
    second = MadeUp(directory.search, places=2)
    search, listener, _ = searching(directory, tuning, study, second, trials=4)
    search.run(Stop())
    assert listener.begun == [0, 1, 2, 3]
    assert [trial.settings for trial in study.trials()[:2]] == settings
    assert [trial.state for trial in study.trials()] == ["finished"] * 3 + [study.trials()[3].state]
    assert [cell.seed for cell in second.started[:2]] == [100, 100]


def test_more_trials_go_on_with_a_search_that_had_ended(directory, tuning, study):
    for count in (2, 3):
        search, *_ = searching(directory, tuning, study, MadeUp(directory.search), trials=count)
        search.run(Stop())
        assert len(study.trials()) == count


def test_a_run_that_fails_is_tried_again_and_then_its_trial_is_given_up(directory, tuning, study):
    executor = MadeUp(directory.search, fails=lambda cell: cell.variant.name == "trial-001" and cell.seed == 101)
    search, listener, _ = searching(directory, tuning, study, executor, trials=3, retries=2)
    search.run(Stop())
    assert [trial.state for trial in study.trials()] == ["finished", "failed", "finished"]
    assert [cell.seed for cell in cells_of(executor, 1)] == [100, 101, 101, 101]
    assert study.trials()[1].why == "no luck" and listener.ended_trials[1] == "failed: no luck"


def test_without_the_default_nothing_goes_on(directory, tuning, study):
    executor = MadeUp(directory.search, fails=lambda cell: True)
    search, *_ = searching(directory, tuning, study, executor, trials=3)
    with pytest.raises(
        RunFailed, match=r"the default could not be trained: no luck; .*default.*log has its last words"
    ):
        search.run(Stop())
    assert [trial.state for trial in study.trials()] == ["at work"]
    search, *_ = searching(directory, tuning, study, MadeUp(directory.search), trials=1)
    search.run(Stop())  # what kept it from working was mended
    assert [trial.state for trial in study.trials()] == ["finished"]


# --- hours ---


@pytest.fixture
def clock(monkeypatch):
    """A clock that a made-up run of 9 seconds moves by a tenth of that at each look."""
    now = [0.0]
    monkeypatch.setattr("sacbbf.tune.budget.time.monotonic", lambda: now[0])
    monkeypatch.setattr("sacbbf.tune.search.time.monotonic", lambda: now[0])
    monkeypatch.setattr("sacbbf.tune.budget.STARTUP", 0.0)
    monkeypatch.setattr("sacbbf.tune.budget.ASIDE", 0.0)
    return now


def hours_for(runs):
    return runs * RUN / 3600


def run_with_hours(directory, tuning, study, clock, hours, looks=lambda cell: 5):
    """Search with one place and the right idea of what a run takes; what is left at the end, in runs."""
    executor = MadeUp(directory.search, looks=looks)
    search, listener, budget = searching(directory, tuning, study, executor, hours=hours, planned=RUN / 900)
    listener.on_tick = lambda number: clock.__setitem__(0, clock[0] + RUN / 5)
    search.run(Stop())
    budget.clock.keep()
    return budget.left / RUN


def test_no_trial_begins_that_cannot_finish_with_the_comparison_after_it(directory, tuning, study, clock):
    """A trial is 2 runs, the comparison 6, all with a quarter on top: 10 runs must be left for another trial."""
    left = run_with_hours(directory, tuning, study, clock, hours_for(14.5))
    assert [trial.state for trial in study.trials()] == ["finished"] * 3  # begun with 14.5, 12.5 and 10.5 runs left
    assert left == pytest.approx(8.5, abs=0.5)
    run_with_hours(directory, tuning, study, clock, hours_for(14.5))
    assert len(study.trials()) == 3  # what was used before counts
    run_with_hours(directory, tuning, study, clock, hours_for(16.5))
    assert len(study.trials()) == 4


def test_a_trial_that_takes_too_long_ends_when_the_comparison_needs_the_rest(directory, tuning, study, clock):
    """It stays as it is: with more hours it goes on."""
    slow = {"trial-001": 50}
    left = run_with_hours(directory, tuning, study, clock, hours_for(13), lambda cell: slow.get(cell.variant.name, 5))
    assert [trial.state for trial in study.trials()] == ["finished", "at work"]
    assert left == pytest.approx(7.5, abs=0.5)
    run_with_hours(directory, tuning, study, clock, hours_for(17))
    assert [trial.state for trial in study.trials()] == ["finished"] * 2


def test_hours_for_the_default_alone_begin_nothing_else(directory, tuning, study, clock):
    run_with_hours(directory, tuning, study, clock, hours_for(11))
    assert [trial.state for trial in study.trials()] == ["finished"]
