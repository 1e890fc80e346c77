"""The final comparison: intervals as scipy has them, and verdicts that say no more than they allow."""

from __future__ import annotations

import pytest
from scipy import stats
from small_tuning import begun, small_tuning, write_result

from sacbbf.tune.compare import T_975, Comparison, mean_interval, quantile, read_comparison, unfinished, welch

LOW, HIGH = (10.0, 12.0, 11.0, 13.0), (20.0, 26.0, 23.0)


def test_quantiles_are_students():
    exact = [stats.t.ppf(0.975, degrees) for degrees in range(1, 31)]
    assert pytest.approx(exact, abs=6e-4) == list(T_975)
    assert quantile(2.9) == T_975[1] and quantile(1_000) == T_975[-1]


def test_a_mean_has_students_interval():
    found = mean_interval(LOW)
    low, high = stats.t.interval(0.95, 3, loc=11.5, scale=stats.sem(LOW))
    assert (found.value, found.low, found.high) == pytest.approx((11.5, low, high), abs=1e-2)
    assert mean_interval([3.0]).low is None


def test_a_difference_has_welchs_interval_with_degrees_of_freedom_rounded_down():
    found = welch(HIGH, LOW)
    exact = stats.ttest_ind(HIGH, LOW, equal_var=False).confidence_interval(0.95)
    assert found.value == 11.5
    assert found.low <= exact.low < exact.high <= found.high
    assert found.low == pytest.approx(exact.low, abs=1.5)
    assert (welch([5.0, 5.0], [3.0, 3.0]).low, welch([5.0, 5.0], [3.0, 3.0]).high) == (2.0, 2.0)
    assert welch([5.0], [3.0, 3.0]).low is None


@pytest.mark.parametrize(
    ("default", "best", "words"),
    [
        (LOW[:3], HIGH, "beats the default"),
        (HIGH, LOW[:3], "does worse than the default"),
        (HIGH, (20.0, 27.0, 24.0), "is not clearly different from the default"),
        ((1.0,), (500.0,), "one fresh seed is not enough"),
    ],
)
def test_a_verdict_says_what_the_interval_allows(default, best, words):
    assert words in Comparison(tuple(range(len(default))), default, best).verdict


def test_only_seeds_that_both_have_finished_are_compared(tmp_path):
    tuning = small_tuning()
    directory = begun(tmp_path / "tune", tuning)
    spec = tuning.comparison([tuning.variant(0, {}), tuning.variant(4, {"schedule.n_end": 1})])
    directory.comparison.begin(spec)
    assert read_comparison(directory, spec) is None
    assert [(cell.variant.name, cell.seed) for cell in unfinished(directory, spec)] == [
        (name, seed) for seed in (200, 201, 202) for name in ("default", "trial-004")
    ]
    for number, cell in enumerate(spec.cells()[:5]):
        write_result(directory.comparison.run(cell), float(number))
    assert read_comparison(directory, spec) == Comparison((200, 201), (0.0, 2.0), (1.0, 3.0))
    assert unfinished(directory, spec) == spec.cells()[5:]
