"""Kill a training run at every crash point and at random moments, take it up again, and compare with one never stopped.

    python scripts/crash_test.py [--case minatar] [--case atari] [--random 20] [--jobs 2]

Each case trains once without a stop, which lists the crash points: before, inside and after every write, fsync and
rename, in the warm-up, in mid-episode, after a reset, in evaluations. For each point a fresh run is killed there
(SIGKILL) on its middle visit, taken up, killed there again on the first visit, and taken up to its end. Weights,
optimiser, generators, sum tree, replay, records and evaluation must be bit for bit those of the run without a stop.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sacbbf.disk import faults
from sacbbf.disk.arrays import unpack
from sacbbf.disk.lease import state_folder
from sacbbf.run.checkpoint import read_manifests

CASES = {
    "minatar": "MinAtar/SpaceInvaders-v1 --size tiny --steps 240 --schedule.warmup 64 --schedule.reset-every 50 "
    "--log-every 20 --eval.every 90 --eval.every-episodes 2 --eval.episodes 3 --eval.no-baselines "
    "--checkpoint.every 60",
    "atari": "Breakout --size laptop --steps 120 --threads 1 --schedule.warmup 100 --schedule.reset-every 17 "
    "--log-every 20 --eval.every 112 --eval.every-episodes 1 --eval.episodes 1 --checkpoint.every 55 "
    "--environment.max-steps 50",
}
COMPARED = ("config.toml", "episodes.jsonl", "metrics.jsonl", "evaluations.jsonl", "policy.safetensors")
LONGEST = 600.0  # seconds that a process may take


@dataclass
class Tally:
    """What became of a case."""

    hits: Counter[str] = field(default_factory=Counter)  # of each crash point in a run without a stop
    kills: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)


def main() -> int:
    """Run the cases; returns 1 if anything differed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=list(CASES), help="default: all of them")
    parser.add_argument("--random", type=int, default=20, help="kills at random moments, per case")
    parser.add_argument("--points", type=int, help="only so many crash points, evenly spread; default: all")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs side by side")
    args = parser.parse_args()
    import sacbbf.commands.resume
    import sacbbf.commands.train  # noqa: F401 - once, here: every child is forked with it

    kills = differences = 0
    for name in args.case or list(CASES):
        with tempfile.TemporaryDirectory(prefix="crash-") as work:
            tally = test_case(name, Path(work), args)
        show(name, tally)
        kills += tally.kills.total()
        differences += len(tally.differences)
    print(f"{kills} kills survived, {differences} differences found")
    return 1 if differences else 0


