"""Stable-Baselines3's DQN on the same environments, steps, seeds and evaluation episodes as this package's agents.

    python experiments/sb3_dqn.py --out results/raw/sb3-dqn.csv --games MinAtar/Breakout-v1 --seeds 0-4 --steps 30000

One line per run is appended to the CSV file, `agent,game,seed,score` and more, which `sacbbf report` takes. Runs that
are there already are left out, so the command may be stopped and started again. Needs stable-baselines3.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from sacbbf.envs.make import make_env
from sacbbf.envs.states import StateEnv
from sacbbf.run.evaluate import Plan, evaluate
from sacbbf.sweep.spec import parse_games, parse_seeds

CHOSEN = ("agent", "game", "seed", "steps", "learning_rate", "exploration", "hidden")
COLUMNS = (*CHOSEN, "score", "wall_seconds")


@dataclass(frozen=True)
class Job:
    """One run."""

    agent: str
    game: str
    seed: int
    steps: int
    learning_rate: float
    exploration: float  # share of the steps over which epsilon falls from 1 to 0.05
    hidden: int  # units of each of two layers
    episodes: int


class Greedy:
    """A DQN's best action with all the probability, as this package's evaluation wants a policy."""

    def __init__(self, network: torch.nn.Module) -> None:
        self.network = network

    @torch.inference_mode()
    def logits(self, states: np.ndarray, masks: None = None) -> np.ndarray:
        """Logits (N, A): 0 for the best action, else minus infinity. DQN knows no masks."""
        values = self.network(torch.from_numpy(states.astype(np.float32))).numpy()
        return np.where(values == values.max(1, keepdims=True), 0.0, -np.inf).astype(np.float32)


def run(job: Job) -> dict[str, object]:
    """Train and evaluate; returns a line of the table."""
    from stable_baselines3 import DQN

    torch.set_num_threads(1)
    began = time.monotonic()
    env = StateEnv(job.game)
    model = DQN(
        "MlpPolicy",
        env,
        learning_rate=job.learning_rate,
        buffer_size=100_000,
        learning_starts=1_000,
        train_freq=1,
        target_update_interval=1_000,
        exploration_fraction=job.exploration,
        policy_kwargs={"net_arch": [job.hidden, job.hidden]},
        seed=job.seed,
        device="cpu",
    )
    model.learn(job.steps)
    plan = Plan(episodes=job.episodes, seed=job.seed, stack=env.env.spec.stack, epsilon=0.01)
    records = evaluate(Greedy(model.q_net), lambda: make_env(job.game), plan)
    score = float(np.mean([record.score for record in records]))
    return {
        **{name: getattr(job, name) for name in CHOSEN},
        "score": score,
        "wall_seconds": round(time.monotonic() - began, 1),
    }


def make_parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--games", default="minatar")
    parser.add_argument("--seeds", default="5")
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--learning-rate", type=float, nargs="+", default=[2.5e-4])
    parser.add_argument("--exploration", type=float, nargs="+", default=[0.1])
    parser.add_argument("--hidden", type=int, nargs="+", default=[64])
    parser.add_argument("--workers", type=int, default=2)
    return parser


def main() -> None:
    """Run what is not in the table yet, two at a time."""
    args = make_parser().parse_args()
    done = read(args.out)
    several = max(map(len, (args.learning_rate, args.exploration, args.hidden))) > 1
    jobs = [
        Job(
            f"SB3 DQN (lr={rate:g}, exploration={share:g}, hidden={hidden})" if several else "SB3 DQN",
            game, seed, args.steps, rate, share, hidden, args.episodes,
        )
        for seed in parse_seeds(args.seeds)
        for game in parse_games(args.games)
        for rate in args.learning_rate
        for share in args.exploration
        for hidden in args.hidden
    ]  # fmt: skip
    waiting = [job for job in jobs if key(vars(job)) not in done]
    print(f"{len(jobs)} runs, {len(jobs) - len(waiting)} there already", flush=True)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(args.workers) as pool:
        for line in pool.map(run, waiting):
            append(args.out, line)
            print(f"{line['agent']}, {line['game']}, seed {line['seed']}: {line['score']:.2f}", flush=True)


def key(row: Mapping[str, object]) -> tuple[str, ...]:
    """Return what tells runs apart: all that was chosen for them."""
    return tuple(str(row[name]) for name in CHOSEN)


def read(path: Path) -> set[tuple[str, ...]]:
    """Return the keys of the runs that a table holds."""
    if not path.exists():
        return set()
    with path.open(newline="") as file:
        return {key(row) for row in csv.DictReader(file)}


def append(path: Path, line: dict[str, object]) -> None:
    """Append a line to the table, with a heading if it is the first."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(line)


if __name__ == "__main__":
    main()
