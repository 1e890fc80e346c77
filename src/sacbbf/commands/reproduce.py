"""`sacbbf reproduce`: a table of the paper as a sweep and a report."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

from sacbbf.commands import bench, report
from sacbbf.commands.sweep import Workers, carry_out, share_of_cores
from sacbbf.errors import UsageError
from sacbbf.memory import keep_freed_pages
from sacbbf.presets import SizeName
from sacbbf.run.settings import resolve_device
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.estimate import Estimator
from sacbbf.sweep.paper import SCALES, ScaleName, table_spec
from sacbbf.sweep.spec import Spec, check, parse_games, parse_seeds
from sacbbf.sweep.table import duration


@dataclass(frozen=True)
class ReproduceArgs(Workers):
    """Run a table of the paper: its games, its agents with their settings, its seeds, its evaluation; then report it.

    main: every agent on all 26 games; variance-reduction: SAC-BBF without and with it; annealing: constant beta,
    evaluated greedily and by sampling, against annealed beta; rr-scaling: BBF and SAC-BBF by replay ratio; timing:
    acting and training time of both on this machine. Stopped at any moment, it goes on when started again.
    """

    table: Annotated[
        Literal["main", "variance-reduction", "annealing", "rr-scaling", "timing"],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="TABLE"),
    ] = tyro.MISSING
    scale: ScaleName = "paper"
    """paper: as published, for GPUs; laptop: Atari on a CPU; minatar: in hours on a CPU. All but paper are marked as
    scaled wherever they are reported."""
    out: Path | None = None
    """The sweep's directory; by default reproduce/TABLE, or reproduce/TABLE-SCALE."""
    games: str | None = None
    """Other games than the paper's: minatar, paper-subset:SEED, or names between commas."""
    agents: str | None = None
    """Only these of the table's agents, by the names that --dry-run prints, between commas."""
    seeds: str | None = None
    """Other seeds: 5 (0 to 4), 3-7, or 0,2,9."""
    steps: int | None = None
    """Other environment steps of each run."""
    device: str = "auto"
    """auto, cpu, cuda or mps."""
    dry_run: bool = False
    """Print every cell with its updates, and an estimate of hours and disk from this machine's speed; run nothing."""
    quiet: bool = False
    """Print summaries only."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    keep_freed_pages()
    args = tyro.cli(ReproduceArgs, args=argv, prog="sacbbf reproduce")
    if args.table == "timing":
        return timing(args)
    spec = replace(read_words(args), device=resolve_device(args.device))
    directory = SweepDirectory(directory_of(args).absolute())
    threads = directory.read().threads if directory.manifest.exists() else share_of_cores(spec, args)
    spec = replace(spec, threads=threads)
    check(spec)
    if args.dry_run:
        print_estimate(spec, args, Console(soft_wrap=True))
        return 0
    code = carry_out(directory, spec, args, Console(quiet=args.quiet, soft_wrap=True))
    if code != 130:
        code = max(code, write_report(directory.path))
    return code


def read_words(args: ReproduceArgs) -> Spec:
    """Return the table's sweep with what the flags change of it, which its note then says."""
    if args.table == "timing":
        raise UsageError("timing is no sweep")
    spec = table_spec(args.table, args.scale)
    changed: list[str] = []
    if args.games is not None:
        spec, changed = replace(spec, envs=parse_games(args.games)), [*changed, "games"]
    if args.seeds is not None:
        spec, changed = replace(spec, seeds=parse_seeds(args.seeds)), [*changed, "seeds"]
    if args.steps is not None:
        spec, changed = replace(spec, steps=args.steps), [*changed, "steps"]
    if args.agents is not None:
        by_name = {variant.name: variant for variant in spec.variants}
        names = [name.strip() for name in args.agents.split(",")]
        for name in names:
            if name not in by_name:
                raise UsageError(f"agents = {name!r}: must be among {', '.join(by_name)}")
        spec = replace(spec, variants=tuple(by_name[name] for name in names))
    if changed:
        words = f"Other {', '.join(changed)} than the paper's."
        spec = replace(spec, note=f"{spec.note} {words}".strip())
    return spec


def directory_of(args: ReproduceArgs) -> Path:
    """Return where the sweep lies."""
    return args.out or Path("reproduce") / (args.table if args.scale == "paper" else f"{args.table}-{args.scale}")


