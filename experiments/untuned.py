"""Six environments that no setting was chosen on: the tiny size's defaults beside Stable-Baselines3's DQN.

    python experiments/untuned.py [--seeds 0-2] [--steps 20000] [--workers 2]

CartPole, Acrobot, LunarLander, the corridor of examples/custom_environment.py, FrozenLake and MinAtar's Asterix. DQN
has the settings of rl-baselines3-zoo where it has some, else its own defaults. Runs go to results/runs/untuned, scores
to results/raw/untuned.csv and results/raw/untuned+dqn.csv; what is there already is left out. Needs stable-baselines3
and, for LunarLander, box2d.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from collect import collect
from gymnasium.wrappers import TimeLimit
from sb3_dqn import CHOSEN, Greedy, Job, append, key, read

import sacbbf
from sacbbf.envs.make import make_env
from sacbbf.envs.states import StateEnv
from sacbbf.run.evaluate import Plan, evaluate
from sacbbf.sweep.spec import parse_seeds

TOP = Path(__file__).resolve().parents[1]
RUNS, RAW = TOP / "results/runs/untuned", TOP / "results/raw"
sys.path.insert(0, str(TOP / "examples"))
from custom_environment import Corridor  # noqa: E402

CORRIDOR = "custom:corridor"  # as this package calls an environment that a function makes
GAMES = ("CartPole-v1", "Acrobot-v1", "LunarLander-v3", CORRIDOR, "FrozenLake-v1", "MinAtar/Asterix-v1")
WIDE = {"policy_kwargs": {"net_arch": [256, 256]}}
EVERY_FOURTH = {
    "learning_rate": 6.3e-4,
    "batch_size": 128,
    "buffer_size": 50_000,
    "learning_starts": 0,
    "target_update_interval": 250,
    "train_freq": 4,
    "gradient_steps": -1,
    "exploration_fraction": 0.12,
    "exploration_final_eps": 0.1,
    **WIDE,
}
ZOO: dict[str, dict[str, Any]] = {  # rl-baselines3-zoo, hyperparams/dqn.yml
    "CartPole-v1": {
        "learning_rate": 2.3e-3,
        "batch_size": 64,
        "buffer_size": 100_000,
        "learning_starts": 1_000,
        "target_update_interval": 10,
        "train_freq": 256,
        "gradient_steps": 128,
        "exploration_fraction": 0.16,
        "exploration_final_eps": 0.04,
        **WIDE,
    },
    "Acrobot-v1": EVERY_FOURTH,
    "LunarLander-v3": EVERY_FOURTH,
}


def corridor() -> gymnasium.Env[Any, Any]:
    """Return the example's corridor, cut off after 100 steps."""
    return TimeLimit(Corridor(), 100)


def environment(game: str) -> str | Callable[[], gymnasium.Env[Any, Any]]:
    """Return what `sacbbf.train` takes for a game."""
    return corridor if game == CORRIDOR else game


def train(game: str, seed: int, steps: int) -> None:
    """Train and evaluate SAC-BBF by its defaults, compiled, with random and blind play beside it."""
    out, quick = RUNS / f"{game.replace('/', '-').replace(':', '-')}-seed{seed}", {"compute.compile": True}
    sacbbf.train(environment(game), seed=seed, size="tiny", steps=steps, out=out, settings=quick, verbose=0)


def dqn_job(game: str, seed: int, steps: int) -> Job:
    """Return a run of DQN with the settings that there are for a game."""
    settings = {"learning_rate": 1e-4, "exploration_fraction": 0.1, **ZOO.get(game, {})}
    hidden = 256 if game in ZOO else 64
    return Job(
        "SB3 DQN", game, seed, steps, settings["learning_rate"], settings["exploration_fraction"], hidden, episodes=100
    )


def train_dqn(job: Job) -> dict[str, object]:
    """Train and evaluate a DQN; returns a line of the table."""
    from stable_baselines3 import DQN

    torch.set_num_threads(1)
    began = time.monotonic()
    make = corridor if job.game == CORRIDOR else None
    env = StateEnv(job.game if make is None else make_env(make()))
    model = DQN("MlpPolicy", env, seed=job.seed, device="cpu", **ZOO.get(job.game, {}))
    model.learn(job.steps)
    plan = Plan(episodes=job.episodes, seed=job.seed, stack=env.env.spec.stack)
    records = evaluate(Greedy(model.q_net), lambda: make_env(job.game if make is None else make()), plan)
    score = float(np.mean([record.score for record in records]))
    chosen = {name: getattr(job, name) for name in CHOSEN}
    return {**chosen, "score": score, "wall_seconds": round(time.monotonic() - began, 1)}


def main() -> None:
    """Run what is not there yet, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="3")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--games", nargs="+", default=GAMES, choices=GAMES)
    args = parser.parse_args()
    cells = [(game, seed) for seed in parse_seeds(args.seeds) for game in args.games]
    table = RAW / "untuned+dqn.csv"
    done = read(table)
    jobs = [dqn_job(game, seed, args.steps) for game, seed in cells]
    with ProcessPoolExecutor(args.workers) as pool:
        ours = [pool.submit(train, game, seed, args.steps) for game, seed in cells]
        for line in pool.map(train_dqn, [job for job in jobs if key(vars(job)) not in done]):
            append(table, line)
        for run in ours:
            run.result()
    collect(RUNS, RAW / "untuned.csv")


if __name__ == "__main__":
    main()
