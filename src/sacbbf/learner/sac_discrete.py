"""SAC-Discrete (Christodoulou 2019): what its update minimises, on the same learner, replay and run as the others.

Maximum-entropy reinforcement learning: the return includes the policy's entropy, weighed by a temperature that is
learned so that the entropy stays near a target.
"""

from __future__ import annotations

import math

import torch
from torch.nn import functional as F

from sacbbf.learner.augment import Observations
from sacbbf.learner.losses import entropy, largest_entropy, mask_illegal, select, target_value
from sacbbf.learner.terms import Terms
from sacbbf.networks.layers import to_rows
from sacbbf.networks.twin_network import TwinNetwork
from sacbbf.types import Batch


def soft_value(q: torch.Tensor, policy_logits: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    """V (B,) = sum_a pi(a|s) (min_i Q_i(s, a) - alpha log pi(a|s)) from q (2, B, A) and logits (B, A)."""
    log_policy = F.log_softmax(policy_logits, dim=-1)
    return (log_policy.exp() * (q.amin(dim=0) - alpha * log_policy)).sum(dim=-1)


def twin_loss(q: torch.Tensor, action: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Squared errors (B,) of both Q (2, B, A) at actions (B,) against the target (B,), halved and added."""
    return sum((0.5 * (select(own, action) - target) ** 2 for own in q), torch.zeros_like(target))


def policy_loss(policy_logits: torch.Tensor, q: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    """sum_a pi(a|s) (alpha log pi(a|s) - min_i Q_i(s, a)), (B,); no gradient to Q (2, B, A) or the temperature."""
    return -soft_value(q.detach(), policy_logits, alpha.detach())


def temperature_loss(
    log_alpha: torch.Tensor, policy_entropy: torch.Tensor, target_entropy: float | torch.Tensor
) -> torch.Tensor:
    """alpha (H - target), (B,): descending it raises the temperature where the entropy is below its target."""
    return log_alpha.exp() * (policy_entropy.detach() - target_entropy)


def compute(
    online: TwinNetwork, target: TwinNetwork, obs: Observations, batch: Batch, share: float
) -> tuple[torch.Tensor, Terms]:
    """Return the loss to minimise and what it was made of, from `obs`: s_t and s_{t+n}.

    `share` of log A is the entropy that the temperature aims at; with masks, A counts the state's legal actions.
    """
    obs_t, obs_n = obs.floats(0, 1), obs.floats(1, 2)  # (B, ...) each
    alpha = online.log_alpha.exp()  # ()
    with torch.no_grad():
        next_logits = online.policy_logits(online.policy_features(online.encode(obs_n)))
        next_logits = mask_illegal(next_logits, batch.mask_n)  # (B, A)
        value = soft_value(target.q_values(obs_n), next_logits, alpha)  # (B,)
        goal = target_value(value, batch.return_n, batch.discount_n, batch.done)  # (B,)
    q = online.q_values(obs_t)  # (2, B, A)
    latent = online.encode(obs_t)
    logits = mask_illegal(online.policy_logits(online.policy_features(latent)), batch.mask_t)  # (B, A)
    td = twin_loss(q, batch.actions[0], goal)  # (B,)
    policy = policy_loss(logits, q, alpha)  # (B,)
    spread = entropy(logits)  # (B,)
    largest = math.log(online.num_actions) if batch.mask_t is None else largest_entropy(batch.mask_t)  # () or (B,)
    temperature = temperature_loss(online.log_alpha, spread, share * largest)
    total = (batch.weights * (td + policy + temperature)).mean()
    lower = q.detach().amin(dim=0)
    terms = Terms(
        obs=obs_t,
        latent=to_rows(latent).detach(),
        q_logits=lower.unsqueeze(-1),
        q_values=lower,
        policy_logits=logits.detach(),
        next_policy_logits=next_logits,
        next_action=None,
        policy_action=None,
        target=goal,
        spr_prediction=None,
        spr_target=None,
        td=td.detach(),
        spr=torch.zeros_like(td.detach()),
        policy=policy.detach(),
        entropy=spread.detach(),
        auxiliary=torch.zeros_like(td.detach()),
        weights=batch.weights,
        total=total.detach(),
        temperature=alpha.detach(),
        mask=batch.mask_t,
    )
    return total, terms
