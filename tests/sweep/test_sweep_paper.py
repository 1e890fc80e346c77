"""The paper's tables as sweeps: their games, agents and seeds, what they cost, and that a smaller scale says so."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from sacbbf.bench import figures as bench
from sacbbf.bench.clock import Spread
from sacbbf.bench.speed import ActingSpeed, Rounds, UpdateSpeed
from sacbbf.cli import run
from sacbbf.commands import report
from sacbbf.commands.reproduce import ReproduceArgs, read_words, timing_table
from sacbbf.envs import games
from sacbbf.sweep.check import check
from sacbbf.sweep.estimate import Estimator
from sacbbf.sweep.paper import TABLES, table_spec
from sacbbf.sweep.spec import Cell, configuration

GAMES = {
    "variance-reduction": ("KungFuMaster", "Krull", "Frostbite", "RoadRunner", "Jamesbond"),
    "annealing": ("Seaquest", "Alien", "CrazyClimber", "Pong", "Kangaroo"),
    "rr-scaling": ("KungFuMaster", "Gopher", "Krull", "Asterix", "Qbert"),
    "main": games.GAMES,
}
GAMES["expectations"] = GAMES["behaviour"] = GAMES["variance-reduction"]  # ours, on the same games


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
        loss = config.settings.loss
        others = [*(["gradient"] * (loss.policy_gradient == "expected")), *(["backup"] * (loss.backup == "expected"))]
        others += ["released"] * (config.settings.behaviour == "released")
        found[variant.name] = (*kept, schedule.beta_end, *others)
    assert (
        found
        == {
            "main": {
                "SAC-Discrete": ("sac-discrete", 1, False, False, 0.0, "gradient", "backup"),
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
            "expectations": {
                "SAC-BBF": ("sac-bbf", 2, True, False, 0.0),
                "SAC-BBF-expected-gradient": ("sac-bbf", 2, True, False, 0.0, "gradient"),
                "SAC-BBF-expected-backup": ("sac-bbf", 2, True, False, 0.0, "backup"),
                "SAC-BBF-expected-both": ("sac-bbf", 2, True, False, 0.0, "gradient", "backup"),
            },
            "behaviour": {
                "SAC-BBF": ("sac-bbf", 2, True, False, 0.0),
                "SAC-BBF-released": ("sac-bbf", 2, True, False, 0.0, "released"),
            },
        }[table]
    )


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("scale", ["laptop", "minatar"])
def test_a_smaller_scale_can_be_run_and_says_what_it_is(table, scale):
    spec = replace(table_spec(table, scale), device="cpu", threads=1)
    assert spec.note.startswith("Scaled down: ")
    check(replace(spec, envs=spec.envs[:1]))


def test_a_smaller_scale_compares_sac_bbf_at_the_largest_ratio_too():
    ratios = [(one.agent, one.settings["replay_ratio"]) for one in table_spec("rr-scaling", "minatar").variants]
    assert ratios == [("bbf", 1), ("bbf", 4), ("sac-bbf", 1), ("sac-bbf", 2), ("sac-bbf", 4)]


def test_a_smaller_scale_compares_variance_reduction_with_bbf():
    names = [one.name for one in table_spec("variance-reduction", "laptop").variants]
    assert names == ["SAC-BBF-without-variance-reduction", "SAC-BBF", "BBF"]


DRAWN = ",".join(reversed(GAMES["annealing"]))
SCALED = table_spec("annealing", "minatar").note
LAPTOP = "Scaled down: the laptop size, half the replay ratio{}. These are not the paper's conditions."


@pytest.mark.parametrize(
    ("scale", "flags", "note"),
    [
        ("paper", {}, ""),
        ("paper", {"seeds": "10", "steps": 100_000, "games": DRAWN}, ""),  # the table's own, in any order
        ("paper", {"seeds": "5-9,0-4"}, ""),
        ("paper", {"agents": "SAC-BBF"}, ""),
        ("paper", {"seeds": "9"}, "Other seeds than the paper's."),
        ("paper", {"games": "Pong", "steps": 7}, "Other games, steps than the paper's."),
        ("paper", {"set": ("compute.compile=true", "checkpoint.every=7")}, ""),
        ("paper", {"set": ("compute.precision=bf16",)}, "Other precision than the paper's."),
        ("laptop", {}, LAPTOP.format(", fewer steps")),
        ("laptop", {"steps": 100_000}, LAPTOP.format("")),  # as many as the paper's
        ("minatar", {"seeds": "5"}, SCALED),  # the scale's
        ("minatar", {"seeds": "10", "games": "minatar"}, SCALED),  # the paper's
        ("minatar", {"seeds": "3"}, f"{SCALED} Other seeds than the paper's."),
    ],
)
def test_the_note_names_what_really_differs_from_the_paper(scale, flags, note):
    assert read_words(ReproduceArgs(table="annealing", scale=scale, **flags)).note == note


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
    assert len(cells) == 6 and all(" updates, " in line for line in cells)
    assert "1 environment x 3 agents x 2 seeds = 6 cells: CartPole-v1" in lines
    assert any(" of one worker on this machine" in line for line in lines) and any(
        line.startswith("disk: ") for line in lines
    )
    assert list(tmp_path.iterdir()) == []


def test_what_a_cluster_costs_is_estimated_from_this_machine(tmp_path, capsys, monkeypatch):
    """Its device is one that this machine lacks, and how many cells run at a time is its own affair."""
    monkeypatch.chdir(tmp_path)
    words = ["--scale", "minatar", "--games", "CartPole-v1", "--agents", "SAC-BBF", "--seeds", "2", "--steps", "1000"]
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    cluster = ["--executor", "slurm", "--device", "cuda"]
    assert run(["reproduce", "variance-reduction", "--dry-run", *words, *cluster]) == 0
    *_, hours, disk, age = capsys.readouterr().out.splitlines()
    assert " of one worker on this machine (cpu, 1 thread); evaluation comes on top" in hours
    assert disk.endswith("MB more for each that runs") and age.startswith("speed measured just now at a load of ")


def test_an_agent_that_is_not_in_the_table_is_refused(capsys):
    assert run(["reproduce", "annealing", "--agents", "BBF-RR2", "--dry-run"]) == 2
    assert "agents = 'BBF-RR2': must be among SAC-BBF-constant-beta-greedy" in capsys.readouterr().err


def test_how_a_table_is_computed_can_be_set_and_what_cannot(capsys):
    words = ("compute.compile=true", "eval.parallel=3", "eval.baselines=false")
    spec = read_words(ReproduceArgs(table="annealing", set=words))
    chosen = {"compute.compile": True, "eval.parallel": 3, "eval.baselines": False}
    assert spec.settings == {"eval.episodes": 100, **chosen}
    for name in ("loss.variance_reduction=false", "eval.episodes=3", "compute.share_bootstrap=true"):
        assert run(["reproduce", "annealing", "--set", name, "--dry-run"]) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert f"set = {name.partition('=')[0]}: must be one of compute.compile," in said


def test_a_scaled_table_is_run_and_its_report_says_so(tmp_path, capsys, monkeypatch):
    build, built = report.build, []
    monkeypatch.setattr(report, "build", lambda *args, **how: built.append(build(*args, **how)) or built[-1])
    words = ["--scale", "minatar", "--games", "CartPole-v1", "--seeds", "1", "--steps", "150", "--device", "cpu"]
    out = tmp_path / "table"
    assert run(["reproduce", "variance-reduction", "--out", str(out), "--agents", "SAC-BBF", *words]) == 0
    assert "Scaled down" in (out / "report.html").read_text()
    assert "Scaled down" in (out / "report.md").read_text()
    said = capsys.readouterr().out
    assert "note: Scaled down" in said and f"html: {out / 'report.html'}" in said
    assert len(built) == 1


# --- timing ---


def spread(seconds):
    return Spread(seconds, seconds, seconds, 1)


@pytest.fixture
def figures():
    """A machine: 1,000 environment steps a second, updates of 30 and 20 ms, 3,200 passes in 6.4 and 3.2 s."""
    agents = {
        "sac-bbf": UpdateSpeed(1.0, spread(0.03), {}, spread(0.5)),
        "bbf": UpdateSpeed(1.0, spread(0.02), {}, spread(0.5)),
    }
    acting = ActingSpeed(spread(6.4), spread(3.2), spread(2.0), (1.9, 2.1))
    return bench.Figures(
        Rounds(agents, spread(1.0), spread(1.5)), acting, {}, 1_000.0, 1.0, 10**9, {"sac-bbf": [], "bbf": []}
    )


@pytest.mark.parametrize(("agent", "ratio", "seconds"), [("sac-bbf", 2, 6_180.0), ("bbf", 8, 15_880.0)])
def test_a_run_is_projected_from_environment_acting_and_updates(agent, ratio, seconds, figures):
    """100,000 steps of 1 ms, as many passes of 2 or 1 ms, and updates after the first 2,000 steps."""
    assert bench.projected_seconds(figures, agent, ratio) == pytest.approx(seconds)


def test_the_benchmark_projects_the_agent_that_it_shows(figures):
    lines = {agent: bench.lines(figures, "laptop", agent) for agent in ("sac-bbf", "bbf")}
    projected = {agent: next(line for line in found if "a run of" in line) for agent, found in lines.items()}
    assert projected["sac-bbf"].endswith("RR 2: 1.7 h, RR 4: 3.4 h, RR 8: 6.6 h")
    assert projected["bbf"].endswith("RR 2: 1.1 h, RR 4: 2.2 h, RR 8: 4.4 h")


def test_the_papers_times_stand_beside_this_machine_s(figures):
    out = io.StringIO()
    Console(file=out, width=160).print(timing_table(figures, "cpu"))
    lines = [line.split("│")[1:-1] for line in out.getvalue().splitlines() if "│" in line]
    rows = [[part.strip() for part in line] for line in lines]
    assert ["3,200 forward passes of batch 1", "sac_bbf", "6.400 s", "1.938 s"] in rows
    assert ["3,200 forward passes of batch 1", "bbf", "3.200 s", "2.034 s"] in rows
    assert ["100,000 steps at replay ratio 2, projected", "sac_bbf", "103 min", "106 min"] in rows
    assert ["100,000 steps at replay ratio 8, projected", "bbf", "265 min", "371 min"] in rows
    assert len(rows) == 8


def test_times_are_measured_with_the_size_s_threads(figures, monkeypatch, capsys):
    before, used = torch.get_num_threads(), []

    def measure(size, device, repeats):
        used.append((size, torch.get_num_threads()))
        return figures

    monkeypatch.setattr(bench, "measure", measure)
    try:
        torch.set_num_threads(2)
        assert run(["reproduce", "timing", "--scale", "minatar", "--device", "cpu"]) == 0
    finally:
        torch.set_num_threads(before)
    assert used == [("tiny-paper", 1)]
    assert "acting, ratio 2.000 (95% interval 1.900 to 2.100); paper 0.953" in capsys.readouterr().out
