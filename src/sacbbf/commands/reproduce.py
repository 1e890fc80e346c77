"""`sacbbf reproduce`: a table of the paper as a sweep and a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table

from sacbbf.agents.presets import SIZES
from sacbbf.commands import report
from sacbbf.commands.parsing import parse
from sacbbf.commands.sweep import carry_out, print_estimate, with_compilation, with_threads
from sacbbf.envs.trust import search_working_directory
from sacbbf.errors import UsageError
from sacbbf.machine.allocator import keep_freed_pages
from sacbbf.report.published import paper_tables
from sacbbf.report.terminal import show
from sacbbf.run.devices import resolve_device
from sacbbf.run.settings import FREE
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.paper import SCALES, ScaleName, note_on, table_spec
from sacbbf.sweep.spec import Spec, parse_games, parse_seeds, parse_settings
from sacbbf.sweep.trust import names_modules
from sacbbf.sweep.workers import Workers, check_workers, device_of

if TYPE_CHECKING:
    from sacbbf.bench.figures import Figures

# How, not what, is computed, and whether random and blind play are measured beside it.
SETTABLE = ("compute.compile", "compute.frames", "compute.precision", *FREE, "eval.baselines")


EXAMPLES = """\
  sacbbf reproduce variance-reduction --scale minatar --dry-run
  sacbbf reproduce main --executor slurm --device cuda --slurm-partition gpu
"""


@dataclass(frozen=True)
class ReproduceArgs(Workers):
    """Run a table of the paper: its games, its agents with their settings, its seeds, its evaluation; then report it.

    main: every agent on all 26 games; variance-reduction: SAC-BBF without and with it, and BBF below the paper's scale;
    annealing: constant beta, evaluated greedily and by sampling, against annealed beta; rr-scaling: BBF and SAC-BBF by
    replay ratio; timing: acting and training time of both on this machine. Beyond the paper: expectations, policy
    gradient and backup sampled or exact; behaviour, the paper's agent and the one that was released. Stopped at any
    moment, it goes on when started again.
    """

    table: Annotated[
        Literal["main", "variance-reduction", "annealing", "rr-scaling", "expectations", "behaviour", "timing"],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="TABLE"),
    ] = tyro.MISSING
    """Which table: main, variance-reduction, annealing, rr-scaling, expectations, behaviour or timing, as above."""
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
    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """NAME=VALUE: how all cells are computed or saved, as in compute.compile=true. What is computed is the table's."""
    dry_run: bool = False
    """Print every cell with its updates, and an estimate of hours and disk from this machine's speed; run nothing."""
    quiet: bool = False
    """Print summaries only."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    args = parse(ReproduceArgs, argv, "reproduce", EXAMPLES)
    if args.table == "timing":
        return timing(args)
    from sacbbf.sweep.check import check

    check_workers(args)
    directory = SweepDirectory(directory_of(args).absolute())
    spec = replace(read_words(args), device=device_of(args))
    typed = names_modules(spec.envs, spec.variants, spec.settings)
    if typed:
        search_working_directory()
    spec = with_threads(spec, directory, args)
    spec = with_compilation(spec, directory, args)
    check(spec, here=args.executor == "local")
    if args.dry_run:
        print_estimate(spec, args, args.quiet)
        return 0
    code = carry_out(directory, spec, args, Console(quiet=args.quiet, soft_wrap=True), trust=typed)
    if code != 130:
        write_report(directory.path)
    return code


def read_words(args: ReproduceArgs) -> Spec:
    """Return the table's sweep with what the flags change of it, which its note then says."""
    if args.table == "timing":
        raise UsageError("timing is no sweep")
    spec = table_spec(args.table, args.scale)
    if args.games is not None:
        spec = replace(spec, envs=parse_games(args.games))
    if args.seeds is not None:
        spec = replace(spec, seeds=parse_seeds(args.seeds))
    if args.steps is not None:
        spec = replace(spec, steps=args.steps)
    if args.agents is not None:
        by_name = {variant.name: variant for variant in spec.variants}
        names = [name.strip() for name in args.agents.split(",")]
        for name in names:
            if name not in by_name:
                raise UsageError(f"agents = {name!r}: must be among {', '.join(by_name)}")
        spec = replace(spec, variants=tuple(by_name[name] for name in names))
    settings = parse_settings(args.set)
    for name in settings:
        if name not in SETTABLE:
            raise UsageError(f"set = {name}: must be one of {', '.join(SETTABLE)}; the others are the table's")
    spec = replace(spec, settings={**spec.settings, **settings})
    return replace(spec, note=note_on(spec, args.table, args.scale))


def directory_of(args: ReproduceArgs) -> Path:
    """Return where the sweep lies."""
    return args.out or Path("reproduce") / (args.table if args.scale == "paper" else f"{args.table}-{args.scale}")


def write_report(path: Path) -> None:
    """Report a sweep beside the published scores: the tables on the terminal, a page, and Markdown."""
    args = report.ReportArgs((path,), html=path / "report.html", markdown=path / "report.md")
    found, console = report.make_report(args), report.make_console()
    show(found, console)
    report.write_files(args, found, console)


def timing(args: ReproduceArgs) -> int:
    """Measure the paper's table of times on this machine, and print it beside the paper's."""
    import torch

    from sacbbf.bench import figures as bench

    keep_freed_pages()
    scale = SCALES[args.scale]
    device = torch.device(resolve_device(args.device))
    console = Console(soft_wrap=True)
    if args.dry_run:
        console.print(f"sacbbf bench --size {scale.size}: acting and updates of SAC-BBF and BBF in turn, on {device}")
        return 0
    bench.set_threads(scale.size)
    found = bench.measure(scale.size, device, bench.ROUNDS[scale.size])
    note = scale.note(SIZES["paper"].steps)  # a projection for as many steps as the paper's
    if note:
        console.print(note)
    console.print(timing_table(found, str(device)))
    acting, printed = found.acting, paper_tables()["timing_rtx4090"]["inference_3200_forwards_batch1_seconds"]
    low, high = acting.interval
    ratio = f"{acting.ratio.median:.3f} (95% interval {low:.3f} to {high:.3f})"
    console.print(f"acting, ratio {ratio}; paper {printed['sac_bbf'] / printed['bbf']:.3f}")
    return 0


def timing_table(figures: Figures, device: str) -> Table:
    """Return the paper's table of times with a column for this machine."""
    from sacbbf.bench.figures import projected_seconds

    paper = paper_tables()["timing_rtx4090"]
    table = Table("", "agent", f"here, {device}", "paper, RTX 4090", title="acting and training time")
    for agent, printed in paper["inference_3200_forwards_batch1_seconds"].items():
        seconds = figures.acting_seconds(agent.replace("_", "-"))
        table.add_row("3,200 forward passes of batch 1", agent, f"{seconds:.3f} s", f"{printed} s")
    for name, printed in paper["training_minutes_100k_steps"].items():
        agent, _, ratio = name.rpartition("_rr")
        minutes = projected_seconds(figures, agent.replace("_", "-"), int(ratio)) / 60
        words = f"100,000 steps at replay ratio {ratio}, projected"
        table.add_row(words, agent, f"{minutes:,.0f} min", f"{printed} min")
    return table
