"""The published data: what the paper prints comes out again, and what cannot be computed is marked as quoted."""

from __future__ import annotations

import pytest

from sacbbf.envs import games
from sacbbf.report.aggregate import METRICS, NEEDS_RUNS, Sampling
from sacbbf.report.contents import build_published
from sacbbf.report.published import baselines, paper_tables, printed_aggregates, published_agents


@pytest.fixture(scope="module")
def rows():
    report = build_published(Sampling(100))
    return {row.agent.name: row.metrics for row in report.comparisons[0].rows}


def test_the_bbf_authors_runs_give_the_published_aggregates(rows):
    found = rows["BBF RR2, runs"]
    assert found["iqm"].value == pytest.approx(0.940, abs=6e-4)
    assert found["median"].value == pytest.approx(0.754, abs=6e-4)
    assert found["mean"].value == pytest.approx(2.175, abs=6e-4)
    assert found["optimality_gap"].value == pytest.approx(0.377, abs=6e-4)
    assert all(found[metric].low <= found[metric].value <= found[metric].high for metric in METRICS)


def test_the_sac_bbf_authors_runs_give_their_own_iqm(rows):
    assert rows["SAC-BBF RR2, runs"]["iqm"].value == pytest.approx(1.012, abs=6e-4)


def test_the_paper_s_sac_bbf_is_above_human_in_13_games(rows):
    assert rows["SAC-BBF RR2, paper"]["games_above_human"].value == 13


@pytest.mark.parametrize(
    ("agent", "printed"),
    [
        ("SR-SPR", "SR-SPR"),
        ("EfficientZero", "EfficientZero"),
        ("BBF RR2, runs", "BBF RR2"),
        ("BBF RR8, paper", "BBF RR8"),
        ("SAC-BBF RR2, paper", "SAC-BBF RR2"),
    ],
)
def test_what_means_give_matches_the_paper_to_rounding(rows, agent, printed):
    # The paper's means have one to three decimals, and some of its aggregates are cut off.
    for metric in set(METRICS) - NEEDS_RUNS:
        assert rows[agent][metric].value == pytest.approx(printed_aggregates()[printed][metric], abs=1.1e-3)
        assert not rows[agent][metric].quoted


@pytest.mark.parametrize(("agent", "iqm"), [("SR-SPR", 0.632), ("EfficientZero", 1.02), ("SAC-BBF RR2, paper", 1.088)])
def test_what_needs_unpublished_runs_is_quoted(rows, agent, iqm):
    assert rows[agent]["iqm"].quoted and rows[agent]["iqm"].value == iqm
    assert rows[agent]["optimality_gap"].quoted and rows[agent]["iqm"].low is None


def test_random_and_human_are_the_ends_of_the_scale(rows):
    assert [rows["Random"][metric].value for metric in METRICS] == [0, 0, 0, 1, 0]
    assert [rows["Human"][metric].value for metric in METRICS] == [1, 1, 1, 0, 0]


def test_every_agent_names_its_source():
    for agent in (*baselines(), *published_agents()):
        assert agent.source and agent.published
    assert "BBF authors" in next(agent.source for agent in published_agents() if agent.name == "BBF RR2, runs")


def test_runs_are_there_per_seed():
    counts = {agent.name: {len(found) for found in agent.scores.values()} for agent in published_agents()}
    assert counts["BBF RR2, runs"] == {14} and counts["SAC-BBF RR2, runs"] == {10}
    assert counts["BBF RR8, runs"] == {52, 56, 60}  # unequal, and said so
    notes = build_published(Sampling(100)).comparisons[0].notes
    assert any("BBF RR8, runs: 52, 56, 60 runs per game" in note for note in notes)


def test_an_agent_without_all_games_is_left_out_of_the_aggregates_and_said_so(rows):
    assert "SAC-Discrete" not in rows
    notes = build_published(Sampling(100)).comparisons[0].notes
    assert any(note.startswith("SAC-Discrete is not in this comparison: no score for BankHeist") for note in notes)


def test_every_published_agent_is_there():
    shown = {agent.name.split(",")[0] for agent in published_agents()}
    assert shown == {"SAC-Discrete", "SR-SPR", "EfficientZero", "BBF RR2", "BBF RR8", "SAC-BBF RR2"}
    assert len(games.PUBLISHED_AGENTS) == len(shown) == len(paper_tables()["seeds_per_game"])
