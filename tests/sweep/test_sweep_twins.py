"""Cells that differ only in how they are evaluated share one training."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from rich.console import Console
from small_sweep import COMPARED, begun, small_spec, words_of

from sacbbf.cli import run
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.estimate import Cost, Estimator
from sacbbf.sweep.spec import Variant
from sacbbf.sweep.twins import twins_last, twins_of
from sacbbf.sweep.work import run_cell

SAMPLED, GREEDY = Variant("sac-bbf"), Variant("sac-bbf", {"eval.greedy": True}, "greedy")
OTHER = Variant("sac-bbf", {"eval.greedy": True, "loss.backup": "expected"})


def spec_of(*variants, seeds=1, **settings):
    spec = small_spec(seeds, variants=variants)
    return replace(spec, settings={**spec.settings, "eval.episodes": 6, **settings})


def trained(path, spec):
    """A sweep whose cells are run one after the other, in the order that the command gives them."""
    directory = begun(path, spec)
    for cell in twins_last(spec, spec.cells()):
        ended = run_cell(directory, spec, cell, Console(quiet=True))
        assert ended.kind == "finished", ended.why
    return directory


def result_of(directory, cell):
    return json.loads(directory.run(cell).result.read_bytes())


def test_a_twin_has_the_scores_of_a_run_that_was_trained_itself(tmp_path):
    both, alone = spec_of(SAMPLED, GREEDY), spec_of(GREEDY)
    together, apart = trained(tmp_path / "both", both), trained(tmp_path / "alone", alone)
    first, second = both.cells()
    found, want = result_of(together, second), result_of(apart, alone.cells()[0])
    assert found["trained_by"] == first.name and "trained_by" not in want
    for name in ("score", "returns", "lengths", "steps", "updates", "finished", "train_episodes"):
        assert found[name] == want[name], name
    assert found["returns"] != result_of(together, first)["returns"]
    for name in COMPARED:
        own, other = (directory.run(second).path / name for directory in (together, apart))
        assert own.read_bytes() == other.read_bytes(), name
    assert together.run(second).curve.stat().st_size > 0
    assert sorted(path.name for path in together.run(second).path.parent.iterdir()) == ["seed0"]


def test_the_command_trains_one_of_two(tmp_path):
    spec = spec_of(SAMPLED)
    path = tmp_path / "sweep"
    words = [*words_of(spec), "--vary", "eval.greedy=true,false", "--workers", "1", "--quiet"]
    assert run(["sweep", str(path), *words]) == 0
    directory = SweepDirectory(path)
    by_another = {cell.name: result_of(directory, cell).get("trained_by") for cell in directory.read().cells()}
    greedy, sampled = "sac-bbf+eval.greedy=true/CartPole-v1/seed0", "sac-bbf+eval.greedy=false/CartPole-v1/seed0"
    assert by_another == {greedy: None, sampled: greedy}


def test_a_cell_whose_twin_is_not_finished_trains_itself(tmp_path):
    spec = spec_of(SAMPLED, GREEDY)
    directory = begun(tmp_path / "sweep", spec)
    assert run_cell(directory, spec, spec.cells()[1], Console(quiet=True)).kind == "finished"
    assert "trained_by" not in result_of(directory, spec.cells()[1])


@pytest.mark.parametrize("others", [(OTHER,), (Variant("bbf", {"eval.greedy": True}),)])
def test_other_training_makes_no_twin(others):
    spec = spec_of(SAMPLED, *others)
    assert twins_of(spec, spec.cells()[0]) == []


def test_baselines_have_no_twins():
    spec = spec_of(Variant("random"), Variant("random", {"eval.greedy": True}))
    assert twins_of(spec, spec.cells()[0]) == []


def test_evaluations_during_training_make_no_twin():
    spec = spec_of(SAMPLED, GREEDY, **{"eval.every": 50})
    assert twins_of(spec, spec.cells()[0]) == []


def test_second_twins_come_last_and_cost_no_updates():
    spec = spec_of(GREEDY, SAMPLED, OTHER, seeds=2)
    names = [cell.name.replace("/CartPole-v1/seed", " ") for cell in twins_last(spec, spec.cells())]
    other = OTHER.name
    assert names == ["greedy 0", f"{other} 0", "greedy 1", f"{other} 1", "sac-bbf 0", "sac-bbf 1"]
    costs = {cell.variant.name: Estimator(spec).cost(cell) for cell in spec.cells()[:2]}
    assert costs["sac-bbf"] == Cost(0, 0.0, 0, 0) and costs["greedy"].updates > 0
