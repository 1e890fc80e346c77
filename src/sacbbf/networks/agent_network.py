"""The agent's whole network: encoder, Q branch, policy branch and self-prediction. No losses, no optimiser.

Its parts carry the names of the paper's figure; `encode` and the branches are separate calls, because an
update shares encoded latents between them and acting needs one branch only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F

from sacbbf.config import NetworkConfig
from sacbbf.constants import number
from sacbbf.networks.branches import read_branches
from sacbbf.networks.encoders import GridEncoder, flatten, make_encoder
from sacbbf.networks.grid_encoding import encode_grids
from sacbbf.networks.latent_model import TransitionModel
from sacbbf.networks.noisy import Draw, NoisyLinear
from sacbbf.networks.renormalize import renormalize
from sacbbf.networks.wide_linear import WideLinear

RESET_SOFTLY = ("encoder.", "transition.")  # the parts that a reset only shrinks and perturbs


class AgentNetwork(nn.Module):
    """Networks of one agent; `self_prediction` adds the transition model and the predictors."""

    def __init__(
        self, config: NetworkConfig, obs_shape: Sequence[int], num_actions: int, self_prediction: bool = True
    ) -> None:
        super().__init__()
        self.num_actions = num_actions
        self.num_atoms = config.num_atoms
        self.renormalize = config.renormalize
        hidden = config.hidden_dim
        self.encoder = make_encoder(config.encoder, obs_shape, config.width_scale)
        flat = math.prod(self.encoder.out_shape)
        linear = NoisyLinear if config.noisy else WideLinear
        self.q_projection = linear(flat, hidden)
        self.q_value = linear(hidden, config.num_atoms) if config.dueling else None
        self.q_advantage = linear(hidden, num_actions * config.num_atoms)
        self.policy_projection = WideLinear(flat, hidden) if config.policy else None
        self.policy_head = nn.Linear(hidden, num_actions) if config.policy else None
        if self_prediction:
            self.transition = TransitionModel(self.encoder.out_shape, num_actions)
            self.q_predictor = WideLinear(hidden, hidden)
            self.policy_predictor = WideLinear(hidden, hidden) if config.policy else None

    def draw_noise(self, normal: Draw | None) -> None:
        """Take new noise into the noisy layers, if there are any; None: quieten them."""
        for layer in self.modules():
            if isinstance(layer, NoisyLinear):
                if normal is None:
                    layer.noise = None
                else:
                    layer.draw(normal)

    def encode(self, obs: torch.Tensor) -> torch.Tensor:
        """Latents of observations (N, C, H, W) or (N, D), already float and scaled."""
        latent = self.encoder(obs)
        return renormalize(latent) if self.renormalize else latent

    @property
    def encodes_together(self) -> bool:
        """Whether there is `encode_both`."""
        return isinstance(self.encoder, GridEncoder) and self.renormalize

    def encode_both(self, learning: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Latents of two batches of observations as rows (N, D), of the first with gradient, of the second without.

        In one pass, in full precision, for grids: larger networks gain nothing by it and keep more in memory.
        """
        assert isinstance(self.encoder, GridEncoder), "only grids are encoded together"
        return encode_grids(self.encoder, torch.cat((learning, other)), len(learning))

    def roll_out(self, latent: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Latents of this and the k predicted steps, (k + 1, N, D) flattened, from (N, ...) and actions (k, N)."""
        if actions.shape[0] == 0:
            return flatten(latent).unsqueeze(0)
        return self.transition(latent, actions, self.renormalize)  # type: ignore[no-any-return]

    def read_out(self, latents: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor | None]:
        """What the branches make of latents (k + 1, N, D): the Q branch's first, then the policy's, if there is one.

        The projections (N, hidden) of the first step, and predictions (V, k, N, hidden) of the others' projections,
        if there are others.
        """
        projections = [each for each in (self.q_projection, self.policy_projection) if each is not None]
        if latents.shape[0] == 1:
            return [project(latents[0]) for project in projections], None
        predictors = [each for each in (self.q_predictor, self.policy_predictor) if each is not None]
        branches = list(zip(projections, predictors, strict=True))
        if not any(isinstance(project, NoisyLinear) for project in projections):
            prediction, features = read_branches(latents, branches)
            return features, prediction
        found = [project(latents.flatten(0, 1)).unflatten(0, latents.shape[:2]) for project in projections]
        later = [predict(each[1:]) for each, (_, predict) in zip(found, branches, strict=True)]
        return [each[0] for each in found], torch.stack(later)

    def q_features(self, latent: torch.Tensor) -> torch.Tensor:
        """The Q branch's projection (N, hidden) of latents (N, ...), before its relu."""
        return self.q_projection(flatten(latent))  # type: ignore[no-any-return]

    def q_logits(self, features: torch.Tensor) -> torch.Tensor:
        """Logits of the return's atoms (N, A, atoms) from the Q branch's projection; a scalar Q if atoms = 1."""
        hidden = F.relu(features)
        advantage = self.q_advantage(hidden).unflatten(1, (self.num_actions, self.num_atoms))
        if self.q_value is None:
            return advantage  # type: ignore[no-any-return]
        value = self.q_value(hidden).unsqueeze(1)  # (N, 1, atoms)
        mean = advantage.sum(dim=1, keepdim=True) * number(1.0 / self.num_actions, advantage.device)
        return value + advantage - mean  # type: ignore[no-any-return]

    def policy_features(self, latent: torch.Tensor) -> torch.Tensor:
        """The policy branch's projection (N, hidden), before its relu."""
        assert self.policy_projection is not None, "this agent has no policy branch"
        return self.policy_projection(flatten(latent))  # type: ignore[no-any-return]

    def policy_logits(self, features: torch.Tensor) -> torch.Tensor:
        """Logits of the policy (N, A) from the policy branch's projection."""
        assert self.policy_head is not None, "this agent has no policy branch"
        return self.policy_head(F.relu(features))  # type: ignore[no-any-return]
