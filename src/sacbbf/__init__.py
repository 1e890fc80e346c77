"""SAC-BBF: sample-efficient reinforcement learning for discrete actions."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sacbbf.api import (
        BBF,
        DER,
        SACBBF,
        SPR,
        SRSPR,
        Agent,
        Callback,
        CheckpointCallback,
        DrQEps,
        EvalCallback,
        Evaluation,
        OTRainbow,
        SACDiscrete,
        train,
    )
    from sacbbf.envs.make import EnvSettings, make_env
    from sacbbf.envs.states import StateEnv
    from sacbbf.errors import UsageError
    from sacbbf.learner.auxiliary import register_auxiliary_loss
    from sacbbf.learner.learner import Learner
    from sacbbf.learner.optim import register_optimiser
    from sacbbf.networks.encoders import register_encoder
    from sacbbf.networks.heads import register_policy_head, register_projection
    from sacbbf.replay import Replay

__version__ = "0.2.0.dev0"

# Public name -> its module, loaded when it is first asked for: facts such as `sacbbf.envs.games` need no third party.
_HOMES = {
    **dict.fromkeys(
        (
            "Agent",
            "BBF",
            "Callback",
            "CheckpointCallback",
            "DER",
            "DrQEps",
            "EvalCallback",
            "Evaluation",
            "OTRainbow",
            "SACBBF",
            "SACDiscrete",
            "SPR",
            "SRSPR",
            "train",
        ),
        "sacbbf.api",
    ),
    "EnvSettings": "sacbbf.envs.make",
    "Learner": "sacbbf.learner.learner",
    "Replay": "sacbbf.replay",
    "StateEnv": "sacbbf.envs.states",
    "UsageError": "sacbbf.errors",
    "make_env": "sacbbf.envs.make",
    "register_auxiliary_loss": "sacbbf.learner.auxiliary",
    "register_encoder": "sacbbf.networks.encoders",
    "register_optimiser": "sacbbf.learner.optim",
    "register_policy_head": "sacbbf.networks.heads",
    "register_projection": "sacbbf.networks.heads",
}
__all__ = [
    "BBF",
    "DER",
    "SACBBF",
    "SPR",
    "SRSPR",
    "Agent",
    "Callback",
    "CheckpointCallback",
    "DrQEps",
    "EnvSettings",
    "EvalCallback",
    "Evaluation",
    "Learner",
    "OTRainbow",
    "Replay",
    "SACDiscrete",
    "StateEnv",
    "UsageError",
    "__version__",
    "make_env",
    "register_auxiliary_loss",
    "register_encoder",
    "register_optimiser",
    "register_policy_head",
    "register_projection",
    "train",
]


def __dir__() -> list[str]:
    """List the public names alone."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Load a public name."""
    if name in _HOMES:
        if name == "Learner":
            importlib.import_module("sacbbf.kernels")  # what `compute.kernels` may use
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'sacbbf' has no attribute {name!r}")
