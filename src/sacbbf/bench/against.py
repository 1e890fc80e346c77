"""One update computed in several ways, side by side: plain PyTorch, with kernels, compiled.

Each way has a process of its own, and only one works at a time, so that a noisy machine slows all of them alike. A
process does as many updates as each line of its standard input says, and prints the seconds:
`python -m sacbbf.bench.against WAY SIZE AGENT DEVICE THREADS`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import IO, Any, cast

import torch

from sacbbf.agents.config import ComputeConfig
from sacbbf.agents.presets import AgentName, SizeName, preset
from sacbbf.bench.clock import Spread, seconds, spread
from sacbbf.bench.speed import WORKLOADS, Subject
from sacbbf.errors import RunFailed, UsageError
from sacbbf.machine.allocator import keep_freed_pages
from sacbbf.machine.denormals import flush_denormals

WAYS: dict[str, dict[str, Any]] = {
    "plain": {"kernels": "off", "compile": False},
    "kernels": {"kernels": "auto", "compile": False},
    "compiled": {"kernels": "off", "compile": True},
}
WARM_UP = 3  # updates that are not counted, after the first


@dataclass(frozen=True)
class WaySpeed:
    """One way's updates."""

    first: float  # seconds of the first update, compilation included
    update: Spread  # seconds
    best: float  # seconds of an update in the best round
    ratio: Spread  # to the first way's update, round by round
    kernels: tuple[str, ...]  # in use


def parse_ways(text: str) -> list[str]:
    """Return the ways named between commas."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in WAYS:
            raise UsageError(f"against = {name!r}: must be among {', '.join(WAYS)}, between commas")
    if not names:
        raise UsageError(f"against = {text!r}: must be names between commas, of {', '.join(WAYS)}")
    return names


def compare(
    ways: Sequence[str],
    size: SizeName,
    agent: AgentName,
    device: str,
    threads: int,
    rounds: int,
    updates: int,
    on_round: Callable[[], object],
) -> dict[str, WaySpeed]:
    """Time `rounds` rounds of `updates` updates of each way in turn."""
    with ExitStack() as stack:
        workers = {way: stack.enter_context(Worker(way, size, agent, device, threads)) for way in ways}
        firsts, kernels = {}, {}
        for way, worker in workers.items():
            firsts[way] = worker.updates(1)
            worker.updates(WARM_UP)
            kernels[way] = worker.kernels
            on_round()
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, worker in workers.items():
                times[way].append(worker.updates(updates) / updates)
            on_round()
    reference = times[ways[0]]
    return {
        way: WaySpeed(
            firsts[way],
            spread(own),
            min(own),
            spread([mine / first for mine, first in zip(own, reference, strict=True)]),
            kernels[way],
        )
        for way, own in times.items()
    }


class Worker:
    """A process that updates in one way, when it is told to."""

    def __init__(self, way: str, size: str, agent: str, device: str, threads: int) -> None:
        self.way = way
        command = [sys.executable, "-P", "-m", "sacbbf.bench.against", way, size, agent, device, str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Worker:
        self.kernels: tuple[str, ...] = tuple(self._answer())
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()

    def updates(self, count: int) -> float:
        """Do `count` updates; returns the seconds they took."""
        print(count, file=cast(IO[str], self.process.stdin), flush=True)
        return float(self._answer())

    def _answer(self) -> Any:
        line = cast(IO[str], self.process.stdout).readline()
        if not line:
            raise RunFailed(f"the process that updates {self.way!r} ended with exit code {self.process.wait()}")
        return json.loads(line)


def work(way: str, size: SizeName, agent: AgentName, device: str, threads: int) -> None:
    """Print the kernels in use, then for each number on standard input the seconds that as many updates take."""
    keep_freed_pages()
    if threads:
        torch.set_num_threads(threads)
    load = WORKLOADS[size]
    config = preset(size, load.kind, 100_000, replay_ratio=1, agent=agent)
    compute: ComputeConfig = replace(config.compute, **WAYS[way])
    with flush_denormals():
        subject = Subject(replace(config, compute=compute), load, torch.device(device))
        print(json.dumps(subject.learner.kernels), flush=True)
        for line in sys.stdin:
            count = int(line)
            print(seconds(lambda: subject.update(count), subject.device), flush=True)  # noqa: B023


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))  # type: ignore[arg-type]
