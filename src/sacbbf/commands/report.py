"""`sacbbf report`: the scores of many runs, aggregated beside the published ones: a page, tables, plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from sacbbf.commands.parsing import check_file, parse
from sacbbf.disk.files import write_atomically
from sacbbf.errors import UsageError
from sacbbf.report.aggregate import Sampling
from sacbbf.report.cells import one_line
from sacbbf.report.contents import Report, build, build_published
from sacbbf.report.latex import latex
from sacbbf.report.markdown import markdown
from sacbbf.report.page import page
from sacbbf.report.plots import write_plots
from sacbbf.report.scores import read_scores
from sacbbf.report.table import table
from sacbbf.report.terminal import show
from sacbbf.run.display import Display

WRITERS: dict[str, Callable[[Report], str]] = {"html": page, "markdown": markdown, "csv": table, "latex": latex}


EXAMPLES = """\
  sacbbf report runs --html report.html
  sacbbf report runs scores.csv --agent-name "sac-bbf=Ours" --latex table.tex
  sacbbf report --published
"""


@dataclass(frozen=True)
class ReportArgs:
    """Aggregate the scores of many runs and set them beside what has been published for Atari 100K.

    PATH is a run directory, a directory that holds some at any depth, or a CSV file `agent,game,seed,score`. Without
    an output option the report is printed. Runs are the same agent if agent, size and all settings that scores depend
    on agree; other runs are named by their differences from the preset.
    """

    paths: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[PATH ...]")] = ()
    """Run directories, directories of them, CSV files."""
    published: bool = False
    """The published results alone: the paper's main table and figure, with nothing trained."""
    html: Path | None = None
    """Write one page that works offline."""
    markdown: Path | None = None
    """Write Markdown."""
    csv: Path | None = None
    """Write every number as a tidy CSV: a line per agent, statistic and environment."""
    latex: Path | None = None
    """Write a booktabs table."""
    plots: Path | None = None
    """Draw every figure into this directory, as PNG and SVG."""
    agent_name: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """NAME=LABEL: show the agent NAME as LABEL; just LABEL if there is one agent. May be given several times."""
    skip_bad: bool = False
    """Leave out what cannot be read, and list it, instead of stopping."""
    unfinished: bool = False
    """Take in runs that were stopped early, at the score they had."""
    reps: int = Sampling.reps
    """Bootstrap samples of each interval; curves and profiles have at most 2,000."""
    seed: int = Sampling.seed
    """Seed of the bootstrap: same input and seed, same intervals."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    args = parse(ReportArgs, argv, "report", EXAMPLES)
    check(args)
    write(args, make_report(args))
    return 0


def make_report(args: ReportArgs) -> Report:
    """Read and compute the report that was asked for."""
    sampling = Sampling(args.reps, args.seed)
    if args.published:
        return build_published(sampling)
    with Display(Console(stderr=True), None) as display:
        found = read_scores(
            args.paths, skip_bad=args.skip_bad, unfinished=args.unfinished, labels=args.agent_name, display=display
        )
        return build(found, sampling, display=display)


def check(args: ReportArgs) -> None:
    """Raise UsageError for words that do not go together, before anything is computed."""
    if args.published == bool(args.paths):
        raise UsageError("give run directories or CSV files, or --published for the published results alone")
    if args.published and args.agent_name:
        raise UsageError("agent_name: is for agents of your own, not for --published")
    if args.reps < 100:
        raise UsageError(f"reps = {args.reps}: must be at least 100")
    if not 0 <= args.seed < 2**32:
        raise UsageError(f"seed = {args.seed}: must be in 0 .. 2**32 - 1")
    for name in WRITERS:
        check_file(name, getattr(args, name))


def make_console() -> Console:
    """Return a console that is wide enough for tables where there is no terminal."""
    return Console(width=None if Console().is_terminal else 160)


def write(args: ReportArgs, report: Report) -> None:
    """Write what was asked for and say so, or print the report."""
    console = make_console()
    if all(getattr(args, name) is None for name in (*WRITERS, "plots")):
        show(report, console)
        return
    for line in report.left_out:
        console.print(f"left out: {one_line(line)}", highlight=False, markup=False, soft_wrap=True)
    write_files(args, report, console)


def write_files(args: ReportArgs, report: Report, console: Console) -> None:
    """Write the files that were asked for, and name them."""
    for name, writer in WRITERS.items():
        path: Path | None = getattr(args, name)
        if path is not None:
            write_atomically(path, writer(report).encode())
            console.print(f"{name}: {path}", highlight=False, markup=False, soft_wrap=True)
    if args.plots is not None:
        files = write_plots(report, args.plots)
        console.print(f"plots: {len(files)} files in {args.plots}", highlight=False, markup=False, soft_wrap=True)
