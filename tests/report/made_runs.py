"""Run directories made by hand, as training writes them, and score tables: nothing is trained."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sacbbf.agents.ladder import Changes, change
from sacbbf.envs import games
from sacbbf.run.settings import RunConfig, resolve, to_toml

STEPS = {"paper": 100_000, "laptop": 20_000, "tiny": 20_000}


@cache
def _resolved(env: str, agent: str, size: str, steps: int) -> RunConfig:
    if env in games.GAMES and env != "Pong":  # all Atari games have the same preset: one emulator will do
        return replace(_resolved("Pong", agent, size, steps), env=env)
    return resolve(env, agent=agent, size=size, steps=steps, device="cpu")[0]


def make_config(
    env: str, seed: int = 0, *, agent: str = "sac-bbf", size: str = "paper", steps: int | None = None,
    changes: Changes | None = None, **rest: Any,
) -> RunConfig:  # fmt: skip
    config = replace(_resolved(env, agent, size, steps or STEPS[size]), seed=seed, **rest)
    return replace(config, settings=change(config.settings, changes or {}))


def write_run(path: Path, config: RunConfig, score: float, *, evaluations: int = 0, **rest: Any) -> Path:
    """Write what a finished run leaves behind; `evaluations` points on the way to its score, and 40 episodes."""
    path.mkdir(parents=True)
    (path / "config.toml").write_text(to_toml(config))
    result = {
        "env": config.env, "agent": config.agent, "size": config.size, "seed": config.seed, "finished": True,
        "stopped_by": None, "score": score, "standard_error": 1.5, "interval_95": [score - 3, score + 3],
        "human_normalised": games.human_normalised(config.env, score) if config.env in games.GAMES else None,
        "episodes": 100, "steps": config.steps, "updates": config.steps, "wall_seconds": 60.0,
    }  # fmt: skip
    (path / "result.json").write_text(json.dumps(result | rest))
    shares = np.linspace(0.0, 1.0, evaluations + 2)[1:-1]
    low = games.SCORES[config.env].random if config.env in games.GAMES else 0.0
    lines = [
        {"step": round(share * config.steps), "mean": low + share**0.7 * (score - low), "standard_error": 1.0}
        for share in shares
    ]
    (path / "evaluations.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    generator = np.random.default_rng(config.seed)
    episodes = [
        {"step": round(share * config.steps), "score": low + share * (score - low) * generator.uniform(0.6, 1.2)}
        for share in np.linspace(0.02, 1.0, 40)
    ]
    (path / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in episodes))
    return path


def write_csv(path: Path, rows: Iterable[tuple[Any, ...]], header: str = "agent,game,seed,score") -> Path:
    with path.open("w", newline="") as file:
        file.write(header + "\n")
        csv.writer(file, lineterminator="\n").writerows(rows)
    return path


def random_rows(agent: str, counts: dict[str, int], seed: int = 0) -> list[tuple[str, str, int, float]]:
    """Scores around half of a human's, as many per game as asked for."""
    generator = np.random.default_rng(seed)
    rows = []
    for game, count in counts.items():
        scores = games.SCORES[game]
        for number in range(count):
            share = generator.gamma(2.0, 0.4)
            rows.append((agent, game, number, scores.random + share * (scores.human - scores.random)))
    return rows


def write_sweep(path: Path, *, seeds: int = 3) -> Path:
    """Two agents on all 26 games, one of them without variance reduction, and three environments of other kinds."""
    generator = np.random.default_rng(7)
    ablation = {"loss": {"variance_reduction": False}}
    for game in games.GAMES:
        scores = games.SCORES[game]
        mean = (scores.published["sac_bbf_rr2"] - scores.random) / (scores.human - scores.random)
        for name, changes, scale in (("whole", None, 0.95), ("ablation", ablation, 0.45)):
            for seed in range(seeds):
                share = mean * scale * generator.uniform(0.75, 1.25)
                score = scores.random + share * (scores.human - scores.random)
                config = make_config(game, seed, changes=changes)
                write_run(path / name / f"{game}-{seed}", config, score, evaluations=9)
    played = {
        "random": {"score": 3.5, "standard_error": 0.3},
        "blind": {"score": 5.4, "standard_error": 0.2, "mix": "25% left, 75% fire"},
    }
    for seed, score in enumerate((14.97, 17.64, 17.21)):
        config = make_config("MinAtar/SpaceInvaders-v1", seed, size="tiny")
        write_run(path / "small" / f"invaders-{seed}", config, score, baselines=played)
    for seed, score in enumerate((427.2, 283.2)):
        config = make_config("CartPole-v1", seed, size="tiny", steps=10_000)
        write_run(path / "small" / f"pole-{seed}", config, score)
    return path
