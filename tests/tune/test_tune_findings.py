"""What a tuning has found: the best trial, scores by the value of a setting, the budget in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_tuning import RATE, SPACE, default_values, small_tuning

from sacbbf.tune.compare import Comparison
from sacbbf.tune.findings import Findings, Spent, Stretch, budget_words, last_words, to_summary
from sacbbf.tune.study import Trial


def trial(number, score, rate=1e-3, n=1):
    settings = {RATE: rate, "schedule.n_end": n} if number else {}
    return Trial(number, settings, "pruned" if score is None else "finished", score)


TRIALS = (trial(0, 5.0), trial(1, 7.0, 1e-3), trial(2, 9.0, 2e-3, 5), trial(3, None), trial(4, 1.0, 1e-4, 5))


@pytest.fixture
def found():
    tuning = small_tuning()
    comparison = Comparison((200, 201, 202), (5.0, 6.0, 5.5), (9.0, 9.5, 8.5))
    spent = Spent(5, 0.5, 0.25, 2)
    return Findings(tuning, TRIALS, default_values(tuning), {RATE: 1.0}, comparison, spent)


def test_the_best_trial_is_named_with_its_settings_and_the_budget(found):
    assert found.best.number == 2
    assert last_words(found) == [
        "trial 2 beats the default on fresh seeds",
        "  default: 5.50 (95% interval 4.26 to 6.74), 3 fresh seeds",
        "  trial 2: 9.00 (95% interval 7.76 to 10.24), 3 fresh seeds",
        "  difference: 3.50 (95% interval 2.37 to 4.63)",
        budget_words(found),
        f"trial 2: {RATE}=0.002, schedule.n_end=5",
    ]
    words = "5 trials (at most 5 trials, at most 0.5 hours) of 2 seeds, 1,000 steps each; 0.25 hours with 2 at a time"
    assert budget_words(found) == words


def test_scores_stand_by_the_value_of_a_setting(found):
    """Learning rates in order: 0.0001, 0.0003 (the default), 0.001, 0.002; the pruned trial has no score."""
    rate, n = SPACE
    assert found.stretches(rate) == [
        Stretch("0.0001", (1.0,)),
        Stretch("0.0003 to 0.001", (5.0, 7.0)),
        Stretch("0.002", (9.0,)),
    ]
    assert found.stretches(n) == [Stretch("1", (7.0,)), Stretch("3", (5.0,)), Stretch("5", (9.0, 1.0))]


def test_the_summary_has_every_trial_and_the_budget(found):
    summary = to_summary(found)
    assert [one["score"] for one in summary["trials"]] == [5.0, 7.0, 9.0, None, 1.0]
    assert summary["budget"] == {"trials": 5, "hours": 0.5, "hours_used": 0.25, "workers": 2}
    assert (summary["tuning"]["steps"], summary["tuning_seeds"], summary["fresh_seeds"]) == (
        1_000, [100, 101], [200, 201, 202],
    )  # fmt: skip
    assert summary["comparison"]["best"] == (9.0, 9.5, 8.5)


def test_without_a_comparison_nothing_is_claimed(found):
    assert "is not compared with the default" in replace(found, comparison=None).verdict
    alone = replace(found, trials=TRIALS[:1], comparison=None)
    assert alone.verdict == "no trial scores above the default: there is nothing to compare on fresh seeds"
