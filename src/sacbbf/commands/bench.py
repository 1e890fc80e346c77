"""`sacbbf bench`: how fast this machine trains, and how much of its arithmetic an update uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import tyro
from rich.console import Console
from rich.table import Table

from sacbbf.agents.presets import SIZES, SizeName
from sacbbf.bench.against import compare, parse_ways
from sacbbf.bench.clock import Spread
from sacbbf.bench.memory_probe import measure_memory
from sacbbf.bench.play import measure_environment, measure_evaluation
from sacbbf.bench.speed import (
    REPLAY_SIZES,
    WARM_UPS,
    WORKLOADS,
    ActingSpeed,
    Rounds,
    make_subjects,
    measure_acting,
    measure_replay,
    measure_updates,
)
from sacbbf.errors import UsageError
from sacbbf.machine.allocator import keep_freed_pages
from sacbbf.machine.denormals import flush_denormals
from sacbbf.run.display import Display
from sacbbf.run.records import write_json
from sacbbf.run.result import machine, versions
from sacbbf.run.settings import check_compiler, resolve_device

ROUNDS: dict[SizeName, int] = {"paper": 7, "laptop": 20, "tiny": 20}
PER_ROUND: dict[SizeName, int] = {"paper": 1, "laptop": 5, "tiny": 40}  # updates
PASSES = 3_200  # forward passes of batch 1, as in the paper's table
BLOCKS = 400  # of passes, the two agents in turn
STEPS = 100_000  # of the run that is projected
WARMUP = 2_000  # of these steps, without updates
PROJECTED = (2, 4, 8)  # replay ratios


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
    keep_freed_pages()
    args = tyro.cli(BenchArgs, args=argv, prog="sacbbf bench")
    if args.repeats < 0:
        raise UsageError(f"repeats = {args.repeats}: must be at least 0")
    device = torch.device(resolve_device(args.device))
    if args.compile:
        check_compiler(str(device))
    if args.against is not None:
        return compare_ways(args, str(device))
    set_threads(args.size, args.threads)
    repeats = args.repeats or ROUNDS[args.size]
    figures = measure(args.size, device, repeats, args.compile)
    console = Console(width=None if Console().is_terminal else 110)
    show(console, args, figures)
    if args.json is not None:
        facts = {"size": args.size, "versions": versions(), "machine": machine(str(device))}
        write_json(args.json, facts | figures_json(figures))
    return 0


def compare_ways(args: BenchArgs, device: str) -> int:
    """Print one update computed in several ways, side by side."""
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


def set_threads(size: SizeName, threads: int | None = None) -> None:
    """Have PyTorch use a number of threads, by default the size's own; 0: as many as it likes."""
    chosen = SIZES[size].threads if threads is None else threads
    if chosen:
        torch.set_num_threads(chosen)


@dataclass(frozen=True)
class Figures:
    """Everything that was measured."""

    rounds: Rounds
    acting: ActingSpeed
    replay: dict[int, tuple[Spread, Spread]]
    env_steps_per_second: float
    evaluation_episodes_per_minute: float
    peak_memory: int  # bytes, of a whole run on the CPU
    kernels: dict[str, list[str]]  # in use, by agent

    def acting_seconds(self, agent: str) -> float:
        """Seconds that an agent takes for PASSES forward passes of batch 1."""
        return {"sac-bbf": self.acting.seconds, "bbf": self.acting.bbf_seconds}[agent].median


def measure(size: SizeName, device: torch.device, repeats: int, compiled: bool = False) -> Figures:
    """Measure everything, with a progress display."""
    load = WORKLOADS[size]
    with Display(Console(stderr=True), None) as display, flush_denormals():
        subjects = make_subjects(size, device, compiled)
        display.begin("updates", repeats + WARM_UPS)
        rounds = measure_updates(subjects, device, repeats, PER_ROUND[size], display.advance)
        display.begin("acting", BLOCKS)
        acting = measure_acting(subjects["sac-bbf"], subjects["bbf"], PASSES, BLOCKS, display.advance)
        display.begin("playing", 2)
        env_steps = measure_environment(load.env)
        display.advance()
        evaluation = measure_evaluation(load.env, subjects["sac-bbf"])
        display.begin("replay", 1)
        replay = measure_replay(load, REPLAY_SIZES, 200)
        display.begin("memory", 1)
        memory = measure_memory(size, STEPS)
    kernels = {name: subject.learner.kernels for name, subject in subjects.items()}
    return Figures(rounds, acting, replay, env_steps, evaluation, memory, kernels)


