"""The network passes of one update, batched: what is encoded once is shared by all that need it.

The online network has encoded s_t and s_{t+n} before; s_{t+1} .. s_{t+k} and s_{t+n} go through the target network in
a single call. Whether gradients are kept is the caller's to say.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sacbbf.networks.agent_network import AgentNetwork


@dataclass(frozen=True, slots=True)
class OnlinePass:
    """What the online network says of s_t, with gradient."""

    q_logits: torch.Tensor  # (B, A, N)
    policy_logits: torch.Tensor | None  # (B, A)
    prediction: torch.Tensor | None  # (V, k, B, D): what the predictors say of s_{t+1} .. s_{t+k}


@dataclass(frozen=True, slots=True)
class TargetPass:
    """What the target network says of the states after s_t, without gradient."""

    q_logits: torch.Tensor  # (B, A, N) at s_{t+n}
    projection: torch.Tensor | None  # (V, k, B, D): each branch's projection of s_{t+1} .. s_{t+k}


def online_pass(network: AgentNetwork, latent: torch.Tensor, actions: torch.Tensor) -> OnlinePass:
    """Roll the latent of s_t (B, D) out with actions (k, B), and read both branches off it.

    Projections of s_t and of all k predicted latents go through one matrix product per branch.
    """
    latents = network.roll_out(latent, actions)  # (k + 1, B, D)
    (q_features, *policy_features), prediction = network.read_out(latents)
    policy_logits = network.policy_logits(policy_features[0]).float() if policy_features else None
    return OnlinePass(
        network.q_logits(q_features).float(), policy_logits, None if prediction is None else prediction.float()
    )


def target_pass(network: AgentNetwork, states: torch.Tensor, size: int, steps: int, row: int) -> TargetPass:
    """Encode all states after s_t, stacked as (rows * B, ...), in one call.

    The first k = `steps` rows are s_{t+1} .. s_{t+k}; row number `row` holds the bootstrap state.
    """
    latents = network.encode(states)
    q_features = network.q_features(latents)  # (rows * B, D)
    q_logits = network.q_logits(q_features[row * size : (row + 1) * size]).float()
    if steps == 0:
        return TargetPass(q_logits, None)
    projections = [q_features[: steps * size]]
    if network.policy_head is not None:
        projections.append(network.policy_features(latents[: steps * size]))
    stacked = torch.stack(projections)  # (V, k * B, D)
    return TargetPass(q_logits, stacked.view(len(projections), steps, size, stacked.shape[-1]).float())


def next_policy_logits(network: AgentNetwork, latent: torch.Tensor) -> torch.Tensor:
    """Policy logits (B, A) at s_{t+n}, from its latent (B, D)."""
    return network.policy_logits(network.policy_features(latent)).float()


def next_q_logits(network: AgentNetwork, latent: torch.Tensor) -> torch.Tensor:
    """Atom logits (B, A, N) at s_{t+n}, from its latent (B, D)."""
    return network.q_logits(network.q_features(latent)).float()
