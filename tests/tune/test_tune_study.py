"""Optuna's part: the default comes first, draws depend on the trials alone, and trials below the median are pruned."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest
from small_tuning import RATE, SPACE, begun, opened, small_tuning

from sacbbf.disk.reading import Unreadable
from sacbbf.errors import RunFailed
from sacbbf.tune.space import Choice, Range
from sacbbf.tune.study import Trial, best_of


@pytest.fixture
def directory(tmp_path):
    return begun(tmp_path / "tune", small_tuning())


def asked(study, count, score=lambda trial: float(trial.number)):
    """Ask for trials and finish each with a score."""
    found = []
    for _ in range(count):
        found.append(study.ask())
        study.finish(found[-1], score(found[-1]))
    return found


def test_the_first_trial_is_the_default_and_the_others_lie_in_the_space(directory):
    study = opened(directory, small_tuning())
    trials = asked(study, 8)
    assert [trial.number for trial in trials] == list(range(8))
    assert trials[0].settings == {} == study.trials()[0].settings
    for trial in trials[1:]:
        assert trial.settings.keys() == {axis.name for axis in SPACE}
        assert all(axis.holds(trial.settings[axis.name]) for axis in SPACE)
    assert study.trials() == [Trial(one.number, one.settings, "finished", float(one.number)) for one in trials]


def test_a_default_outside_of_the_space_is_still_the_first_trial(tmp_path):
    tuning = small_tuning(space=(Range(RATE, 1e-3, 1e-2), Choice("schedule.n_end", (1, 5))))
    study = opened(begun(tmp_path / "tune", tuning), tuning)
    trials = asked(study, 6)
    assert trials[0].settings == {}
    assert all(1e-3 <= trial.settings[RATE] <= 1e-2 for trial in trials[1:])


def test_draws_do_not_depend_on_how_often_the_study_was_opened(tmp_path):
    tuning = small_tuning()
    once, often = begun(tmp_path / "once", tuning), begun(tmp_path / "often", tuning)
    study = opened(once, tuning)
    straight = asked(study, 7)
    broken = []
    for count in (3, 4):
        broken += asked(opened(often, tuning), count)
    assert broken == straight
    assert len({trial.settings.get(RATE) for trial in straight}) == 7


def test_a_trial_that_was_at_work_is_found_again_with_what_it_had_reached(directory):
    study = opened(directory, small_tuning())
    asked(study, 1)
    trial = study.ask()
    assert study.report(trial, 200, 3.5) is False
    study.close()
    again = opened(directory, small_tuning())
    assert again.trials()[1] == Trial(1, trial.settings, "at work", points={200: 3.5})
    again.report(trial, 200, 9.0)  # known already
    assert again.trials()[1].points == {200: 3.5}
    again.finish(trial, 7.0)
    assert (again.trials()[1].state, again.trials()[1].score) == ("finished", 7.0)


def test_a_trial_below_the_median_is_to_be_pruned_once_three_are_finished(directory):
    study = opened(directory, small_tuning())
    for value in (10.0, 20.0, 30.0):
        trial = study.ask()
        assert study.report(trial, 200, 5.0 if not trial.number else value) is False
        study.finish(trial, value)
    below, above = study.ask(), study.ask()
    assert study.report(below, 200, 19.0) is True  # of 5, 20 and 30 the median is 20
    assert study.report(above, 200, 21.0) is False
    study.prune(below)
    assert [trial.state for trial in study.trials()] == ["finished"] * 3 + ["pruned", "at work"]


def test_the_default_is_never_pruned(directory):
    study = opened(directory, small_tuning())
    default = study.ask()
    for _ in range(3):
        trial = study.ask()
        study.report(trial, 200, 10.0)
        study.finish(trial, 10.0)
    assert study.report(default, 200, 1.0) is False


def test_a_failed_trial_keeps_its_reason(directory):
    study = opened(directory, small_tuning())
    study.fail(study.ask(), "no luck")
    assert (study.trials()[0].state, study.trials()[0].why) == ("failed", "no luck")


def test_the_setting_that_decides_is_the_important_one(directory):
    study = opened(directory, small_tuning())
    assert study.importance() == {}
    asked(study, 24, lambda trial: -abs(trial.settings.get(RATE, 3e-4) - 3e-3))
    found = study.importance()
    assert found[RATE] > 0.6 and sum(found.values()) == pytest.approx(1.0)


def test_of_equal_trials_the_first_is_the_best():
    trials = [Trial(0, {}, "finished", 5.0), Trial(1, {}, "finished", 5.0), Trial(2, {}, "pruned", points={1: 9.0})]
    assert best_of(trials).number == 0
    assert best_of(trials[2:]) is None


WRAPPER = '{"name": "CategoricalDistribution", "attributes": {"choices": ["evil:X"]}}'


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("DELETE FROM trial_values", "trial 0 is finished and has no score"),
        ("UPDATE trial_values SET value = NULL, value_type = 'INF_POS'", "trial 0 is finished and has no score"),
        ("UPDATE trials SET number = 7 WHERE number = 1", "they are not numbered from 0 on"),
        ("UPDATE trials SET state = 'x'", "'x'"),
        ("UPDATE trial_values SET value_type = 'x'", "'x'"),
        ("UPDATE trial_params SET distribution_json = '['", "Expecting value"),
        ("UPDATE alembic_version SET version_num = 'x'", "optuna"),
        (
            f"UPDATE trial_params SET param_name = 'environment.wrappers', distribution_json = '{WRAPPER}', "
            "param_value = 0 WHERE param_id = (SELECT MAX(param_id) FROM trial_params)",
            "trial 1 has environment.wrappers = 'evil:X', which lies outside of the space",
        ),
    ],
)
def test_a_study_that_makes_no_sense_is_refused(words, wrong, directory):
    study = opened(directory, small_tuning())
    asked(study, 2)
    study.close()
    with contextlib.closing(sqlite3.connect(directory.study)) as connection:
        connection.executescript(f"PRAGMA ignore_check_constraints = ON; {words};")
    with pytest.raises(Unreadable) as caught:
        opened(directory, small_tuning())
    said = str(caught.value)
    assert said.startswith(f"cannot read {directory.study}: it does not hold the trials of this tuning: ")
    assert wrong in said and "put back the file" in said and "\n" not in said


def test_a_file_of_other_bytes_is_refused(directory):
    directory.study.write_bytes(b"x" * 9999)
    with pytest.raises(Unreadable, match="file is not a database"):
        opened(directory, small_tuning())


def test_a_full_disk_is_no_damage(directory, monkeypatch):
    study = opened(directory, small_tuning())
    trial = study.ask()
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL

    def tell(*args):
        raise RuntimeError("an error of Optuna's") from full

    monkeypatch.setattr(study._study, "tell", tell)
    with pytest.raises(RunFailed, match=r"cannot use .*study\.db: database or disk is full"):
        study.finish(trial, 1.0)
