"""Finished runs played three ways: drawn from the policy, its most likely action, the critic's best action.

    python experiments/by_critic.py DIRECTORY --out results/raw/NAME.csv

One line per run and way, as collect.py writes them. What is drawn is the run's own final evaluation; the other two play
the same number of episodes with the same seeds. Nothing is trained.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from collect import line, write

from sacbbf.envs.make import make_env
from sacbbf.policy import NetworkPolicy
from sacbbf.report.run_scores import RunScore, read_run
from sacbbf.run.evaluate import ROWS, evaluate, plan_of, summarise
from sacbbf.run.policy_file import load_policy
from sacbbf.run.records import find_runs

WAYS = {"most likely action": False, "the critic's best action": True}
CPU = torch.device("cpu")


def make_parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    return parser


def main() -> None:
    """Play, and write the table."""
    args = make_parser().parse_args()
    torch.set_num_threads(1)
    lines = list(play_all(args.directory))
    write(args.out, lines)
    print(f"{args.out}: {len(lines)} lines")


def play_all(directory: Path) -> Iterator[dict[str, Any]]:
    """Yield three lines for each finished run at or below a directory."""
    for path in find_runs(directory):
        run = read_run(path)
        if not isinstance(run, RunScore) or not run.finished:
            continue
        drawn = line(run, ("steps",))
        yield {**drawn, "agent": f"{drawn['agent']}, drawn"}
        for way, by_critic in WAYS.items():
            yield {**drawn, **play(path, run, by_critic), "agent": f"{drawn['agent']}, {way}"}
        print(drawn["game"], drawn["agent"], f"seed {drawn['seed']}", sep=", ", flush=True)


def play(path: Path, run: RunScore, by_critic: bool) -> dict[str, Any]:
    """Return the part of a run's line that another way to play changes."""
    config = run.config
    policy = NetworkPolicy(load_policy(path / "policy.safetensors", CPU), CPU, ROWS, by_critic=by_critic)
    plan = plan_of(config, len(run.result["returns"]), greedy=True)
    returns = [
        record.score for record in evaluate(policy, lambda: make_env(config.env, settings=config.environment), plan)
    ]
    found = summarise(returns)
    return {
        "score": found.mean,
        "standard_error": round(found.standard_error, 4),
        "command": f"sacbbf evaluate RUN {'--critic' if by_critic else '--greedy'}",
        "returns": json.dumps(returns, separators=(",", ":")),
    }


if __name__ == "__main__":
    main()
