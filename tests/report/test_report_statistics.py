"""The statistics against rliable itself, and against a slow bootstrap where rliable has no answer."""

from __future__ import annotations

import numpy as np
import pytest
from rliable import library, metrics
from scipy import stats

from sacbbf.report.aggregate import (
    THRESHOLDS,
    Sampling,
    aggregates,
    balanced_iqm,
    estimate,
    game_means,
    improvement,
    iqm_by_step,
    matrix,
    profile,
)

REPS = 300
COUNTS = [(5, 5, 5, 5), (3, 3, 3), (1, 2, 5, 3, 4), (7, 2, 2)]


def scores_of(counts, seed=0):
    """Normalised scores around 1, as many per game as asked for."""
    generator = np.random.default_rng(seed)
    return [generator.gamma(2.0, 0.5, count).tolist() for count in counts]


def rliable_metrics(scores):
    above = np.sum(np.mean(scores, axis=0) > 1.0)
    return np.array(
        [
            metrics.aggregate_iqm(scores),
            metrics.aggregate_median(scores),
            metrics.aggregate_mean(scores),
            metrics.aggregate_optimality_gap(scores),
            above,
        ]
    )


def slow_metrics(columns):
    """The definitions for unequal numbers of runs, in so many words."""
    pooled = [score for column in columns for score in column]
    means = [sum(column) / len(column) for column in columns]
    gap = sum(1 - min(score, 1) for score in pooled) / len(pooled)
    return [stats.trim_mean(pooled, 0.25), np.median(means), np.mean(means), gap, sum(mean > 1 for mean in means)]


def slow_draw(columns):
    """Each game's runs drawn again, as many as it has."""
    most = max(map(len, columns))
    shares = np.random.random_sample((most, len(columns)))  # noqa: NPY002 - the generator that rliable draws from
    return [
        [column[int(shares[run, game] * len(column))] for run in range(len(column))]
        for game, column in enumerate(columns)
    ]


def triples(found):
    return np.array([[one.value, one.low, one.high] for one in found]).T


@pytest.mark.parametrize("counts", COUNTS[:2])
def test_equal_runs_give_rliable_s_aggregates_and_intervals(counts):
    scores = matrix(scores_of(counts))
    found = triples(estimate(aggregates, scores, sampling=Sampling(REPS, 3)))
    np.random.seed(3)  # noqa: NPY002
    values, intervals = library.get_interval_estimates({"a": scores}, rliable_metrics, reps=REPS)
    np.testing.assert_allclose(found[0], values["a"], atol=1e-6)
    np.testing.assert_allclose(found[1:], intervals["a"], atol=1e-6)


@pytest.mark.parametrize("counts", COUNTS[2:])
def test_unequal_runs_give_the_pooled_definition_and_a_bootstrap_per_game(counts):
    columns = scores_of(counts)
    found = triples(estimate(aggregates, matrix(columns), sampling=Sampling(REPS, 3)))
    np.random.seed(3)  # noqa: NPY002
    drawn = [slow_metrics(slow_draw(columns)) for _ in range(REPS)]
    np.testing.assert_allclose(found[0], slow_metrics(columns), atol=1e-6)
    np.testing.assert_allclose(found[1:], np.percentile(drawn, [2.5, 97.5], axis=0), atol=1e-6)


def test_the_balanced_iqm_is_the_iqm_where_runs_are_equal():
    scores = matrix(scores_of((4, 4, 4)))
    assert balanced_iqm(scores) == pytest.approx(aggregates(scores)[0])


def test_the_balanced_iqm_counts_each_game_once():
    once = matrix([[0.1], [0.4], [0.6], [2.0]])
    often = matrix([[0.1] * 9, [0.4], [0.6] * 2, [2.0]])
    assert balanced_iqm(often) == pytest.approx(balanced_iqm(once)) == pytest.approx(0.5)


def test_profiles_are_rliable_s():
    scores = matrix(scores_of((6, 6, 6)))
    found = triples(estimate(profile, scores, sampling=Sampling(100, 1)))
    np.random.seed(1)  # noqa: NPY002
    values, intervals = library.create_performance_profile({"a": scores}, THRESHOLDS, reps=100)
    np.testing.assert_allclose(found[0], values["a"], atol=1e-6)
    np.testing.assert_allclose(found[1:], intervals["a"], atol=1e-6)


def test_the_probability_of_improvement_is_rliable_s():
    first, second = matrix(scores_of((4, 4, 4))), matrix(scores_of((6, 6, 6), seed=1))
    second[0] = first[0]  # ties
    found = triples(estimate(improvement, first, second, sampling=Sampling(100, 1)))
    np.random.seed(1)  # noqa: NPY002
    values, intervals = library.get_interval_estimates(
        {"a": [first, second]}, lambda one, two: np.array([metrics.probability_of_improvement(one, two)]), reps=100
    )
    np.testing.assert_allclose(found[0], values["a"], atol=1e-6)
    np.testing.assert_allclose(found[1:], intervals["a"], atol=1e-6)


def test_the_probability_of_improvement_with_unequal_runs_is_each_game_s_own():
    first, second = scores_of((2, 4, 3)), scores_of((5, 1, 2), seed=1)
    found = triples(estimate(improvement, matrix(first), matrix(second), sampling=Sampling(100, 1)))

    def slow(one, two):
        pairs = zip(one, two, strict=True)
        return np.mean([stats.mannwhitneyu(a, b)[0] / (len(a) * len(b)) for a, b in pairs])

    np.random.seed(1)  # noqa: NPY002
    drawn = [slow(slow_draw(first), slow_draw(second)) for _ in range(100)]
    assert found[0] == pytest.approx(slow(first, second), abs=1e-6)
    np.testing.assert_allclose(found[1:, 0], np.percentile(drawn, [2.5, 97.5]), atol=1e-6)


def test_the_iqm_by_step_is_the_iqm_of_each_step():
    steps = [scores_of((3, 2, 4), seed) for seed in range(3)]
    together = matrix([column for step in steps for column in step])
    np.testing.assert_allclose(iqm_by_step(together, 3), [aggregates(matrix(step))[0] for step in steps])


def test_the_same_sampling_gives_the_same_intervals_and_leaves_other_randomness_alone():
    scores = matrix(scores_of((4, 3, 5)))
    np.random.seed(11)  # noqa: NPY002
    before = np.random.random_sample()  # noqa: NPY002
    np.random.seed(11)  # noqa: NPY002
    first = estimate(aggregates, scores, sampling=Sampling(REPS, 0))
    assert np.random.random_sample() == before  # noqa: NPY002
    assert estimate(aggregates, scores, sampling=Sampling(REPS, 0)) == first
    assert estimate(aggregates, scores, sampling=Sampling(REPS, 1)) != first


def test_a_single_run_has_no_interval():
    found = estimate(game_means, matrix([[0.3], [0.7]]), sampling=Sampling(REPS))
    assert [(one.value, one.low, one.high) for one in found] == [(0.3, None, None), (0.7, None, None)]
    one, many = matrix([[0.3]]), matrix([[0.2, 0.5]])
    assert estimate(improvement, one, many, sampling=Sampling(REPS))[0].low is None
