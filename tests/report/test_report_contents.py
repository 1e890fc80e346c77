"""What a report says: comparisons on the same games, what is missing, raw scores, curves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_runs import make_config, random_rows, write_csv, write_run

from sacbbf.envs import games
from sacbbf.report.aggregate import METRICS, Estimate, Sampling, aggregates
from sacbbf.report.contents import Row, build, normalised
from sacbbf.report.curves import EPISODES, EVALUATIONS
from sacbbf.report.latex import latex
from sacbbf.report.markdown import markdown
from sacbbf.report.page_scores import comparison_section
from sacbbf.report.raw import Measured
from sacbbf.report.scores import read_scores

FEW = Sampling(100)
FIVE = games.GAMES[:5]


def report_on(tmp_path, rows):
    return build(read_scores([write_csv(tmp_path / "scores.csv", rows)]), FEW)


def names(comparison):
    return [row.agent.name for row in comparison.rows]


def test_agents_are_compared_with_published_ones_on_the_same_games(tmp_path):
    report = report_on(tmp_path, random_rows("A", dict.fromkeys(FIVE, 3)))
    (comparison,) = report.comparisons
    assert comparison.games == FIVE
    assert names(comparison)[:3] == ["A", "Random", "Human"] and "BBF RR2, runs" in names(comparison)
    bbf = next(row for row in comparison.rows if row.agent.name == "BBF RR2, runs")
    assert bbf.metrics["iqm"].value == aggregates(normalised(bbf.agent, FIVE))[0]


def test_quoted_aggregates_are_for_all_26_games_only(tmp_path):
    (comparison,) = report_on(tmp_path, random_rows("A", dict.fromkeys(FIVE, 2))).comparisons
    paper = next(row for row in comparison.rows if row.agent.name == "SAC-BBF RR2, paper")
    assert set(paper.metrics) == {"median", "mean", "games_above_human"}
    assert any("IQM and optimality gap over these games are not known" in note for note in comparison.notes)


def test_agents_with_other_games_get_comparisons_of_their_own_and_one_in_common(tmp_path):
    rows = random_rows("A", dict.fromkeys(FIVE, 2)) + random_rows("B", dict.fromkeys(games.GAMES[3:9], 2))
    report = report_on(tmp_path, rows)
    assert [len(found.games) for found in report.comparisons] == [6, 5, 2]
    assert [name in names(report.comparisons[2]) for name in ("A", "B")] == [True, True]
    assert "A" not in names(report.comparisons[0])


def test_missing_games_and_seeds_are_said_and_never_filled_in(tmp_path):
    counts = dict.fromkeys(games.GAMES[:24], 3) | {"Alien": 1}
    report = report_on(tmp_path, random_rows("A", counts))
    said = "\n".join(report.notes)
    assert f"A: 24 of the 26 games; missing are {', '.join(games.GAMES[24:])}" in said
    assert "A: seeds are missing: Alien lacks 1, 2" in said
    assert "A: a single run, which adds no width to intervals, in Alien" in said
    assert (games.GAMES[25], "A") not in report.table.cells


def test_unequal_runs_are_said_with_the_iqm_of_equal_weights(tmp_path):
    (comparison,) = report_on(tmp_path, random_rows("A", {"Pong": 2, "Alien": 5})).comparisons
    assert any(
        note.startswith("A: 2, 5 runs per game. IQM and optimality gap pool the runs") for note in comparison.notes
    )


def test_one_run_per_game_has_no_interval_and_says_so(tmp_path):
    report = report_on(tmp_path, random_rows("A", dict.fromkeys(FIVE, 1)))
    assert report.comparisons[0].rows[0].metrics["iqm"].low is None
    assert report.table.cells["Alien", "A"].score.low is None
    assert report.notes[-1].startswith("A: one run per environment")


def test_a_game_s_single_run_has_no_interval_beside_games_with_more(tmp_path):
    report = report_on(tmp_path, random_rows("A", {"Pong": 1, "Alien": 3}))
    assert report.table.cells["Pong", "A"].score.low is None
    assert report.table.cells["Alien", "A"].score.low is not None


def test_the_best_of_a_game_and_who_beats_the_human_are_marked(tmp_path):
    rows = [("Good", "Pong", 0, 20.9), ("Good", "Alien", 0, 10.0), ("Bad", "Pong", 0, -20.0), ("Bad", "Alien", 0, 5.0)]
    cells = report_on(tmp_path, rows).table.cells
    assert cells["Pong", "Good"].best and cells["Pong", "Good"].above_human
    assert not cells["Pong", "Bad"].best and not cells["Pong", "Bad"].above_human
    assert not cells["Alien", "Good"].best and cells["Alien", "BBF RR8, runs"].best
    assert not cells["Pong", "Human"].best


def test_the_best_of_a_metric_wins_at_the_precision_it_is_printed_with(tmp_path):
    """Lower is better for the optimality gap; random play and the human do not compete."""
    (comparison,) = report_on(tmp_path, random_rows("A", dict.fromkeys(FIVE, 2))).comparisons
    values = (0.5, 0.7004, 0.6996, 0.2, 9.0)
    agents = [replace(comparison.rows[0].agent, name=name) for name in "ABCD"] + [comparison.rows[2].agent]
    assert agents[-1].name == "Human"
    pairs = zip(agents, values, strict=True)
    rows = [Row(agent, {metric: Estimate(value) for metric in METRICS}) for agent, value in pairs]
    made = replace(comparison, rows=(*rows, Row(agents[0], {})))
    assert [row.agent.name for row in rows if made.wins(row, "iqm")] == ["B", "C"]
    assert [row.agent.name for row in rows if made.wins(row, "optimality_gap")] == ["D"]
    assert not made.wins(made.rows[-1], "iqm")


def test_measured_play_has_a_normal_interval():
    assert Measured(5.0, 0.5, 3).estimate == Estimate(5.0, 4.02, 5.98)


def test_every_format_marks_the_same_best(tmp_path):
    """The best aggregates of a comparison are bold in each table, as often as agents win."""
    report = report_on(tmp_path, random_rows("A", dict.fromkeys(FIVE, 2)))
    (comparison,) = report.comparisons
    won = sum(comparison.wins(row, metric) for row in comparison.rows for metric in METRICS)
    assert won >= len(METRICS)
    table = markdown(report).split("## Human-normalised")[1].split("95% intervals")[0]
    assert table.count("**") == 2 * won
    assert comparison_section(comparison, report, 0).html.split("</table>")[0].count("<b>") == won
    aggregates_of = latex(report).split(r"\midrule")[2]
    assert aggregates_of.count(r"\textbf{") == won


def test_an_agent_with_a_published_agent_s_name_is_told_apart(tmp_path):
    report = report_on(tmp_path, random_rows("SR-SPR", {"Pong": 2}))
    assert {"SR-SPR", "SR-SPR (yours)"} <= set(names(report.comparisons[0]))


def test_probability_of_improvement_is_between_own_agents_and_over_published_runs(tmp_path):
    rows = random_rows("A", dict.fromkeys(FIVE, 3)) + random_rows("B", dict.fromkeys(FIVE, 3), seed=1)
    (comparison,) = report_on(tmp_path, rows).comparisons
    pairs = [(found.first, found.second) for found in comparison.improvements]
    runs = ["BBF RR2, runs", "BBF RR8, runs", "SAC-BBF RR2, runs"]
    assert pairs == [("A", "B"), *(("A", name) for name in runs), *(("B", name) for name in runs)]
    assert all(0 <= found.probability.value <= 1 for found in comparison.improvements)


# --- environments without a human score ---


@pytest.fixture(scope="module")
def sweep_report(sweep):
    return build(read_scores([sweep]), FEW)


def test_other_environments_get_raw_scores_with_intervals(sweep_report):
    pole, invaders = sweep_report.raw
    assert (pole.environment, invaders.environment) == ("CartPole-v1", "MinAtar/SpaceInvaders-v1")
    (row,) = pole.rows
    assert row.agent == "sac-bbf tiny (steps=10000)" and row.runs == 2 and row.score.value == pytest.approx(355.2)
    assert 283.2 <= row.score.low <= row.score.high <= 427.2


def test_raw_scores_are_set_against_measured_baselines_only_where_runs_hold_them(sweep_report):
    pole, invaders = sweep_report.raw
    assert pole.rows[0].gain is None and not pole.baselines
    assert invaders.baselines["blind"].score == pytest.approx(5.4)
    assert invaders.rows[0].gain == pytest.approx((invaders.rows[0].score.value - 3.5) / 1.9)


def test_blind_play_that_is_no_better_than_random_is_no_unit(tmp_path):
    played = {name: {"score": 22.1, "standard_error": 1.0} for name in ("random", "blind")}
    write_run(tmp_path / "run", make_config("CartPole-v1", size="tiny"), 200.0, baselines=played)
    (table,) = build(read_scores([tmp_path / "run"]), FEW).raw
    assert table.rows[0].gain is None and table.baselines["random"].score == 22.1


def test_without_atari_games_nothing_published_is_shown(tmp_path):
    report = report_on(tmp_path, [("A", "CartPole-v1", 0, 100.0)])
    assert not report.comparisons and not report.references and not report.table.games


# --- curves ---


def test_curves_come_from_evaluations_with_the_final_score_last(sweep_report):
    curve = next(found for found in sweep_report.curves if (found.agent, found.environment) == ("sac-bbf", "Pong"))
    assert curve.source == EVALUATIONS and curve.runs == 2
    assert curve.steps == tuple(range(10_000, 100_001, 10_000))
    assert curve.points[-1].value == pytest.approx(sweep_report.table.cells["Pong", "sac-bbf"].score.value)
    assert all(point.low <= point.value <= point.high for point in curve.points)


def test_curves_of_runs_without_evaluations_come_from_training_episodes(sweep_report):
    curve = next(found for found in sweep_report.curves if found.environment == "CartPole-v1")
    assert curve.source == EPISODES and curve.steps[-1] == 10_000 and len(curve.steps) == 20


def test_sample_efficiency_ends_at_the_iqm(sweep_report):
    (comparison,) = sweep_report.comparisons
    curve = comparison.efficiency[0]
    assert (curve.agent, len(curve.steps)) == ("sac-bbf", 10)
    assert curve.points[-1].value == pytest.approx(comparison.rows[0].metrics["iqm"].value)


def test_runs_evaluated_at_different_steps_meet_at_those_they_share(tmp_path):
    write_run(tmp_path / "a", make_config("Pong", 0), 10.0, evaluations=3)  # every 25,000 steps
    write_run(tmp_path / "b", make_config("Pong", 1), 12.0, evaluations=1)  # every 50,000
    (curve,) = build(read_scores([tmp_path]), FEW).curves
    assert curve.steps == (50_000, 100_000)
