"""`sacbbf bench`: how fast this machine trains, and how much of its arithmetic an update uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

from sacbbf.agents.presets import SIZES, SizeName
from sacbbf.commands.parsing import check_file, parse
from sacbbf.errors import UsageError
from sacbbf.machine.allocator import keep_freed_pages
from sacbbf.run.devices import check_compiler, resolve_device
from sacbbf.run.display import Display
from sacbbf.run.records import write_json

EXAMPLES = """\
  sacbbf bench --size tiny
  sacbbf bench --against plain,kernels,compiled --json speed.json
"""


@dataclass(frozen=True)
class BenchArgs:
    """Measure this machine: seconds per update by part, share of its own peak, acting, replay, memory.

    SAC-BBF, BBF and the machine's peak are measured in turn; medians stand with their quartiles.
    """

    size: SizeName = "laptop"
    """Size of the networks."""
    agent: Literal["sac-bbf", "bbf"] = "sac-bbf"
    """The agent whose update is shown by its parts."""
    repeats: int = 0
    """Rounds to measure; 0: as many as the size needs."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps."""
    threads: int | None = None
    """CPU threads for PyTorch; by default the size's own, 0: as many as PyTorch likes."""
    compile: bool = False
    """Compile an update's passes and losses, as --compute.compile does in training."""
    against: str | None = None
    """Instead of all that, compare ways to compute an update, each in a process of its own, in turn: any of plain,
    kernels and compiled, between commas; ratios are to the first."""
    json: Path | None = None
    """Write all figures to this file too."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    args = parse(BenchArgs, argv, "bench", EXAMPLES)
    if args.repeats < 0:
        raise UsageError(f"repeats = {args.repeats}: must be at least 0")
    check_file("json", args.json)
    device = resolve_device(args.device)
    if args.compile:
        check_compiler(device)
    keep_freed_pages()
    return compare_ways(args, device) if args.against is not None else measure_all(args, device)


def measure_all(args: BenchArgs, device: str) -> int:
    """Print every figure of this machine."""
    import torch

    from sacbbf.bench import figures
    from sacbbf.run.result import machine, versions

    figures.set_threads(args.size, args.threads)
    found = figures.measure(args.size, torch.device(device), args.repeats or figures.ROUNDS[args.size], args.compile)
    figures.show(Console(width=None if Console().is_terminal else 110), args.size, args.agent, found)
    if args.json is not None:
        facts = {"size": args.size, "versions": versions(), "machine": machine(device)}
        write_json(args.json, facts | figures.figures_json(found))
    return 0


def compare_ways(args: BenchArgs, device: str) -> int:
    """Print one update computed in several ways, side by side."""
    from sacbbf.bench.against import compare, parse_ways
    from sacbbf.bench.figures import PER_ROUND, ROUNDS
    from sacbbf.run.result import machine, versions

    ways = parse_ways(args.against or "")
    if args.compile:
        raise UsageError("compile = True: with --against, compiled is one of the ways; must be left out")
    if "compiled" in ways:
        check_compiler(device)
    threads = SIZES[args.size].threads if args.threads is None else args.threads
    rounds, updates = args.repeats or ROUNDS[args.size], PER_ROUND[args.size]
    with Display(Console(stderr=True), None) as display:
        display.begin("updates", rounds + len(ways))
        found = compare(ways, args.size, args.agent, device, threads, rounds, updates, display.advance)
    table = Table(title=f"{args.agent} at {args.size} size: one update, {rounds} rounds in turn", title_justify="left")
    for heading in ("way", "ms: median (quartiles)", "best", f"of {ways[0]}: median (quartiles)", "first update, s"):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for way, speed in found.items():
        best, first = f"{1e3 * speed.best:,.2f}", f"{speed.first:,.1f}"
        table.add_row(way, speed.update.show(1e3), best, speed.ratio.show(1, 3), first)
    console = Console(width=None if Console().is_terminal else 110)
    console.print(table)
    for way, speed in found.items():
        if speed.kernels:
            console.print(f"kernels in use by {way!r}: {', '.join(speed.kernels)}", highlight=False)
    if args.json is not None:
        facts = {"size": args.size, "versions": versions(), "machine": machine(device)}
        write_json(args.json, facts | {"against": {way: asdict(speed) for way, speed in found.items()}})
    return 0
