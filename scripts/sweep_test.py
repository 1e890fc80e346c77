"""Kill a sweep half way, start it again, and compare every cell with those of a sweep that was never disturbed.

    python scripts/sweep_test.py [--ray] [--steps 2000] [--keep DIR]

MinAtar's five games x two agents x two seeds on two workers. The sweep and its workers are killed with SIGKILL when
half of the cells are finished. With --ray the second sweep runs on a local Ray cluster of three nodes instead, one of
which is killed then. Configuration, policy, records and scores of all cells must be the same, byte for byte.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.status import saved_step, sweep_states

COMPARED = ("config.toml", "policy.safetensors", "episodes.jsonl", "metrics.jsonl", "evaluations.jsonl")
COMMAND = [sys.executable, "-c", "from sacbbf.cli import main; main()", "sweep"]


def main() -> int:
    """Run both sweeps and compare; returns 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ray", action="store_true", help="disturb a sweep on Ray, by the loss of a node")
    parser.add_argument("--steps", type=int, default=2_000, help="of each cell")
    parser.add_argument("--keep", type=Path, help="directory for the sweeps; an undisturbed one in it is used again")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        top = args.keep or Path(work)
        calm, disturbed = top / "undisturbed", top / ("ray" if args.ray else "killed")
        words = [
            *("--games", "minatar", "--agents", "sac-bbf,bbf", "--seeds", "2", "--steps", str(args.steps)),
            *("--set", "eval.episodes=5", "--set", "eval.baselines=false", "--set", "checkpoint.every=500"),
        ]
        subprocess.run([*COMMAND, str(calm), *words, "--workers", "2"], check=True)
        (disturb_ray if args.ray else disturb_local)(disturbed, words)
        return compare(calm, disturbed)


def disturb_local(path: Path, words: list[str]) -> None:
    """Kill a sweep and all of its workers half way, then start it again."""
    sweep = subprocess.Popen([*COMMAND, str(path), *words, "--workers", "2"])
    wait_for_half(path, lambda: sweep.poll() is None)
    workers = children(sweep.pid)
    for process in (sweep.pid, *workers):
        os.kill(process, signal.SIGKILL)
    sweep.wait()
    print(f"killed the sweep and {len(workers)} workers", flush=True)
    subprocess.run([*COMMAND, str(path)], check=True)


def disturb_ray(path: Path, words: list[str]) -> None:
    """Run a sweep on a cluster of three nodes and kill one of them half way."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(3)]
        flags = ["--executor", "ray", "--address", cluster.address, "--threads", "1"]
        sweep = subprocess.Popen([*COMMAND, str(path), *words, *flags])
        wait_for_half(path, lambda: sweep.poll() is None)
        cluster.remove_node(nodes[1], allow_graceful=False)
        print("killed a node", flush=True)
        if sweep.wait():
            raise SystemExit(f"the sweep ended with exit code {sweep.returncode}")
    finally:
        cluster.shutdown()


def wait_for_half(path: Path, alive: Callable[[], bool]) -> None:
    """Wait until half of the cells are finished and another has saved a checkpoint, from which it can go on."""
    directory = SweepDirectory(path)
    while alive():
        if directory.manifest.exists():
            states = sweep_states(directory, directory.read().cells())
            others = [state.cell for state in states if state.state != "finished"]
            begun = any(saved_step(directory.run(cell)) for cell in others)
            if begun and 2 * len(others) <= len(states):
                return
        time.sleep(0.2)
    raise SystemExit("the sweep ended before it was disturbed")


def children(parent: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(status.parent.name))
    return found


def compare(calm: Path, disturbed: Path) -> int:
    """Print in what the cells of two sweeps differ; returns 1 if they do."""
    first, second = SweepDirectory(calm), SweepDirectory(disturbed)
    cells = first.read().cells()
    differences, resumed = [], 0
    for cell in cells:
        one, two = first.run(cell), second.run(cell)
        before, after = one.read_result() or {}, two.read_result() or {}
        resumed += after.get("resumes", 0) > 0
        differences += [
            f"{cell.name}: {name}"
            for name in COMPARED
            if (one.path / name).read_bytes() != (two.path / name).read_bytes()
        ]
        if before.get("returns") != after.get("returns") or not after.get("finished"):
            differences.append(f"{cell.name}: scores")
    for line in differences:
        print(line)
    print(f"{len(cells)} cells compared, {resumed} of them resumed, {len(differences)} differences found")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
