"""What torch.compile takes off an update on this machine: two learners of one process, compiled and not, in turn.

    python experiments/compile_speed.py --size tiny --threads 1 --agents sac-bbf,bbf,sac-discrete,der

Prints, as a Markdown table, ms for an update: the best round and, in brackets, the median; and how long the first
compiled update took. Set TORCHINDUCTOR_CACHE_DIR to an empty folder to see it without PyTorch's cache.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace

import torch

from sacbbf.agents.presets import AGENTS, BASELINES, SIZES, AgentName, SizeName, preset
from sacbbf.bench.speed import WORKLOADS, Subject
from sacbbf.machine.allocator import keep_freed_pages, prefer_huge_pages


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--agents", default="sac-bbf")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--updates", type=int, default=10, help="updates of a round")
    args = parser.parse_args()
    agents = args.agents.split(",")
    for unknown in set(agents) - (AGENTS.keys() - BASELINES.keys()):
        parser.error(f"agents = {unknown!r}: must be among {', '.join(AGENTS.keys() - BASELINES.keys())}")
    keep_freed_pages()
    torch.set_num_threads(args.threads)
    print("| size | agent | compiled | not compiled | first update |\n|---|---|---|---|---|")
    for agent in agents:
        first, compiled, plain = measure(args.size, agent, args.rounds, args.updates)
        print(f"| {args.size} | {agent} | {cell(compiled)} | {cell(plain)} | {first:.0f} s |", flush=True)


def measure(size: SizeName, agent: AgentName, rounds: int, updates: int) -> tuple[float, list[float], list[float]]:
    """Return the seconds of the first compiled update, and each round's ms for an update, compiled and not."""
    compiled, plain = (make_subject(size, agent, compiled) for compiled in (True, False))
    first = seconds(compiled, 1)
    seconds(compiled, 3), seconds(plain, 3)
    rows = [(seconds(compiled, updates), seconds(plain, updates)) for _ in range(rounds)]
    return first, *([1e3 * found / updates for found in column] for column in zip(*rows, strict=True))


def make_subject(size: SizeName, agent: AgentName, compiled: bool) -> Subject:
    """Return a learner of this agent with a filled replay."""
    load = WORKLOADS[size]
    config = preset(size, load.kind, SIZES[size].steps, replay_ratio=1, agent=agent)
    return Subject(replace(config, compute=replace(config.compute, compile=compiled)), load, torch.device("cpu"))


def seconds(subject: Subject, updates: int) -> float:
    """Return how long some updates take."""
    began = time.perf_counter()
    subject.update(updates)
    return time.perf_counter() - began


def cell(values: list[float]) -> str:
    """Return the best and the median."""
    return f"{min(values):.1f} ({statistics.median(values):.1f})"


if __name__ == "__main__":
    prefer_huge_pages()
    main()
