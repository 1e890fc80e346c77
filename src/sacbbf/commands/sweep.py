"""`sacbbf sweep`: many runs as one piece of work that can be stopped, moved and resumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from sacbbf.agents.presets import SIZES, SizeName
from sacbbf.commands.parsing import parse
from sacbbf.envs.trust import search_working_directory
from sacbbf.errors import UsageError
from sacbbf.run.devices import can_compile
from sacbbf.run.display import Display
from sacbbf.run.stop import Stop, ending_cleanly
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.drive import Driver, Totals
from sacbbf.sweep.estimate import estimate_lines
from sacbbf.sweep.reuse import reuse
from sacbbf.sweep.spec import (
    Spec,
    fitting_size,
    parse_games,
    parse_seeds,
    parse_settings,
    parse_variants,
)
from sacbbf.sweep.status import sweep_states
from sacbbf.sweep.table import LiveTable, details, left_words, overview, time_left
from sacbbf.sweep.trust import admit_sweep, names_modules
from sacbbf.sweep.twins import twins_last
from sacbbf.sweep.workers import Workers, cells_at_a_time, check_workers, device_of, make_executor, threads_of

EXAMPLES = """\
  sacbbf sweep ladder --games minatar --agents der,spr,bbf,sac-bbf --seeds 5
  sacbbf sweep rates --games Pong --vary loss.spr_weight=1,5 --seeds 3 --dry-run
  sacbbf sweep ladder --status