def projected_seconds(figures: Figures, agent: str, ratio: int) -> float:
    """Return how long a run of STEPS steps at a replay ratio would take: environment, acting and updates."""
    per_step = 1.0 / figures.env_steps_per_second + figures.acting_seconds(agent) / PASSES
    return STEPS * per_step + (STEPS - WARMUP) * ratio * figures.rounds.agents[agent].seconds.median


def show(console: Console, args: BenchArgs, figures: Figures) -> None:
    """Print the figures as tables."""
    speed, rounds = figures.rounds.agents[args.agent], figures.rounds
    load = WORKLOADS[args.size]
    table = Table(title=f"{args.agent} at {args.size} size, {load.name}, batch 32: one update", title_justify="left")
    for heading in ("part", "ms: median (quartiles)", "share"):
        table.add_column(heading, justify="left" if heading == "part" else "right")
    for name, part in speed.parts.items():
        table.add_row(name, part.show(1e3), f"{part.median / speed.seconds.median:.1%}")
    table.add_section()
    table.add_row("whole update", speed.seconds.show(1e3), "100%")
    console.print(table)
    for line in lines(figures, args):
        console.print(line, highlight=False)
    sampler = Table(title="replay: batch of 32", title_justify="left")
    for heading in ("transitions", "sampling, us", "priorities, us"):
        sampler.add_column(heading, justify="right")
    for count, (draw, write) in figures.replay.items():
        sampler.add_row(f"{count:,}", draw.show(1e6, 0), write.show(1e6, 0))
    console.print(sampler)
    console.print(f"{rounds.ratio.count} rounds; quartiles in brackets", highlight=False)


def lines(figures: Figures, args: BenchArgs) -> list[str]:
    """Return the figures that are single numbers, in words."""
    rounds, acting = figures.rounds, figures.acting
    speed = rounds.agents[args.agent]
    low, high = acting.interval
    hours = [f"RR {ratio}: {projected_seconds(figures, args.agent, ratio) / 3600:,.1f} h" for ratio in PROJECTED]
    return [
        f"arithmetic of an update    {speed.flops / 1e9:,.2f} GFLOP",
        f"this machine's peak        {rounds.peak.show(1e-9, 0)} GFLOP/s, {torch.get_num_threads()} threads",
        f"share of the peak          {speed.fraction.show(100, 1)} %, whole update",
        f"kernels in use             {', '.join(figures.kernels[args.agent]) or 'none'}",
        f"SAC-BBF's update over BBF's  {rounds.ratio.show(1, 3)}",
        f"acting, {PASSES:,} passes      {acting.seconds.show(1, 2)} s; BBF {acting.bbf_seconds.show(1, 2)} s",
        f"acting, ratio to BBF       {acting.ratio.median:.3f}, 95% interval {low:.3f} to {high:.3f}",
        f"environment                {figures.env_steps_per_second:,.0f} steps/s ({WORKLOADS[args.size].env})",
        f"evaluation                 {figures.evaluation_episodes_per_minute:,.1f} episodes/minute",
        f"a run of {STEPS:,} steps    {', '.join(hours)}",
        f"peak memory of such a run  {figures.peak_memory / 1e6:,.0f} MB",
    ]


def figures_json(figures: Figures) -> dict[str, Any]:
    """Return the figures as plain JSON values."""
    replay = {str(count): [asdict(part) for part in pair] for count, pair in figures.replay.items()}
    return asdict(figures) | {"replay": replay}
