"""Scores in words."""

from __future__ import annotations

from sacbbf.api.evaluation import Evaluation
from sacbbf.run.certainty import certainty, counted


def test_a_single_episode_has_no_interval():
    assert str(Evaluation.of((14.0,))) == "14.00 (1 episode)"
    assert certainty((14.0, 14.0), 1) == counted(1) == "1 episode"


def test_several_episodes_have_one():
    assert str(Evaluation.of((1.0, 3.0))) == "2.00 (95% interval 0.04 to 3.96, 2 episodes)"
    assert certainty((0.5, 2.25), 4) == "95% interval 0.50 to 2.25" and counted(4) == "4 episodes"
