"""Environments without a human score, pooled: units, IQM, and two agents side by side."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from made_runs import write_csv

from sacbbf.errors import UsageError
from sacbbf.report.aggregate import Sampling
from sacbbf.report.contents import build
from sacbbf.report.markdown import markdown
from sacbbf.report.page import page
from sacbbf.report.scores import read_scores
from sacbbf.report.table import table

FEW = Sampling(200)
BREAKOUT, INVADERS = "MinAtar/Breakout-v1", "MinAtar/SpaceInvaders-v1"
HEAD = "agent,game,seed,score,random,random_error,blind,blind_error"


def report_on(tmp_path, lines):
    return build(read_scores([write_csv(tmp_path / "scores.csv", lines, HEAD)]), FEW)


def lines(agent, game, scores, played=",,,"):
    return [(agent, game, seed, score, *played.split(",")) for seed, score in enumerate(scores)]


@pytest.fixture
def two_games(tmp_path):
    good = lines("good", BREAKOUT, [9, 10, 11, 10], "2,0.1,2.5,0.1") + lines("good", INVADERS, [19, 20, 21, 20])
    poor = lines("poor", BREAKOUT, [5, 6, 7, 6]) + lines("poor", INVADERS, [10, 10, 10, 10])
    return report_on(tmp_path, [*good, *poor])


def test_in_each_environment_random_play_is_0_and_the_best_mean_is_1(two_games):
    assert two_games.pooled.environments == (BREAKOUT, INVADERS)
    assert two_games.pooled.iqm["good"].value == pytest.approx(1.0)
    scaled = sorted([(score - 2) / 8 for score in (5, 6, 7, 6)] + [10 / 20] * 4)  # no random play in the second: 0
    assert two_games.pooled.iqm["poor"].value == pytest.approx(np.mean(scaled[2:6]))


def test_two_agents_differ_by_their_iqms_with_an_interval(two_games):
    (pair,) = two_games.pooled.improvements
    assert (pair.first, pair.second) == ("good", "poor")
    assert pair.probability.value == 1.0
    assert pair.difference.value == pytest.approx(
        two_games.pooled.iqm["good"].value - two_games.pooled.iqm["poor"].value
    )
    assert 0 < pair.difference.low < pair.difference.value < pair.difference.high < 1


def test_equal_agents_have_an_interval_around_no_difference(tmp_path):
    scores = [4, 9, 14, 19, 24]
    report = report_on(tmp_path, lines("A", BREAKOUT, scores) + lines("B", BREAKOUT, scores))
    (pair,) = report.pooled.improvements
    assert pair.difference.value == 0 and pair.difference.low < 0 < pair.difference.high


def test_only_environments_that_all_agents_share_are_pooled(tmp_path):
    both = lines("A", BREAKOUT, [3, 4]) + lines("A", INVADERS, [9, 12])
    assert report_on(tmp_path, both + lines("B", BREAKOUT, [5, 6])).pooled.environments == (BREAKOUT,)
    assert report_on(tmp_path, both).pooled is None  # a single agent
    assert report_on(tmp_path, lines("A", INVADERS, [9, 12]) + lines("B", BREAKOUT, [5, 6])).pooled is None


def test_agents_no_better_than_random_play_give_no_unit(tmp_path):
    bad = lines("A", BREAKOUT, [1, 1], "2,0.1,2.5,0.1") + lines("B", BREAKOUT, [2, 2], "2,0.1,2.5,0.1")
    assert report_on(tmp_path, bad).pooled is None


def test_every_format_has_the_difference(two_games):
    difference = two_games.pooled.improvements[0].difference
    (line,) = [line for line in markdown(two_games).splitlines() if line.startswith("| good | poor |")]
    assert f"{difference.value:.3f} ({difference.low:.3f} to {difference.high:.3f})" in line
    rows = list(csv.DictReader(table(two_games).splitlines()))
    (row,) = [row for row in rows if row["statistic"] == "iqm_difference over poor"]
    assert float(row["value"]) == difference.value
    assert f"{difference.low:.3f} to {difference.high:.3f}" in page(two_games)


def test_baselines_in_a_csv_file_stand_beside_the_scores(two_games):
    breakout, invaders = two_games.raw
    assert breakout.baselines["random"].score == 2 and breakout.baselines["blind"].score == 2.5
    assert breakout.baselines["random"].runs == 4 and not invaders.baselines


@pytest.mark.parametrize(
    ("played", "words"),
    [
        ("2,,,", "random = '2', random_error = '': must both be given or neither"),
        (",,3,many", "blind_error = 'many': must be a number"),
        ("nan,0.1,,", "random = 'nan': must be a finite number"),
    ],
)
def test_half_a_baseline_is_refused(tmp_path, played, words):
    with pytest.raises(UsageError, match=f"scores.csv:2: {words}"):
        report_on(tmp_path, lines("A", BREAKOUT, [3], played))
