"""What an update of the ladder's agents minimises: a goal from the states to come, then the loss of the present one.

Both halves are pure: networks, tensors and settings go in, tensors come out, and every random number was drawn before.
So torch.compile can take each as one graph. With bf16 the networks' passes are in reduced precision, the losses never.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from sacbbf.config import LossConfig
from sacbbf.constants import number
from sacbbf.learner import losses
from sacbbf.learner.augment import Inputs
from sacbbf.learner.passes import next_policy_logits, next_q_logits, online_pass, target_pass
from sacbbf.learner.terms import Terms
from sacbbf.networks import AgentNetwork
from sacbbf.networks.encoders import flatten
from sacbbf.types import Batch


@dataclass(frozen=True, slots=True)
class Goal:
    """What s_t should predict, without gradient."""

    target: torch.Tensor  # of the TD loss: (B, N) distribution, or (B,) value
    projection: torch.Tensor | None  # of SPR: (V, k, B, D)
    policy_logits: torch.Tensor | None  # (B, A) at s_{t+n}
    action: torch.Tensor | None  # (B,) at s_{t+n}, where the backup samples one


def precision(bf16: bool, device: torch.device) -> AbstractContextManager[object]:
    """Return what the networks' passes are computed in: bfloat16 where PyTorch thinks it safe, or float32."""
    return torch.autocast(device.type, torch.bfloat16) if bf16 else nullcontext()


@torch.no_grad()
def make_goal(
    online: AgentNetwork,
    target: AgentNetwork,
    latent_n: torch.Tensor | None,
    inputs: Inputs,
    batch: Batch,
    *,
    row: int,
    steps: int,
    atoms: torch.Tensor,
    loss: LossConfig,
    gumbel: torch.Tensor | None,
    bf16: bool,
) -> Goal:
    """Return the goal of a batch from its states as network inputs, the bootstrap state in row number `row`.

    `latent_n` (B, D) is what the online network makes of that one, if it has been encoded; `steps` is SPR's k, 0
    without it. A backup that samples draws its action with `gumbel` (B, A).
    """
    size = batch.return_n.shape[0]
    logits, action, chooser = None, None, None
    with precision(bf16, batch.return_n.device):
        ahead = target_pass(target, inputs.later, size, steps, row - 1)
        if latent_n is None and (loss.backup != "greedy" or loss.double):
            latent_n = flatten(online.encode(inputs.row(row)))
        if latent_n is not None and loss.backup != "greedy":
            logits = next_policy_logits(online, latent_n)
        elif latent_n is not None:
            chooser = next_q_logits(online, latent_n)
    distributional = atoms.numel() > 1
    values = torch.softmax(ahead.q_logits, dim=-1) if distributional else ahead.q_logits  # (B, A, N)
    if logits is None:
        q_chooser = losses.expected_value(ahead.q_logits if chooser is None else chooser, atoms)
        bootstrap = losses.backup_greedy(values, q_chooser)
    elif gumbel is None:
        bootstrap = losses.backup_expected(values, logits)
    else:
        action = losses.draw_action(logits, gumbel)
        bootstrap = losses.backup_sampled(values, action)
    if distributional:
        goal = losses.target_distribution(bootstrap, batch.return_n, batch.discount_n, batch.done, atoms)
    else:
        goal = losses.target_value(bootstrap.squeeze(1), batch.return_n, batch.discount_n, batch.done)
    return Goal(goal, ahead.projection, logits, action)


def make_loss(
    online: AgentNetwork,
    latent_t: torch.Tensor | None,
    input_t: torch.Tensor,
    batch: Batch,
    goal: Goal,
    *,
    steps: int,
    atoms: torch.Tensor,
    loss: LossConfig,
    beta: float | torch.Tensor,
    gumbel: torch.Tensor | None,
    bf16: bool,
) -> tuple[torch.Tensor, Terms]:
    """Return the loss to minimise, with its graph, and everything it was made of, without.

    `input_t` is s_t as network input (B, ...), `latent_t` (B, D) its latent, if it has been encoded. A policy gradient
    that samples draws its action with `gumbel` (B, A).
    """
    with precision(bf16, batch.return_n.device):
        latent = flatten(online.encode(input_t)) if latent_t is None else latent_t
        now = online_pass(online, latent, batch.actions[:steps])
    taken = losses.select(now.q_logits, batch.actions[0])  # (B, N)
    distributional = atoms.numel() > 1
    td_loss = losses.td_cross_entropy if distributional else losses.td_huber
    td = td_loss(taken if distributional else taken.squeeze(1), goal.target)
    q_values = losses.expected_value(now.q_logits.detach(), atoms)
    spr = torch.zeros_like(td)
    if now.prediction is not None and goal.projection is not None:
        spr = losses.spr_loss(now.prediction, goal.projection, batch.same_episode)
    policy, entropy, action = _policy_loss(now.policy_logits, q_values, loss, beta, gumbel)
    each = td + number(loss.spr_weight, spr.device) * spr + policy  # (B,)
    total = torch.dot(batch.weights, each) * number(1.0 / len(each), each.device)
    terms = Terms(
        latent=latent.detach(),
        q_logits=now.q_logits.detach(),
        q_values=q_values,
        policy_logits=None if now.policy_logits is None else now.policy_logits.detach(),
        next_policy_logits=goal.policy_logits,
        next_action=goal.action,
        policy_action=action,
        target=goal.target,
        spr_prediction=None if now.prediction is None else now.prediction.detach(),
        spr_target=goal.projection,
        td=td.detach(),
        spr=spr.detach(),
        policy=policy.detach(),
        entropy=entropy.detach(),
        weights=batch.weights,
        total=total.detach(),
    )
    return total, terms


def _policy_loss(
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
