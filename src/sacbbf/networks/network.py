"""The agent's whole network: encoder, Q branch, policy branch and self-prediction. No losses, no optimiser.

Its parts carry the names of the paper's figure; `encode` and the branches are separate calls, because an
update shares encoded latents between them and acting needs one branch only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import nn
from torch.nn import functional as F

from sacbbf.agents.config import NetworkConfig
from sacbbf.networks.encoders import make_encoder
from sacbbf.networks.heads import POLICY_HEADS, PROJECTIONS
from sacbbf.networks.layers import Linear, renormalize, to_rows
from sacbbf.networks.noisy import Draw, LayerNoise, NoisyLinear
from sacbbf.networks.transition import TransitionModel

RESET_SOFTLY = ("encoder.", "transition.")  # the parts that a reset only shrinks and perturbs
RETURN_SCALE = "return_scale"  # a buffer of every network: what one of its units of return is in learning rewards
NO_POLICY = "this agent has no policy branch"
TRAINING_ONLY = ("transition.", "q_predictor.", "policy_predictor.", "auxiliary.")  # parts that only learning needs


class AgentNetwork(nn.Module):
    """Networks of one agent; `self_prediction` adds the transition model and the predictors."""

    def __init__(
        self, config: NetworkConfig, obs_shape: Sequence[int], num_actions: int, self_prediction: bool = True
    ) -> None:
        super().__init__()
        self.num_actions = num_actions
        self.num_atoms = config.num_atoms
        self.renormalize = config.renormalize
        self.noisy = config.noisy
        hidden = config.hidden_dim
        self.encoder = make_encoder(config.encoder, obs_shape, config.width_scale)
        flat = math.prod(self.encoder.out_shape)
        project = PROJECTIONS[config.projection]
        linear = NoisyLinear if config.noisy else Linear
        self.q_projection = NoisyLinear(flat, hidden) if config.noisy else project(flat, hidden)
        self.q_value = linear(hidden, config.num_atoms) if config.dueling else None
        self.q_advantage = linear(hidden, num_actions * config.num_atoms)
        self.policy_projection = project(flat, hidden) if config.policy else None
        self.policy_head = POLICY_HEADS[config.policy_head](hidden, num_actions) if config.policy else None
        if self_prediction:
            self.transition = TransitionModel(self.encoder.out_shape, num_actions, config.renormalize)
            self.q_predictor = Linear(hidden, hidden)
            self.policy_predictor = Linear(hidden, hidden) if config.policy else None
        self.auxiliary: nn.Module | None = None  # of an auxiliary loss
        self.return_scale: torch.Tensor
        self.register_buffer(RETURN_SCALE, torch.zeros(()))  # 0: returns are not scaled

    @property
    def unit(self) -> float:
        """Learning rewards in one unit of its values."""
        return float(self.return_scale) or 1.0

    def draw_noise(self, normal: Draw) -> list[LayerNoise]:
        """Return new noise for each of the noisy layers, if there are any."""
        return [layer.draw(normal) for layer in self._noisy_layers()]

    def set_noise(self, noise: list[LayerNoise] | None) -> None:
        """Take noise into the noisy layers; None: quieten them."""
        for number, layer in enumerate(self._noisy_layers()):
            layer.noise = None if noise is None else noise[number]

    def _noisy_layers(self) -> list[NoisyLinear]:
        if not self.noisy:
            return []
        return [layer for layer in self.modules() if isinstance(layer, NoisyLinear)]

    def encode(self, obs: torch.Tensor) -> torch.Tensor:
        """Latents of observations (N, C, H, W) or (N, D), already float and scaled."""
        latent = self.encoder(obs)
        return renormalize(latent) if self.renormalize else latent

    def roll_out(self, latent: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Latents of this and the k predicted steps as rows (k + 1, N, D), from (N, ...) and actions (k, N)."""
        rows = to_rows(latent).unsqueeze(0)
        if len(actions) == 0:
            return rows
        rolled = to_rows(self.transition(latent, actions).flatten(0, 1))  # (k * N, D)
        return torch.cat((rows, torch.unflatten(rolled, 0, actions.shape)))

    def project(self, latents: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Each branch's projection (T, N, hidden) of latents (T, N, D): Q's, then the policy's if any."""
        rows, shape = latents.flatten(0, 1), latents.shape[:2]
        policy = None if self.policy_projection is None else self.policy_projection(rows).unflatten(0, shape)
        return self.q_projection(rows).unflatten(0, shape), policy

    def predict(self, q_features: torch.Tensor, policy_features: torch.Tensor | None) -> torch.Tensor | None:
        """What the predictors make of projections (k, N, hidden) of each of V branches: (V, k, N, hidden)."""
        if len(q_features) == 0:
            return None
        predictions = [self.q_predictor(q_features)]
        if policy_features is not None:
            predictions.append(cast(nn.Module, self.policy_predictor)(policy_features))
        return torch.stack(predictions)

    def q_features(self, latent: torch.Tensor) -> torch.Tensor:
        """The Q branch's projection (N, hidden) of latents (N, ...), before its relu."""
        return self.q_projection(to_rows(latent))  # type: ignore[no-any-return]

    def q_logits(self, features: torch.Tensor) -> torch.Tensor:
        """Logits of the return's atoms (N, A, atoms) from the Q branch's projection; a scalar Q if atoms = 1."""
        hidden = F.relu(features)
        advantage = self.q_advantage(hidden).unflatten(1, (self.num_actions, self.num_atoms))
        if self.q_value is None:
            return advantage  # type: ignore[no-any-return]
        value = self.q_value(hidden).unsqueeze(1)  # (N, 1, atoms)
        return value + advantage - advantage.mean(dim=1, keepdim=True)  # type: ignore[no-any-return]

    def policy_features(self, latent: torch.Tensor) -> torch.Tensor:
        """The policy branch's projection (N, hidden), before its relu."""
        if self.policy_projection is None:
            raise ValueError(NO_POLICY)
        return self.policy_projection(to_rows(latent))  # type: ignore[no-any-return]

    def policy_logits(self, features: torch.Tensor) -> torch.Tensor:
        """Logits of the policy (N, A) from the policy branch's projection."""
        if self.policy_head is None:
            raise ValueError(NO_POLICY)
        return self.policy_head(F.relu(features))  # type: ignore[no-any-return]