def test_case(name: str, work: Path, args: argparse.Namespace) -> Tally:
    """Kill, take up and compare."""
    tally = Tally()
    command = [*CASES[name].split(), "--checkpoint.keep", "--quiet"]
    whole = work / "whole"
    began = time.monotonic()
    code = launch(["train", *command, "--out", str(whole)], log=work / "points")
    duration = time.monotonic() - began
    if code != 0:
        raise SystemExit(f"the run without a stop ended with {code}")
    tally.hits.update((work / "points").read_text().splitlines())
    expected = contents(whole)
    points = list(tally.hits)
    if args.points is not None:
        points = [points[index] for index in np.linspace(0, len(points) - 1, args.points).astype(int)]
    tasks: list[Callable[[], None]] = [
        lambda number=number, point=point: at_point(point, work / f"p{number}", command, expected, tally)  # type: ignore[misc]
        for number, point in enumerate(points)
    ]
    moments = random.Random(args.seed)
    runs = max(1, args.random // 5)
    for number in range(runs):
        share = args.random // runs + (number < args.random % runs)
        delays = [moments.uniform(0.0, duration) for _ in range(10 * share)]
        tasks.append(
            lambda number=number, delays=delays, share=share: at_random(  # type: ignore[misc]
                delays, share, work / f"r{number}", command, expected, tally
            )
        )
    with ThreadPoolExecutor(args.jobs) as pool:
        for number, _ in enumerate(pool.map(lambda task: task(), tasks), 1):
            print(f"\r{name}: {number}/{len(tasks)} runs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return tally


def at_point(point: str, out: Path, command: list[str], expected: dict[str, object], tally: Tally) -> None:
    """Kill at a crash point in the middle of a run, then at its first visit after that, then let it finish."""
    middle = (tally.hits[point] + 1) // 2
    codes = [launch(["train", *command, "--out", str(out)], at=f"{point}#{middle}")]
    if codes[0] != -signal.SIGKILL:
        tally.differences.append(f"{point}: not reached, exit {codes[0]}")
    tally.kills[point] += 1
    codes.append(go_on(out, command, at=f"{point}#1"))
    if codes[-1] == -signal.SIGKILL:
        tally.kills[point] += 1
        codes.append(go_on(out, command))
    compare(point, codes[-1], out, expected, tally)


def at_random(
    delays: list[float], kills: int, out: Path, command: list[str], expected: dict[str, object], tally: Tally
) -> None:
    """Kill `kills` times after some seconds, starting over where a run comes to its end before that."""
    done = 0
    for delay in delays:
        if done == kills:
            break
        code = go_on(out, command, after=delay)
        if code == -signal.SIGKILL:
            done += 1
            tally.kills["at a random moment"] += 1
        else:
            compare("at a random moment", code, out, expected, tally)
    if done < kills:
        tally.differences.append(f"only {done} of {kills} kills at random moments")
    compare("at a random moment", go_on(out, command), out, expected, tally)


def go_on(out: Path, command: list[str], at: str | None = None, after: float | None = None) -> int:
    """Take a run up, or begin it if it was killed before it had a configuration."""
    if (out / "config.toml").exists():
        return launch(["resume", str(out), "--quiet"], at=at, after=after)
    return launch(["train", *command, "--out", str(out)], at=at, after=after)


def launch(argv: list[str], *, at: str | None = None, log: Path | None = None, after: float | None = None) -> int:
    """Run a command of sacbbf in a process of its own; returns its exit code, -9 if it was killed."""
    process = multiprocessing.get_context("fork").Process(target=_child, args=(argv, at, log))
    process.start()
    process.join(LONGEST if after is None else after)
    if process.is_alive():
        process.kill()
        process.join()
        return -signal.SIGKILL if after is not None else 1
    return int(process.exitcode or 0)


def _child(argv: list[str], at: str | None, log: Path | None) -> None:
    from sacbbf.cli import run

    wanted = {faults.CRASH_AT: at, faults.CRASH_LOG: None if log is None else str(log)}
    faults._plan = faults.plan_from({name: value for name, value in wanted.items() if value is not None})
    with open(os.devnull, "w") as sink:  # noqa: PTH123
        os.dup2(sink.fileno(), 1)
        if argv[0] == "resume":
            os.dup2(sink.fileno(), 2)
        os._exit(run(argv))  # at once: threads of the parent, which are not here, would be waited for


def compare(point: str, code: int, out: Path, expected: dict[str, object], tally: Tally) -> None:
    """Note in what a finished run differs from the one without a stop, and remove it."""
    if code != 0:
        tally.differences.append(f"{point}: ended with exit code {code}")
        return
    found = contents(out)
    for name in sorted(expected.keys() | found.keys()):
        if not _equal(expected.get(name), found.get(name)):
            tally.differences.append(f"{point}: {name} differs")
    shutil.rmtree(out)


def contents(run: Path) -> dict[str, object]:
    """Everything of a finished run that must not depend on its stops."""
    found: dict[str, object] = {name: (run / name).read_bytes() for name in COMPARED}
    result = json.loads((run / "result.json").read_text())
    found["evaluation"] = [
        result[name] for name in ("score", "returns", "lengths", "steps", "updates", "train_episodes")
    ]
    folder = state_folder(run)
    if folder is None:
        return found
    manifest = list(read_manifests(folder))[-1]
    found["numbers"] = json.dumps(manifest.numbers, sort_keys=True)
    for part, mark in manifest.parts.items():
        arrays, _ = unpack((folder / mark.name).read_bytes())
        found |= {f"{part} {name}": array for name, array in arrays.items()}
    rows = {}
    for segment in manifest.segments:
        arrays, _ = unpack((folder / segment.file.name).read_bytes(), compressed=True)
        for name, array in arrays.items():
            rows |= {(name, segment.first + index): row for index, row in enumerate(array)}
    found |= {f"replay {name} {step}": row for (name, step), row in rows.items()}
    return found


def _equal(first: object, second: object) -> bool:
    if isinstance(first, np.ndarray | np.generic) and isinstance(second, np.ndarray | np.generic):
        same_kind = first.dtype == second.dtype and first.shape == second.shape
        return same_kind and first.tobytes() == second.tobytes()
    return type(first) is type(second) and first == second


def show(name: str, tally: Tally) -> None:
    """Print every crash point with its visits and kills."""
    for line in table(name, tally):
        print(line)


def table(name: str, tally: Tally) -> Iterator[str]:
    """Lines of the report on a case."""
    width = max(map(len, [*tally.hits, "at a random moment"]))
    yield f"{name}: {CASES[name]}"
    yield f"  {'crash point':<{width}}  visits  kills"
    for point, hits in tally.hits.items():
        yield f"  {point:<{width}}  {hits:6}  {tally.kills[point]:5}"
    yield f"  {'at a random moment':<{width}}          {tally.kills['at a random moment']:5}"
    yield from (f"  DIFFERENCE {difference}" for difference in tally.differences[:50])


if __name__ == "__main__":
    sys.exit(main())
