"""The policy in a run directory, played again."""

from __future__ import annotations

import torch

from sacbbf.envs.make import make_env
from sacbbf.policy import NetworkPolicy
from sacbbf.run.display import Display
from sacbbf.run.evaluate import ROWS, Plan, evaluate
from sacbbf.run.policy_file import load_policy
from sacbbf.run.records import RunDirectory
from sacbbf.run.settings import RunConfig, read_spec
from sacbbf.run.torch_setup import torch_set_up
from sacbbf.types import EpisodeRecord


def evaluate_run(
    run: RunDirectory, config: RunConfig, plan: Plan, device: str, display: Display, by_critic: bool = False
) -> tuple[list[EpisodeRecord], str | None]:
    """Play the episodes of a plan with a run's policy; return their records and the game, if it is one of the 26."""
    spec = read_spec(config.env, config.environment)  # first: its modules may register the policy's encoder
    there = torch.device(device)
    policy = NetworkPolicy(load_policy(run.policy, there), there, ROWS, by_critic=by_critic)
    with torch_set_up(config):
        display.begin("evaluating", plan.episodes)
        records = evaluate(
            policy,
            lambda: make_env(config.env, settings=config.environment),
            plan,
            lambda record: display.advance(f"last score {record.score:g}"),
        )
    return records, spec.game
