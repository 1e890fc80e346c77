"""All that `sacbbf bench` measures of this machine, and how it is shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from sacbbf.agents.presets import SIZES, SizeName
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
from sacbbf.machine.denormals import flush_denormals
from sacbbf.run.display import Display

ROUNDS: dict[SizeName, int] = {"paper": 7, "laptop": 20, "tiny": 20, "tiny-paper": 20}
PER_ROUND: dict[SizeName, int] = {"paper": 1, "laptop": 5, "tiny": 40, "tiny-paper": 40}  # updates
PASSES = 3_200  # forward passes of batch 1, as in the paper's table
BLOCKS = 400  # of passes, the two agents in turn
STEPS = 100_000  # of the run that is projected
WARMUP = 2_000  # of these steps, without updates
PROJECTED = (2, 4, 8)  # replay ratios


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


def show(console: Console, size: SizeName, agent: str, figures: Figures) -> None:
    """Print the figures as tables."""
    speed, rounds = figures.rounds.agents[agent], figures.rounds
    load = WORKLOADS[size]
    table = Table(title=f"{agent} at {size} size, {load.name}, batch 32: one update", title_justify="left")
    for heading in ("part", "ms: median (quartiles)", "share"):
        table.add_column(heading, justify="left" if heading == "part" else "right")
    for name, part in speed.parts.items():
        table.add_row(name, part.show(1e3), f"{part.median / speed.seconds.median:.1%}")
    table.add_section()
    table.add_row("whole update", speed.seconds.show(1e3), "100%")
    console.print(table)
    for line in lines(figures, size, agent):
        console.print(line, highlight=False)
    sampler = Table(title="replay: batch of 32", title_justify="left")
    for heading in ("transitions", "sampling, us", "priorities, us"):
        sampler.add_column(heading, justify="right")
    for count, (draw, write) in figures.replay.items():
        sampler.add_row(f"{count:,}", draw.show(1e6, 0), write.show(1e6, 0))
    console.print(sampler)
    console.print(f"{rounds.ratio.count} rounds; quartiles in brackets", highlight=False)


def lines(figures: Figures, size: SizeName, agent: str) -> list[str]:
    """Return the figures that are single numbers, in words."""
    rounds, acting = figures.rounds, figures.acting
    speed = rounds.agents[agent]
    low, high = acting.interval
    hours = [f"RR {ratio}: {projected_seconds(figures, agent, ratio) / 3600:,.1f} h" for ratio in PROJECTED]
    return [
        f"arithmetic of an update    {speed.flops / 1e9:,.2f} GFLOP",
        f"this machine's peak        {rounds.peak.show(1e-9, 0)} GFLOP/s, {torch.get_num_threads()} threads",
        f"share of the peak          {speed.fraction.show(100, 1)} %, whole update",
        f"kernels in use             {', '.join(figures.kernels[agent]) or 'none'}",
        f"SAC-BBF's update over BBF's  {rounds.ratio.show(1, 3)}",
        f"acting, {PASSES:,} passes      {acting.seconds.show(1, 2)} s; BBF {acting.bbf_seconds.show(1, 2)} s",
        f"acting, ratio to BBF       {acting.ratio.median:.3f}, 95% interval {low:.3f} to {high:.3f}",
        f"environment                {figures.env_steps_per_second:,.0f} steps/s ({WORKLOADS[size].env})",
        f"evaluation                 {figures.evaluation_episodes_per_minute:,.1f} episodes/minute",
        f"a run of {STEPS:,} steps    {', '.join(hours)}",
        f"peak memory of such a run  {figures.peak_memory / 1e6:,.0f} MB",
    ]


def figures_json(figures: Figures) -> dict[str, Any]:
    """Return the figures as plain JSON values."""
    replay = {str(count): [asdict(part) for part in pair] for count, pair in figures.replay.items()}
    return asdict(figures) | {"replay": replay}
