"""Time and bytes of a checkpoint after 1,000, 10,000 and 50,000 steps, each 1,000 steps after the one before.

    python scripts/checkpoint_cost.py [ENV] [--size laptop]

Steps are played at random, with one update before each checkpoint so that the optimiser has its state: what is written
does not depend on what was learned.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from sacbbf.agents.presets import change
from sacbbf.disk.lease import Lease
from sacbbf.run.checkpoint import Checkpoints
from sacbbf.run.loop import Training
from sacbbf.run.settings import resolve
from sacbbf.run.take_up import identity

STEPS = (1_000, 10_000, 50_000)
EVERY = 1_000  # steps between checkpoints


def main() -> None:
    """Play, save, and print a line for each number of steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", nargs="?", default="Breakout")
    parser.add_argument("--size", default="laptop")
    args = parser.parse_args()
    config, _ = resolve(args.env, size=args.size, steps=100_000)
    config = replace(config, settings=change(config.settings, {"schedule": {"warmup": 100_000}}))
    training = Training(config)
    print(f"{args.env}, {args.size} size: a checkpoint every {EVERY:,} steps")
    print("  steps  seconds  megabytes  folder, megabytes")
    with tempfile.TemporaryDirectory() as work, Lease.acquire(Path(work)) as lease:
        checkpoints = Checkpoints(lease, identity(config))
        for step in range(EVERY, STEPS[-1] + 1, EVERY):
            while training.step < step:
                training.advance(measure=False)
            training.learner.learn(training.replay, 0, training.replay_generator)
            began = time.perf_counter()
            written = checkpoints.save(training, {}, 0.0)
            seconds = time.perf_counter() - began
            if step in STEPS:
                held = sum(path.stat().st_size for path in lease.folder.iterdir())
                print(f"  {step:6,}  {seconds:7.2f}  {written / 1e6:9.2f}  {held / 1e6:9.1f}", flush=True)
    training.close()


if __name__ == "__main__":
    main()
