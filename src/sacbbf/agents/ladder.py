"""The ladder of agents, from DER to SAC-BBF: each rung as its differences from the one below. Facts, and one fold.

Values are those of the published configurations for Atari 100K, with 100,000 steps. Sources: "DER" is Dopamine's
Atari 100K lab (van Hasselt et al. 2019), "OTR" Kielak 2020, "DrQ" Yarats et al. 2021 with the BBF authors'
epsilon, "SPR" Schwarzer et al. 2021, "SR-SPR" D'Oro et al. 2023 in the BBF authors' configuration, "BBF" Schwarzer et
al. 2023, "SAC-D" Christodoulou 2019.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from sacbbf.agents.config import AgentConfig

Changes = dict[str, dict[str, Any]]
LearnerName = Literal["der", "otrainbow", "drq-eps", "spr", "sr-spr", "bbf", "sac-bbf", "sac-discrete"]


@dataclass(frozen=True)
class Rung:
    """An agent as changes to another one."""

    summary: str
    below: LearnerName | None  # None: changes to SAC-BBF's defaults
    changes: Changes


RUNGS: dict[LearnerName, Rung] = {
    "der": Rung(
        "Data-Efficient Rainbow: C51, dueling, double, noisy layers, prioritised replay, 10-step returns",
        None,
        {
            "network": {
                "encoder": "nature",
                "width_scale": 1.0,
                "hidden_dim": 512,
                "renormalize": False,
                "policy": False,
                "noisy": True,
            },
            "loss": {"backup": "greedy", "spr_weight": 0.0, "augment": False},
            "optimiser": {"weight_decay": 0.0, "tau": 1.0, "target_every": 2_000},
            "schedule": {
                "replay_ratio": 1,
                "warmup": 1_600,
                "n_end": 10,
                "gamma_start": 0.99,
                "gamma_end": 0.99,
                "beta_start": 0.0,
                "reset_every": 0,
            },
            "acting": {
                "network": "online",
                "epsilon_start": 1.0,
                "epsilon_end": 0.01,
                "epsilon_decay": 2_000,
                "epsilon_eval": 0.001,
            },
        },
    ),
    "otrainbow": Rung(
        "Overtrained Rainbow: fewer parts, 3-step returns, eight updates per step",
        "der",
        {
            "network": {"dueling": False, "noisy": False},
            "loss": {"double": False},
            "optimiser": {"learning_rate": 6.25e-5, "target_every": 500},
            "schedule": {"replay_ratio": 8, "warmup": 2_000, "n_start": 3, "n_end": 3},
            "acting": {"epsilon_decay": 50_000},
        },
    ),
    "drq-eps": Rung(
        "DrQ with a longer epsilon: a scalar Q, uniform replay, and augmented images",
        "otrainbow",
        {
            "network": {"num_atoms": 1, "dueling": True},
            "loss": {"double": True, "augment": True},
            "optimiser": {"learning_rate": 1e-4, "target_every": 1},
            "schedule": {"replay_ratio": 1, "warmup": 1_600, "n_start": 10, "n_end": 10},
            "acting": {"epsilon_decay": 5_000},
            "replay": {"prioritised": False},
        },
    ),
    "spr": Rung(
        "Self-predictive representations: predicts its own latents; C51, noisy layers and prioritised replay again",
        "drq-eps",
        {
            "network": {"num_atoms": 51, "renormalize": True, "noisy": True},
            "loss": {"spr_weight": 5.0},
            "schedule": {"replay_ratio": 2, "warmup": 2_000},
            "acting": {"epsilon_end": 0.0, "epsilon_decay": 2_001},
            "replay": {"prioritised": True},
        },
    ),
    "sr-spr": Rung(
        "Scaled-by-resetting SPR: a moving average as target, which also acts, and resets; no noisy layers",
        "spr",
        {
            "network": {"noisy": False},
            "optimiser": {"tau": 0.005},
            "schedule": {"reset_every": 40_000, "shrink": 0.8},
            "acting": {"network": "target"},
        },
    ),
    "bbf": Rung(
        "Bigger, better, faster: a wide Impala encoder, annealed n and gamma, harder resets, weight decay",
        "sr-spr",
        {
            "network": {"encoder": "impala", "width_scale": 4.0, "hidden_dim": 2048},
            "optimiser": {"weight_decay": 0.1},
            "schedule": {"n_end": 3, "gamma_start": 0.97, "gamma_end": 0.997, "shrink": 0.5},
            "acting": {"epsilon_decay": 2_000},
        },
    ),
    "sac-bbf": Rung(
        "BBF with an explicit policy, trained by a discrete soft actor-critic (the paper's agent)",
        "bbf",
        {
            "network": {"policy": True},
            "loss": {"backup": "sampled"},
            "schedule": {"beta_start": 0.01},
            "acting": {"epsilon_start": 0.0, "epsilon_decay": 0, "epsilon_eval": 0.0},
        },
    ),
    "sac-discrete": Rung(
        "SAC-Discrete: maximum entropy, two Q networks, soft targets, a learned temperature (the paper's baseline)",
        None,
        {
            "network": {
                "encoder": "nature",
                "width_scale": 1.0,
                "hidden_dim": 512,
                "num_atoms": 1,
                "dueling": False,
                "renormalize": False,
                "twin_q": True,
            },
            "loss": {"backup": "expected", "policy_gradient": "expected", "spr_weight": 0.0, "augment": False},
            "optimiser": {"learning_rate": 3e-4, "adam_eps": 1e-8, "weight_decay": 0.0},
            "schedule": {
                "replay_ratio": 1,
                "n_start": 1,
                "n_end": 1,
                "gamma_start": 0.99,
                "gamma_end": 0.99,
                "beta_start": 0.0,
                "reset_every": 0,
            },
            "acting": {"network": "online"},
            "replay": {"batch_size": 64, "prioritised": False},
        },
    ),
}


def change(config: AgentConfig, changes: Changes) -> AgentConfig:
    """Return the configuration with some settings of some parts replaced."""
    parts = {part: replace(getattr(config, part), **settings) for part, settings in changes.items()}
    return replace(config, **parts)


def published(agent: LearnerName) -> AgentConfig:
    """Return an agent's configuration as published, for 100,000 steps."""
    rung = RUNGS[agent]
    return change(AgentConfig() if rung.below is None else published(rung.below), rung.changes)