def print_estimate(spec: Spec, args: ReproduceArgs, console: Console) -> None:
    """Print every cell with its updates, and what all of them cost."""
    estimator = Estimator(spec)
    cells = spec.cells()
    kinds = {cell.name.rpartition("/")[0]: cell for cell in cells}  # seeds are alike
    shown = track(kinds.items(), "timing updates", console=Console(stderr=True, quiet=args.quiet), transient=True)
    costs = {name: estimator.cost(cell) for name, cell in shown}
    if spec.note:
        console.print(spec.note, highlight=False)
    for cell in cells:
        cost = costs[cell.name.rpartition("/")[0]]
        line = f"{cell.name}: {spec.steps_of(cell):,} steps, {cost.updates:,} updates, {duration(cost.seconds)}"
        console.print(line, markup=False, highlight=False)
    every = [costs[cell.name.rpartition("/")[0]] for cell in cells]
    workers = args.workers or max(1, (os.cpu_count() or 1) // (spec.threads or 1))
    total = sum(cost.seconds for cost in every)
    kept = sum(cost.kept_bytes for cost in every)
    state = workers * max(cost.state_bytes for cost in every)
    games = ", ".join(spec.envs)
    for line in (
        f"{len(spec.envs)} games x {len(spec.variants)} agents x {len(spec.seeds)} seeds = {len(cells)} cells: {games}",
        f"{sum(cost.updates for cost in every):,} updates, about {total / 3600:,.1f} hours of one worker on this "
        f"machine ({spec.device}, {spec.threads} threads), {total / 3600 / workers:,.1f} hours with {workers}; "
        "evaluation comes on top",
        f"disk: about {kept / 1e9:,.2f} GB when finished, and up to {state / 1e9:,.2f} GB more while {workers} run",
    ):
        console.print(line, markup=False, highlight=False)


def write_report(path: Path) -> int:
    """Report a sweep beside the published scores: a page, Markdown, and the tables on the terminal."""
    code = report.main([str(path), "--html", str(path / "report.html"), "--markdown", str(path / "report.md")])
    return max(code, report.main([str(path)]))


def timing(args: ReproduceArgs) -> int:
    """Measure the paper's table of times on this machine, and print it beside the paper's."""
    size: SizeName = SCALES[args.scale].size
    device = torch.device(resolve_device(args.device))
    console = Console(soft_wrap=True)
    if args.dry_run:
        console.print(f"sacbbf bench --size {size}: acting and updates of SAC-BBF and BBF in turn, on {device}")
        return 0
    figures = bench.measure(size, device, bench.ROUNDS[size])
    if SCALES[args.scale].words:
        console.print(f"Scaled down: {SCALES[args.scale].words}. These are not the paper's conditions.")
    console.print(timing_table(figures, str(device)))
    low, high = figures.acting.interval
    console.print(
        f"acting, ratio {figures.acting.ratio.median:.3f} (95% interval {low:.3f} to {high:.3f}); paper 0.953"
    )
    return 0


def timing_table(figures: bench.Figures, device: str) -> Table:
    """Return the paper's table of times with a column for this machine."""
    path = resources.files("sacbbf") / "data" / "published" / "paper_tables.json"
    paper = json.loads(path.read_text(encoding="utf-8"))["timing_rtx4090"]
    table = Table("", "agent", f"here, {device}", "paper, RTX 4090", title="acting and training time")
    acting = {"bbf": figures.acting.bbf_seconds.median, "sac_bbf": figures.acting.seconds.median}
    for agent, seconds in acting.items():
        printed = paper["inference_3200_forwards_batch1_seconds"][agent]
        table.add_row("3,200 forward passes of batch 1", agent, f"{seconds:.3f} s", f"{printed} s")
    for name, printed in paper["training_minutes_100k_steps"].items():
        agent, _, ratio = name.rpartition("_rr")
        speed = figures.rounds.agents[agent.replace("_", "-")].seconds.median
        per_step = 1 / figures.env_steps_per_second + acting[agent] / bench.PASSES
        minutes = (bench.STEPS * per_step + (bench.STEPS - bench.WARMUP) * int(ratio) * speed) / 60
        words = f"100,000 steps at replay ratio {ratio}, projected"
        table.add_row(words, agent, f"{minutes:,.0f} min", f"{printed} min")
    return table
