"""What one update of the ladder's agents minimises, to be read top to bottom, and what it moves afterwards.

`compute` is pure: networks, tensors and settings go in, tensors come out, and every random number was drawn before, so
torch.compile takes it as one graph. With bf16 the networks' passes are in reduced precision, the losses never.
Shapes: B samples, A actions, N atoms, k predicted steps, V branches, H units of a projection.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from sacbbf.agents.config import LossConfig
from sacbbf.learner import losses
from sacbbf.learner.augment import Observations
from sacbbf.learner.terms import Terms
from sacbbf.networks import AgentNetwork
from sacbbf.networks.layers import to_rows
from sacbbf.networks.noisy import LayerNoise
from sacbbf.types import Batch

CACHED = 1 << 20  # entries of observations that a CPU encodes at a time: with what becomes of them, some ten megabytes


@dataclass(frozen=True, slots=True)
class Draws:
    """The random numbers of one update beyond its augmentation."""

    next_action: torch.Tensor | None  # (B, A) Gumbel noise, where the backup samples an action
    action: torch.Tensor | None  # (B, A) Gumbel noise, where the policy gradient samples an action
    noise_target: list[LayerNoise] | None = None  # of the target network's noisy layers, if it has any
    noise_next: list[LayerNoise] | None = None  # of the online network's, at s_{t+n}
    noise_now: list[LayerNoise] | None = None  # of the online network's, at s_t


@dataclass(frozen=True, slots=True)
class Goal:
    """What s_t should predict, without gradient."""

    target: torch.Tensor  # of the TD loss: (B, N) distribution, or (B,) value
    projection: torch.Tensor | None  # of SPR: (V, k, B, H)
    policy_logits: torch.Tensor | None  # (B, A) at s_{t+n}
    action: torch.Tensor | None  # (B,) at s_{t+n}, where the backup samples one


def compute(
    online: AgentNetwork,
    target: AgentNetwork,
    batch: Batch,
    obs: Observations,
    row: int,
    steps: int,
    atoms: torch.Tensor,
    loss: LossConfig,
    beta: float | torch.Tensor,
    draws: Draws,
    bf16: bool = False,
) -> tuple[torch.Tensor, Terms]:
    """Return the loss to minimise, with its graph, and everything it was made of.

    `obs` are the batch's augmented states, in rows: s_t, then s_{t+1} .. s_{t+k} with k = `steps`; row number `row` is
    s_{t+n}. `atoms` is the support of the return distribution.
    """
    goal = make_goal(online, target, batch, obs, row, steps, atoms, loss, draws, bf16)
    online.set_noise(draws.noise_now)
    obs_t, action_t = obs.floats(0, 1), batch.actions[0]  # (B, ...), (B,)
    with precision(bf16, obs_t.device):
        latent = online.encode(obs_t)  # (B, ...)
        latents = online.roll_out(latent, batch.actions[:steps])  # (k + 1, B, D), s_t first
        q_features, policy_features = online.project(latents)  # (k + 1, B, H) each
        prediction = online.predict(q_features[1:], policy_features[1:] if policy_features is not None else None)
        # prediction: (V, k, B, H), or None without self-prediction
        q_logits = online.q_logits(q_features[0]).float()  # (B, A, N)
        policy_logits = online.policy_logits(policy_features[0]).float() if policy_features is not None else None
    if policy_logits is not None:
        policy_logits = losses.mask_illegal(policy_logits, batch.mask_t)

    # 3. TD loss: cross-entropy of the target with the distribution of the action that was taken.
    taken = losses.select(q_logits, action_t)  # (B, N)
    td = losses.td_loss(taken, goal.target)  # (B,)
    # 4. SPR loss, over both branches.
    spr = torch.zeros_like(td)
    if prediction is not None and goal.projection is not None:
        spr = losses.spr_loss(prediction.float(), goal.projection, batch.same_episode)  # (B,)
    # 5. Policy loss with a freshly drawn action; its gradient flows into the encoder.
    q_values = losses.expected_value(q_logits.detach(), atoms)  # (B, A)
    policy, entropy, action = policy_loss(policy_logits, q_values, loss, beta, draws.action)  # (B,) each

    terms = Terms(
        obs=obs_t,
        latent=to_rows(latent),
        q_logits=q_logits,
        q_values=q_values,
        policy_logits=policy_logits,
        next_policy_logits=goal.policy_logits,
        next_action=goal.action,
        policy_action=action,
        target=goal.target,
        spr_prediction=prediction,
        spr_target=goal.projection,
        td=td,
        spr=spr,
        policy=policy,
        entropy=entropy,
        auxiliary=torch.zeros_like(td),
        weights=batch.weights,
        total=torch.zeros_like(td[0]),
        mask=batch.mask_t,
    )
    if online.auxiliary is not None:
        terms = terms.with_auxiliary(online.auxiliary(terms, batch))
    # 6. Total: the mean over the batch, weighed by importance.
    per_sample = td + loss.spr_weight * spr + policy + loss.auxiliary_weight * terms.auxiliary  # (B,)
    total = (batch.weights * per_sample).mean()
    return total, terms.detached(total)


@torch.no_grad()
def make_goal(
    online: AgentNetwork,
    target: AgentNetwork,
    batch: Batch,
    obs: Observations,
    row: int,
    steps: int,
    atoms: torch.Tensor,
    loss: LossConfig,
    draws: Draws,
    bf16: bool,
) -> Goal:
    """2. The target distribution, and the target network's projections that SPR predicts; arguments as `compute`.

    The target network is in eval mode. The online network is in training mode for s_{t+n} too, so a batch norm gathers
    statistics of both states that it is read at; dropout, if a network has any, is drawn anew.
    """
    online.set_noise(draws.noise_next)
    target.set_noise(draws.noise_target)
    size = obs.states.shape[1]  # B
    with precision(bf16, obs.states.device):
        latents = encode_future(target, obs)  # ((rows - 1) * B, ...)
        projections = [torch.unflatten(target.q_features(latents), 0, (-1, size))]  # (rows - 1, B, H)
        q_target = target.q_logits(projections[0][row - 1]).float()  # (B, A, N) at s_{t+n}
        if steps > 0 and target.policy_head is not None:
            projections.append(torch.unflatten(target.policy_features(latents[: steps * size]), 0, (steps, size)))
        latent_n = online.encode(obs.floats(row, row + 1)) if loss.backup != "greedy" or loss.double else None
        logits_n, q_online = None, None
        if latent_n is not None and loss.backup != "greedy":
            logits_n = online.policy_logits(online.policy_features(latent_n)).float()
            logits_n = losses.mask_illegal(logits_n, batch.mask_n)  # (B, A)
        elif latent_n is not None:
            q_online = online.q_logits(online.q_features(latent_n)).float()  # (B, A, N)
    projection = torch.stack([each[:steps] for each in projections]).float() if steps > 0 else None  # (V, k, B, H)

    values = torch.softmax(q_target, dim=-1) if atoms.numel() > 1 else q_target  # (B, A, N)
    action = None
    if logits_n is None:  # BBF: argmax_a Q
        chooser = losses.expected_value(q_target if q_online is None else q_online, atoms)
        bootstrap = losses.backup_greedy(values, losses.mask_illegal(chooser, batch.mask_n))  # (B, N)
    elif draws.next_action is None:
        bootstrap = losses.backup_expected(values, logits_n)
    else:
        action = losses.draw_action(logits_n, draws.next_action)
        bootstrap = losses.backup_sampled(values, action)
    ends = batch.return_n, batch.discount_n, batch.done
    if atoms.numel() > 1:
        return Goal(losses.target_distribution(bootstrap, *ends, atoms), projection, logits_n, action)
    return Goal(losses.target_value(bootstrap.squeeze(1), *ends), projection, logits_n, action)


def encode_future(network: AgentNetwork, obs: Observations) -> torch.Tensor:
    """Latents of all rows but s_t, ((rows - 1) * B, ...); on a CPU a few rows at a time, which stay in its caches."""
    rows, row_entries = len(obs.states), obs.states[0].numel()
    at_a_time = max(1, CACHED // row_entries) if obs.states.device.type == "cpu" else rows
    starts = range(1, rows, at_a_time)
    return torch.cat([network.encode(obs.floats(start, min(start + at_a_time, rows))) for start in starts])


def policy_loss(
    logits: torch.Tensor | None,
    q_values: torch.Tensor,
    loss: LossConfig,
    beta: float | torch.Tensor,
    gumbel: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Policy loss and entropy, (B,) each, and the sampled action; zeros for an agent without a policy."""
    if logits is None:
        zeros = torch.zeros_like(q_values[:, 0])
        return zeros, zeros, None
    entropy = losses.entropy(logits)
    if gumbel is None:
        return losses.policy_gradient_expected(logits, q_values) - beta * entropy, entropy, None
    action = losses.draw_action(logits.detach(), gumbel)
    gradient = losses.policy_gradient_sampled(logits, q_values, action, loss.variance_reduction)
    return gradient - beta * entropy, entropy, action


def precision(bf16: bool, device: torch.device) -> AbstractContextManager[object]:
    """Return what the networks' passes are computed in: bfloat16 where PyTorch thinks it safe, or float32."""
    return torch.autocast(device.type, torch.bfloat16) if bf16 else nullcontext()
