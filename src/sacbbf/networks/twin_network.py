"""SAC-Discrete's networks: a policy and two Q networks, each with an encoder of its own, and the temperature."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F

from sacbbf.agents.config import NetworkConfig
from sacbbf.networks.encoders import make_encoder
from sacbbf.networks.heads import POLICY_HEADS, PROJECTIONS
from sacbbf.networks.layers import Linear, to_rows
from sacbbf.networks.network import RETURN_SCALE
from sacbbf.networks.noisy import Draw, LayerNoise


class QNetwork(nn.Module):
    """Q (N, A) of all actions from observations."""

    def __init__(self, config: NetworkConfig, obs_shape: Sequence[int], num_actions: int) -> None:
        super().__init__()
        self.encoder = make_encoder(config.encoder, obs_shape, config.width_scale)
        self.projection = PROJECTIONS[config.projection](math.prod(self.encoder.out_shape), config.hidden_dim)
        self.head = Linear(config.hidden_dim, num_actions)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Map (N, C, H, W) or (N, D) to (N, A)."""
        return self.head(F.relu(self.projection(to_rows(self.encoder(obs)))))  # type: ignore[no-any-return]


class TwinNetwork(nn.Module):
    """Policy, two Q networks and the logarithm of the temperature; it acts as an agent's network does."""

    def __init__(self, config: NetworkConfig, obs_shape: Sequence[int], num_actions: int) -> None:
        super().__init__()
        self.num_actions = num_actions
        self.num_atoms = 1
        self.encoder = make_encoder(config.encoder, obs_shape, config.width_scale)
        self.policy_projection = PROJECTIONS[config.projection](math.prod(self.encoder.out_shape), config.hidden_dim)
        self.policy_head = POLICY_HEADS[config.policy_head](config.hidden_dim, num_actions)
        self.critics = nn.ModuleList(QNetwork(config, obs_shape, num_actions) for _ in range(2))
        self.log_alpha = nn.Parameter(torch.zeros(()))
        self.return_scale: torch.Tensor
        self.register_buffer(RETURN_SCALE, torch.zeros(()))  # 0: returns are not scaled

    @property
    def unit(self) -> float:
        """Learning rewards in one unit of its values."""
        return float(self.return_scale) or 1.0

    def draw_noise(self, normal: Draw) -> list[LayerNoise]:
        """Return nothing: no layer is noisy."""
        return []

    def set_noise(self, noise: list[LayerNoise] | None) -> None:
        """Do nothing: no layer is noisy."""

    def encode(self, obs: torch.Tensor) -> torch.Tensor:
        """Latents of observations, for the policy."""
        return self.encoder(obs)  # type: ignore[no-any-return]

    def policy_features(self, latent: torch.Tensor) -> torch.Tensor:
        """The policy's projection (N, hidden) of latents (N, ...), before its relu."""
        return self.policy_projection(to_rows(latent))  # type: ignore[no-any-return]

    def policy_logits(self, features: torch.Tensor) -> torch.Tensor:
        """Logits of the policy (N, A) from its projection."""
        return self.policy_head(F.relu(features))  # type: ignore[no-any-return]

    def q_values(self, obs: torch.Tensor) -> torch.Tensor:
        """Both networks' Q (2, N, A) of observations."""
        return torch.stack([critic(obs) for critic in self.critics])
