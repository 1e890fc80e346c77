"""The agent's equations as pure tensor functions, one value per sample. Nothing here draws or remembers.

Shapes: B samples, A actions, N atoms, k predicted steps, V branches, D features. Equation numbers are those
of *Generalizing soft actor-critic algorithms to discrete action spaces*.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

# The logit of an illegal action. Its probability is exactly 0, and finite: 0 times it is 0 in an entropy, not NaN.
ILLEGAL = -1e30


def mask_illegal(values: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Logits or Q (B, A) with those of illegal actions at ILLEGAL, without gradient; as they are without a mask.

    `mask` (B, A) is true for legal actions, of which each row must have one. Softmax, entropy, draws and argmax of the
    result are those over the legal actions alone.
    """
    return values if mask is None else values.masked_fill(~mask, ILLEGAL)


def largest_entropy(mask: torch.Tensor) -> torch.Tensor:
    """Entropy (B,) in nats of an even choice among the legal actions of a mask (B, A); 0 where there is but one."""
    return mask.sum(dim=-1).clamp(min=1).to(torch.float32).log()


def support(num_atoms: int, v_max: float, device: torch.device) -> torch.Tensor:
    """Atoms of the return distribution (N,), evenly spaced on [-v_max, v_max]; a scalar Q's only atom is 1."""
    if num_atoms == 1:
        return torch.ones(1, dtype=torch.float32, device=device)
    return torch.linspace(-v_max, v_max, num_atoms, dtype=torch.float32, device=device)


def expected_value(logits: torch.Tensor, atoms: torch.Tensor) -> torch.Tensor:
    """Q (..., A) from atom logits (..., A, N): the mean of the distribution, or the scalar itself if N = 1."""
    return logits.squeeze(-1) if atoms.numel() == 1 else F.softmax(logits, dim=-1) @ atoms


def select(values: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Entries (B, ...) of values (B, A, ...) at actions (B,)."""
    return values[torch.arange(values.shape[0], device=values.device), action]


def draw_action(logits: torch.Tensor, gumbel: torch.Tensor) -> torch.Tensor:
    """Actions (B,) from a categorical with logits (B, A), given standard Gumbel noise (B, A).

    argmax(logits + noise) is an exact draw; zero noise makes it the most likely action.
    """
    return (logits + gumbel).argmax(dim=-1)


# --- the target of the n-step return: Eq. 7, Eq. 12 ---------------------------------------------------------


def backup_sampled(values: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Bootstrap (B, N) at one action drawn from the policy: the sampled form of Eq. 7. Values (B, A, N)."""
    return select(values, action)


def backup_expected(values: torch.Tensor, policy_logits: torch.Tensor) -> torch.Tensor:
    """Bootstrap (B, N) averaged over the policy: Eq. 7 with its expectation over actions taken exactly."""
    policy = F.softmax(policy_logits, dim=-1)  # (B, A)
    return torch.einsum("ba,ban->bn", policy, values)


def backup_greedy(values: torch.Tensor, q_chooser: torch.Tensor) -> torch.Tensor:
    """Bootstrap (B, N) at argmax_a q_chooser (B, A): Eq. 12, double Q-learning if another network chooses."""
    return select(values, q_chooser.argmax(dim=-1))


def project_c51(atoms_from: torch.Tensor, probs: torch.Tensor, atoms_to: torch.Tensor) -> torch.Tensor:
    """Project distributions with probabilities (B, N) at atoms_from (B, N) onto evenly spaced atoms_to (N,).

    The distributional form of Eq. 7 (C51): mass outside the support moves to its ends, mass between two atoms
    is shared in proportion to nearness.
    """
    spacing = atoms_to[1] - atoms_to[0]
    positions = (atoms_from.clamp(atoms_to[0], atoms_to[-1]) - atoms_to[0]) / spacing  # (B, N), in atoms
    numbers = torch.arange(len(atoms_to), dtype=positions.dtype, device=positions.device)
    share = (1.0 - (positions[:, :, None] - numbers).abs()).clamp(min=0.0)  # (B, N from, N to)
    return torch.bmm(probs[:, None, :], share).squeeze(1)


def target_distribution(
    bootstrap: torch.Tensor,
    return_n: torch.Tensor,
    discount_n: torch.Tensor,
    done: torch.Tensor,
    atoms: torch.Tensor,
) -> torch.Tensor:
    """Target of Eq. 12 as a distribution (B, N): bootstrap probabilities (B, N), shifted and projected.

    `return_n`, `discount_n` (B,) float and `done` (B,) bool are the n-step return, gamma^n and its end.
    """
    scale = discount_n * (~done).to(discount_n.dtype)  # (B,)
    return project_c51(return_n[:, None] + scale[:, None] * atoms[None, :], bootstrap, atoms)


def target_value(
    bootstrap: torch.Tensor, return_n: torch.Tensor, discount_n: torch.Tensor, done: torch.Tensor
) -> torch.Tensor:
    """Target of Eq. 12 for a scalar Q (B,), from the bootstrap value (B,)."""
    return return_n + discount_n * (~done).to(discount_n.dtype) * bootstrap


# --- losses -------------------------------------------------------------------------------------------------


def td_loss(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """TD loss (B,): cross-entropy with logits (B, N) where the target is a distribution, else Huber with Q (B, 1)."""
    return td_cross_entropy(prediction, target) if target.dim() == 2 else td_huber(prediction.squeeze(1), target)


def td_cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """TD loss (B,) of the distributional Eq. 12: cross-entropy of target (B, N) with logits (B, N)."""
    return -(target * F.log_softmax(logits, dim=-1)).sum(dim=-1)


def td_huber(q: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """TD loss (B,) of Eq. 12 for a scalar Q (B,): Huber loss with threshold 1."""
    return F.huber_loss(q, target, reduction="none", delta=1.0)


def spr_loss(prediction: torch.Tensor, target: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Self-predictive loss (B,), Eq. 13 in its squared form: mean over steps and branches of 2 - 2 cos.

    Predictions and targets are (V, k, B, D), the mask (k, B); masked steps count as zero and the mean still
    divides by k. The paper writes minus the cosine; the weight of 5 belongs to the squared form. Targets get no
    gradient.
    """
    cosine = F.cosine_similarity(prediction, target, dim=-1)  # (V, k, B)
    return (mask * (2.0 - 2.0 * cosine)).mean(dim=(0, 1))


def policy_gradient_sampled(
    policy_logits: torch.Tensor, q: torch.Tensor, action: torch.Tensor, variance_reduction: bool = True
) -> torch.Tensor:
    """Surrogate loss (B,) whose gradient is minus Eq. 10, or minus Eq. 9 without variance reduction.

    `action` (B,) is drawn from the policy with logits (B, A); q (B, A) gets no gradient.
    """
    log_policy = F.log_softmax(policy_logits, dim=-1)
    q = q.detach()
    advantage = select(q, action)
    if variance_reduction:
        advantage = advantage - (log_policy.detach().exp() * q).sum(dim=-1)
    return -advantage * select(log_policy, action)


def policy_gradient_expected(policy_logits: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Surrogate loss (B,), minus the objective of Eq. 8: -sum_a pi(a|s) Q(s, a), exact over actions."""
    return -(F.softmax(policy_logits, dim=-1) * q.detach()).sum(dim=-1)


def entropy(policy_logits: torch.Tensor) -> torch.Tensor:
    """Entropy (B,) in nats of the policy with logits (B, A): the bonus of Eq. 11, to be weighed by -beta."""
    log_policy = F.log_softmax(policy_logits, dim=-1)
    return -(log_policy.exp() * log_policy).sum(dim=-1)
