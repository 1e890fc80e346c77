"""Runs with parts of one's own end with the same bits, stopped or not, diagnosed or not, and are evaluated."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from resuming import differing, outcome, short_config, stop_at, train_telling

from parts import OWN
from sacbbf import Agent
from sacbbf.agents.ladder import change
from sacbbf.run.records import RunDirectory, read_lines

pytestmark = pytest.mark.usefixtures("hurried", "armed", "own_parts")


def own_config(**fields):
    """A short run with parts of one's own of each kind."""
    config = short_config("Catch", **fields)
    return replace(config, settings=change(config.settings, OWN))


@pytest.fixture
def whole_run(tmp_path):
    """Directory of such a run without a stop."""
    out = tmp_path / "whole"
    assert train_telling(own_config(), out)[0]["finished"]
    return out


@pytest.mark.parametrize("step", [66, 78], ids=["before a reset", "after it"])
def test_a_run_that_was_stopped_ends_as_without_a_stop(step, whole_run, tmp_path):
    stop_at(step, own_config(), tmp_path / "run")
    assert train_telling(own_config(), tmp_path / "run")[0]["finished"]
    assert differing(outcome(tmp_path / "run"), outcome(whole_run)) == []


def test_a_run_is_evaluated_by_the_statistics_of_its_norms(whole_run):
    agent = Agent.load(whole_run)
    statistics = agent.network.encoder.batch_norm
    assert statistics.num_batches_tracked == 72 and not torch.equal(statistics.running_mean, torch.zeros(4))
    assert agent.evaluate(3).scores == agent.evaluate(3).scores


def test_diagnostics_leave_the_statistics_of_norms_alone(whole_run, tmp_path):
    config = replace(own_config(), diagnose_every=20)
    train_telling(config, tmp_path / "run")
    assert differing(outcome(tmp_path / "run"), outcome(whole_run)) == []
    assert list(read_lines(RunDirectory(tmp_path / "run").record("diagnostics")))


def test_an_auxiliary_losss_metric_is_recorded(whole_run):
    lines = list(read_lines(RunDirectory(whole_run).record("metrics")))
    assert lines and all(line["loss/auxiliary"] > 0 for line in lines)
