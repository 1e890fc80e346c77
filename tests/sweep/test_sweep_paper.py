"""The paper's tables as sweeps: their games, agents and seeds, what they cost, and that a smaller scale says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sacbbf import games
from sacbbf.cli import run
from sacbbf.sweep.estimate import Estimator
from sacbbf.sweep.paper import TABLES, table_spec
from sacbbf.sweep.spec import Cell, check, configuration

GAMES = {
    "variance-reduction": ("KungFuMaster", "Krull", "Frostbite", "RoadRunner", "Jamesbond"),
    "annealing": ("Seaquest", "Alien", "CrazyClimber", "Pong", "Kangaroo"),
    "rr-scaling": ("KungFuMaster", "Gopher", "Krull", "Asterix", "Qbert"),
    "main": games.GAMES,
}


@pytest.mark.parametrize("table", TABLES)
def test_games_and_seeds_are_the_papers(table):
    spec = table_spec(table)
    assert spec.envs == GAMES[table]
    assert spec.seeds == tuple(range(10))
    assert (spec.size, spec.steps, spec.settings, spec.note) == ("paper", 100_000, {"eval.episodes": 100}, "")


@pytest.mark.parametrize("table", TABLES)
def test_columns_differ_in_what_the_table_compares(table):
    spec = table_spec(table)
    found = {}
    for variant in spec.variants:
        config = configuration(spec, Cell(variant, spec.envs[-1], 0))
        schedule = config.settings.schedule
        reduced = config.agent == "sac-bbf" and config.settings.loss.variance_reduction
        kept = (config.agent, schedule.replay_ratio, reduced, config.eval.greedy)
        found[variant.name] = (*kept, schedule.beta_end)
    assert (
        found
        == {
            "main": {
                "SAC-Discrete": ("sac-discrete", 1, False, False, 0.0),
                "SR-SPR-RR16": ("sr-spr", 16, False, False, 0.0),
                "BBF-RR8": ("bbf", 8, False, False, 0.0),
                "BBF-RR2": ("bbf", 2, False, False, 0.0),
                "SAC-BBF-RR2": ("sac-bbf", 2, True, False, 0.0),
            },
            "variance-reduction": {
                "SAC-BBF-without-variance-reduction": ("sac-bbf", 2, False, False, 0.0),
                "SAC-BBF": ("sac-bbf", 2, True, False, 0.0),
            },
            "annealing": {
                "SAC-BBF-constant-beta-greedy": ("sac-bbf", 2, True, True, 0.01),
                "SAC-BBF-constant-beta-sampled": ("sac-bbf", 2, True, False, 0.01),
                "SAC-BBF": ("sac-bbf", 2, True, False, 0.0),
            },
            "rr-scaling": {
                "BBF-RR2": ("bbf", 2, False, False, 0.0),
                "BBF-RR8": ("bbf", 8, False, False, 0.0),
                "SAC-BBF-RR2": ("sac-bbf", 2, True, False, 0.0),
                "SAC-BBF-RR4": ("sac-bbf", 4, True, False, 0.0),
            },
        }[table]
    )


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("scale", ["laptop", "minatar"])
def test_a_smaller_scale_can_be_run_and_says_what_it_is(table, scale):
    spec = replace(table_spec(table, scale), device="cpu", threads=1)
    assert spec.note.startswith("Scaled down: ")
    check(replace(spec, envs=spec.envs[:1]))


def test_updates_are_counted_and_speed_is_measured():
    spec = replace(table_spec("rr-scaling", "minatar"), envs=("CartPole-v1",), device="cpu", threads=1, steps=1_000)
    by_name = {variant.name: variant for variant in spec.variants}
    estimator = Estimator(spec)
    costs = {name: estimator.cost(Cell(variant, "CartPole-v1", 0)) for name, variant in by_name.items()}
    warmup = configuration(spec, Cell(by_name["BBF-RR1"], "CartPole-v1", 0)).settings.schedule.warmup
    assert costs["BBF-RR1"].updates == 1_000 - warmup
    assert costs["BBF-RR4"].updates == 4 * (1_000 - warmup)
    assert 3 < (costs["BBF-RR4"].seconds - costs["BBF-RR1"].seconds) / costs["BBF-RR1"].seconds + 1 < 4.01
    assert all(cost.state_bytes > cost.kept_bytes > 0 for cost in costs.values())


def test_a_dry_run_prints_every_cell_with_updates_hours_and_disk(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["--scale", "minatar", "--games", "CartPole-v1", "--seeds", "2", "--steps", "1000", "--device", "cpu"]
    assert run(["reproduce", "variance-reduction", "--dry-run", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Scaled down: ") and lines[0].endswith("Other games, seeds, steps than the paper's.")
    cells = [line for line in lines if "/CartPole-v1/seed" in line]
    assert len(cells) == 4 and all(" updates, " in line for line in cells)
    assert "1 games x 2 agents x 2 seeds = 4 cells: CartPole-v1" in lines
    assert any("hours of one worker" in line for line in lines) and any(line.startswith("disk: ") for line in lines)
    assert list(tmp_path.iterdir()) == []


def test_an_agent_that_is_not_in_the_table_is_refused(capsys):
    assert run(["reproduce", "annealing", "--agents", "BBF-RR2", "--dry-run"]) == 2
    assert "agents = 'BBF-RR2': must be among SAC-BBF-constant-beta-greedy" in capsys.readouterr().err


def test_a_scaled_table_is_run_and_its_report_says_so(tmp_path, capsys):
    words = ["--scale", "minatar", "--games", "CartPole-v1", "--seeds", "1", "--steps", "150", "--device", "cpu"]
    out = tmp_path / "table"
    assert run(["reproduce", "variance-reduction", "--out", str(out), "--agents", "SAC-BBF", *words]) == 0
    assert "Scaled down" in (out / "report.html").read_text()
    assert "Scaled down" in (out / "report.md").read_text()
    assert "note: Scaled down" in capsys.readouterr().out