"""


@dataclass(frozen=True)
class SweepArgs(Workers):
    """Run games x agents x settings x seeds into one directory; stopped at any moment, it goes on when started again.

    Each cell is an ordinary run directory, DIR/runs/AGENT/GAME/seedN. Finished cells are left alone, interrupted ones
    resume from their checkpoint, failed ones are tried again. `sacbbf sweep DIR` alone goes on with the sweep in DIR;
    more games, agents or seeds may be added to it. `sacbbf report DIR` reports it.
    """

    directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")] = tyro.MISSING
    """The sweep's directory."""
    games: str | None = None
    """atari26, minatar, paper-subset:SEED (the paper's draw of five), or names: Pong,Boxing."""
    agents: str = "sac-bbf"
    """Agents between commas."""
    seeds: str = "5"
    """5 (0 to 4), 3-7, or 0,2,9."""
    vary: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """NAME=VALUE,VALUE: a setting to vary, as in replay_ratio=1,2,4; several make all combinations."""
    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """NAME=VALUE: a setting of all cells, as in eval.episodes=20."""
    size: SizeName | None = None
    """Size of all cells; by default the one that fits the environment and the machine."""
    steps: int | None = None
    """Environment steps of each cell; by default the size's."""
    threads: int | None = None
    """CPU threads of each cell; by default the size's own, and no more than its share of the cores."""
    trust: bool = False
    """Import modules that the sweep in DIR names and that are not installed, also from the working directory."""
    status: bool = False
    """Print how far the sweep in DIR has come, from any terminal; nothing is run."""
    dry_run: bool = False
    """Print every cell with its updates, and an estimate of hours and disk from this machine's speed; run nothing."""
    quiet: bool = False
    """Print the summary only."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    args = parse(SweepArgs, argv, "sweep", EXAMPLES)
    directory = SweepDirectory(args.directory.absolute())
    console = Console(quiet=args.quiet, soft_wrap=True)
    if args.status:
        print_status(directory, Console())
        return 0
    check_workers(args)
    spec = read_words(args, directory)
    typed = args.games is not None and names_modules(spec.envs, spec.variants, spec.settings)
    if args.dry_run:
        print_estimate(spec, args, args.quiet)
        return 0
    return carry_out(directory, spec, args, console, trust=args.trust or typed)


def read_words(args: SweepArgs, directory: SweepDirectory) -> Spec:
    """Return the sweep that the flags describe; without games, the one that lies in the directory."""
    from sacbbf.sweep.check import check

    if args.games is None:
        blank = SweepArgs(directory=args.directory)
        words = ("agents", "seeds", "vary", "set", "size", "steps", "device", "threads", "compile")
        given = [name for name in words if getattr(args, name) != getattr(blank, name)]
        if given and directory.manifest.exists():
            raise UsageError(
                f"{', '.join(given)}: describe a sweep, which takes --games too; sacbbf sweep {args.directory} alone "
                "goes on with the one there"
            )
        if not directory.manifest.exists():
            raise UsageError("which games? --games takes atari26, minatar, paper-subset:SEED, or names: Pong,Boxing")
        spec = directory.read()
        admit_sweep(spec, directory.manifest, args.trust)
        return spec
    envs = parse_games(args.games)
    variants, settings = parse_variants(args.agents, args.vary), parse_settings(args.set)
    if args.trust or names_modules(envs, variants, settings):
        search_working_directory()
    device = device_of(args)
    size = args.size or fitting_size(envs, device, settings)
    spec = Spec(
        envs=envs,
        variants=variants,
        seeds=parse_seeds(args.seeds),
        size=size,
        steps=SIZES[size].steps if args.steps is None else args.steps,
        settings=settings,
        threads=args.threads,
        device=device,
    )
    if args.threads is None:
        spec = with_threads(spec, directory, args)
    spec = with_compilation(spec, directory, args)
    check(spec, here=args.executor == "local")
    return spec


def with_compilation(spec: Spec, directory: SweepDirectory, args: Workers) -> Spec:
    """Return a sweep that compiles as the flag says, else as the one that lies in the directory, else if it can."""
    if args.compile != "auto":
        return replace(spec, compile=args.compile == "on")
    known = directory.read().compile if directory.manifest.exists() else can_compile(spec.device)
    return replace(spec, compile=known)


def with_threads(spec: Spec, directory: SweepDirectory, args: Workers) -> Spec:
    """Return a sweep with the number of threads of the one that lies in the directory, else with its share of cores."""
    known = directory.read().threads if directory.manifest.exists() else threads_of(spec.size, spec.device, args)
    return replace(spec, threads=known)


def carry_out(directory: SweepDirectory, spec: Spec, args: Workers, console: Console, *, trust: bool = False) -> int:
    """Store a sweep, run what is not finished of it, and print a summary; returns the exit code.

    With `trust`, modules that it names may be imported from the working directory.
    """
    directory.begin(spec)
    cells = spec.cells()
    directory.try_again(cells)
    if args.reuse is not None:
        taken = reuse(directory, spec, cells, args.reuse)
        console.print(f"{len(taken)} of {len(cells)} cells taken from {args.reuse}", highlight=False, markup=False)
    states = sweep_states(directory, cells)
    open_cells = twins_last(spec, [state.cell for state in states if state.state != "finished"])
    stop = Stop()
    totals = Totals()
    if open_cells:
        executor = make_executor(directory, spec, args, len(open_cells), trust)
        try:
            with ending_cleanly(stop), LiveTable(console, directory, spec, states, executor.queues) as table:
                totals = Driver(directory, executor, table, args.retries).run(open_cells, stop)
        finally:
            executor.close()
    print_status(directory, Console(soft_wrap=True))
    if stop.interrupted:
        return 130
    return 0 if len(totals.finished) == len(open_cells) else 1


def print_status(directory: SweepDirectory, console: Console) -> None:
    """Print how far a sweep has come."""
    spec = directory.read()
    states = sweep_states(directory, spec.cells())
    console.print(overview(states, spec))
    for line in details(states, spec):
        console.print(line, markup=False, highlight=False)
    left = time_left(states, spec)
    if left is not None:
        console.print(left_words(left), highlight=False)
    if all(state.state == "finished" for state in states):
        console.print(f"all {len(states)} cells are finished: sacbbf report {directory.path}", highlight=False)


def print_estimate(spec: Spec, args: Workers, quiet: bool) -> None:
    """Print every cell with its updates, and what all of them cost."""
    with Display(Console(stderr=True, quiet=quiet), None) as display:
        lines = estimate_lines(spec, cells_at_a_time(spec, args), display, anew=args.measure)
    console = Console(soft_wrap=not Console().is_terminal)
    for line in filter(None, [spec.note, *lines]):
        console.print(line, markup=False, highlight=False)
