"""Raw scores of runs as one CSV file: a line per run, small enough to commit, which `sacbbf report` takes.

    python experiments/collect.py DIRECTORY --out results/raw/NAME.csv [--add]

DIRECTORY is a sweep or holds runs at any depth. Lines are sorted, so the same runs give the same file.
Steps are in the names of agents only where they differ; the commit is that of the checkout that the run was made with.
With --add, runs that the file has and the directory has not stay in it, so that runs of several machines or days come
together.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from sacbbf.disk.files import write_atomically
from sacbbf.report.grouping import command, full_name
from sacbbf.report.run_scores import RunScore, read_run
from sacbbf.run.records import find_runs

COLUMNS = (
    "agent", "game", "seed", "score", "standard_error", "steps", "updates", "wall_seconds", "threads", "cpu",
    "random", "random_error", "blind", "blind_error", "commit", "command", "returns",
)  # fmt: skip


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--add", action="store_true", help="keep the other runs that the file has")
    args = parser.parse_args()
    print(f"{args.out}: {collect(args.directory, args.out, args.add)} runs")


def collect(directory: Path, out: Path, add: bool = False) -> int:
    """Write the scores of all finished runs below a directory; returns how many there are in the file.

    With `add`, lines of the file stay whose agent, game and seed no run below the directory has.
    """
    found = [read_run(path) for path in find_runs(directory)]
    runs = [run for run in found if isinstance(run, RunScore) and run.finished]
    silent = ("steps",) if len({run.config.steps for run in runs}) == 1 else ()
    lines = [line(run, silent) for run in runs]
    if add and out.exists():
        with out.open(newline="") as file:
            lines += only_there(list(csv.DictReader(file)), lines)
    write(out, lines)
    return len(lines)


def write(out: Path, lines: list[dict[str, Any]]) -> None:
    """Write lines as a table, sorted."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(sorted(lines, key=identity))
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, text.getvalue().encode())


def identity(entry: dict[str, Any]) -> tuple[str, str, int]:
    """Return what tells a line from the others."""
    return entry["game"], entry["agent"], int(entry["seed"])


def only_there(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the old lines that no new one replaces."""
    known = set(map(identity, new))
    return [entry for entry in old if identity(entry) not in known]


def line(run: RunScore, silent: Collection[str]) -> dict[str, Any]:
    """Return a run's line; its agent's name has every setting that differs from the preset but the silent ones."""
    result = run.result
    played = {name: round(score, 4) for name, (score, _) in run.baselines.items()}
    played |= {f"{name}_error": round(error, 4) for name, (_, error) in run.baselines.items()}
    return {
        "agent": full_name(run.config, silent),
        "game": run.config.env,
        "seed": run.config.seed,
        "score": result["score"],
        "standard_error": round(result["standard_error"], 4),
        "steps": result["steps"],
        "updates": result["updates"],
        "wall_seconds": result["wall_seconds"],
        "threads": result["machine"]["threads"],
        "cpu": result["machine"]["cpu"],
        **played,
        "commit": result.get("versions", {}).get("commit", ""),
        "command": command(run.config),
        "returns": json.dumps(result["returns"], separators=(",", ":")),
    }


if __name__ == "__main__":
    main()
