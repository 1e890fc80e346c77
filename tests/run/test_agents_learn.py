"""Every agent of the ladder learns to catch a falling ball: chance gets about -0.6, the best is 1."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sacbbf.agents.ladder import RUNGS
from sacbbf.agents.presets import Changes, change
from sacbbf.run.settings import EvalConfig, RunConfig, resolve
from toys import run_quietly

STEPS = {"sac-bbf": 900, "sac-discrete": 800}  # 600 for the others


def small_run(agent: str, seed: int = 0, extra: Changes | None = None) -> RunConfig:
    """An agent with small networks and a high learning rate; its target follows and its epsilon falls faster."""
    config, _ = resolve("toys/Catch-v0", size="tiny", steps=STEPS.get(agent, 600), agent=agent, seed=seed)
    optimiser = config.settings.optimiser
    changes: Changes = {
        "network": {"hidden_dim": 64, "width_scale": 0.5},
        "loss": {"spr_steps": 1},
        "optimiser": {
            "learning_rate": 3e-3,
            "tau": max(optimiser.tau, 0.05),
            "target_every": min(optimiser.target_every, 20),
        },
        "schedule": {"warmup": 64, "reset_every": 0},
    }
    own: dict[str, Changes] = {
        "sac-bbf": {"network": {"width_scale": 1.0}, "loss": {"spr_steps": 2}, "schedule": {"beta_start": 0.1}},
        "sac-discrete": {"loss": {"target_entropy": 0.3}, "replay": {"batch_size": 32}},
    }
    exploring: Changes = {"acting": {"epsilon_end": 0.1, "epsilon_decay": 200}}
    settings = change(change(config.settings, changes), own.get(agent, exploring))
    settings = change(settings, extra or {})
    return replace(config, settings=settings, eval=EvalConfig(episodes=40, baselines=False), log_every=1_000)


@pytest.mark.parametrize("agent", RUNGS)
def test_an_agent_learns_to_catch(agent, tmp_path):
    assert run_quietly(small_run(agent), tmp_path / "run")["score"] >= 0.5
