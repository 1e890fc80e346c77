"""Whether an agent's networks fit what an environment shows, and whether the parts that its settings name are known."""

from __future__ import annotations

from sacbbf.agents.config import AgentConfig
from sacbbf.envs.base import EnvSpec
from sacbbf.errors import UsageError
from sacbbf.learner.auxiliary import AUXILIARY_LOSSES
from sacbbf.learner.optim import OPTIMISERS
from sacbbf.networks.encoders import ENCODERS
from sacbbf.networks.heads import POLICY_HEADS, PROJECTIONS
from sacbbf.run.settings import RunConfig


def check_fit(config: RunConfig, spec: EnvSpec) -> None:
    """Raise UsageError if the encoder cannot read what the environment shows, or another part is not known by name."""
    check_names(config.settings)
    encoder = config.settings.network.encoder
    dims = 1 if spec.kind == "vector" else 3
    if ENCODERS[encoder].dims != dims:
        fitting = " or ".join(name for name, kind in ENCODERS.parts.items() if kind.dims == dims)
        raise UsageError(f"network.encoder = {encoder!r}: {config.env} shows a {spec.kind}, so must be {fitting}")


def check_names(settings: AgentConfig) -> None:
    """Raise UsageError for a part, shipped or registered, that is named in the settings and not known."""
    _ = PROJECTIONS[settings.network.projection]
    _ = POLICY_HEADS[settings.network.policy_head]
    _ = OPTIMISERS[settings.optimiser.name]
    if settings.loss.auxiliary != "none":
        _ = AUXILIARY_LOSSES[settings.loss.auxiliary]
