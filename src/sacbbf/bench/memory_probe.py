"""Peak memory of a run, measured in a process of its own: `python -m sacbbf.bench.memory_probe SIZE STEPS`.

The process holds what a run holds at its end: learner, replay filled with every step, environments of an
evaluation. It prints its peak in bytes.
"""

from __future__ import annotations

import subprocess
import sys

import torch

from sacbbf.agents.presets import SizeName, preset
from sacbbf.bench.clock import peak_memory_bytes
from sacbbf.bench.play import measure_evaluation
from sacbbf.bench.speed import WORKLOADS, Subject
from sacbbf.machine.allocator import keep_freed_pages

UPDATES = 5


def measure_memory(size: SizeName, steps: int) -> int:
    """Return the peak memory in bytes of a run of `steps` steps on the CPU, from a fresh process."""
    command = [sys.executable, "-P", "-m", __spec__.name if __spec__ else __name__, size, str(steps)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1])


def probe(size: SizeName, steps: int) -> int:
    """Hold what a run holds, do what it does, and return this process's peak in bytes."""
    keep_freed_pages()
    load = WORKLOADS[size]
    subject = Subject(preset(size, load.kind, steps), load, torch.device("cpu"), steps)
    subject.update(UPDATES)
    measure_evaluation(load.env, subject)
    return peak_memory_bytes()


if __name__ == "__main__":
    print(probe(sys.argv[1], int(sys.argv[2])))  # type: ignore[arg-type]
