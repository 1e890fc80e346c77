"""Agents learn what can be learned: toys with a known best score, far from what chance gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toys import run_quietly, toy_config

LONG_SIGHT = {"reset_every": 0, "n_start": 10}  # n from 10 to 3, as everywhere
ONE_STEP = {"reset_every": 0, "n_start": 1, "n_end": 1, "gamma_start": 0.5, "gamma_end": 0.5}


@pytest.mark.parametrize(
    ("toy", "steps", "learning_rate", "schedule", "chance", "best"),
    [
        ("Identity", 500, 1e-2, ONE_STEP, 2.0, 10.0),
        ("Corridor", 500, 3e-3, LONG_SIGHT, 0.1, 1.0),
        ("Catch", 1_000, 3e-3, LONG_SIGHT, -0.6, 1.0),
    ],
)
def test_toys_are_learned(toy, steps, learning_rate, schedule, chance, best, tmp_path):
    changes = {
        "network": {"hidden_dim": 64, "width_scale": 1.0, "v_max": 10.0},
        "loss": {"spr_weight": 0.0},
        "optimiser": {"learning_rate": learning_rate, "tau": 0.05},
        "schedule": {"warmup": 64, "beta_start": 0.1, **schedule},
    }
    config = toy_config(toy, steps, changes, episodes=50, log_every=1_000)
    by_chance = run_quietly(replace(config, agent="random"), tmp_path / "random")["score"]
    assert by_chance == pytest.approx(chance, abs=0.2 * (best - chance))
    assert run_quietly(config, tmp_path / "agent")["score"] >= best - 0.1 * (best - chance)
