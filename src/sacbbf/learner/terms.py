"""What an update computed: every term per sample, for auxiliary losses, metrics and checks against other code."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch


@dataclass(frozen=True)
class Terms:
    """Everything that one update computed, per sample. An auxiliary loss sees it with gradients."""

    obs: torch.Tensor  # (B, ...) s_t as the networks see it
    latent: torch.Tensor  # (B, D) of s_t; a map's in the order height, width, channel
    q_logits: torch.Tensor  # (B, A, N) at s_t
    q_values: torch.Tensor  # (B, A) at s_t, never with a gradient
    policy_logits: torch.Tensor | None  # (B, A) at s_t
    next_policy_logits: torch.Tensor | None  # (B, A) at s_{t+n}
    next_action: torch.Tensor | None  # (B,) where the backup samples one
    policy_action: torch.Tensor | None  # (B,) where the policy gradient samples one
    target: torch.Tensor  # (B, N) distribution, or (B,) value
    spr_prediction: torch.Tensor | None  # (V, k, B, H)
    spr_target: torch.Tensor | None  # (V, k, B, H)
    td: torch.Tensor  # (B,)
    spr: torch.Tensor  # (B,)
    policy: torch.Tensor  # (B,) policy gradient minus beta * entropy
    entropy: torch.Tensor  # (B,)
    auxiliary: torch.Tensor  # (B,) zeros without an auxiliary loss
    weights: torch.Tensor  # (B,) importance weights
    total: torch.Tensor  # () weighted mean, what is minimised; an auxiliary loss, which is part of it, sees 0
    temperature: torch.Tensor | None = None  # () of SAC-Discrete
    mask: torch.Tensor | None = None  # (B, A) the legal actions at s_t; policy logits of others are losses.ILLEGAL

    def with_auxiliary(self, loss: torch.Tensor) -> Terms:
        """Return these terms with an auxiliary loss, which must have one value per sample."""
        if loss.shape != self.td.shape:
            raise ValueError(f"the auxiliary loss has shape {tuple(loss.shape)}, must be {tuple(self.td.shape)}")
        return replace(self, auxiliary=loss)

    def detached(self, total: torch.Tensor) -> Terms:
        """Return these terms and their total without gradients."""
        values = {name: value for name, value in vars(self).items() if value is not None} | {"total": total}
        return replace(self, **{name: value.detach() for name, value in values.items()})


@dataclass(frozen=True, slots=True)
class Update:
    """The outcome of one update; its numbers stay on the device until somebody asks for them."""

    terms: Terms
    beta: float | torch.Tensor  # () where it is learned
    grad_norm: torch.Tensor | None  # () where it was asked for
    auxiliary: bool = False  # whether there is an auxiliary loss

    def metrics(self, unit: float = 1.0) -> dict[str, float]:
        """Return losses, entropy, Q and gradient norm as plain numbers. Waits for the device.

        `unit` is what one of Q's is in learning rewards.
        """
        terms = self.terms
        q_values = terms.q_values if terms.mask is None else terms.q_values[terms.mask]  # of legal actions
        values = {
            "loss/total": terms.total,
            "loss/td": terms.td.mean(),
            "loss/spr": terms.spr.mean(),
            "q/mean": q_values.mean() * unit,
            "q/max": q_values.max() * unit,
        }
        if terms.policy_logits is not None:
            values["loss/policy"] = terms.policy.mean()
            values["policy/entropy"] = terms.entropy.mean()
            values["policy/entropy_min"] = terms.entropy.min()
        if self.auxiliary:
            values["loss/auxiliary"] = terms.auxiliary.mean()
        if terms.temperature is not None:
            values["policy/temperature"] = terms.temperature
        if self.grad_norm is not None:
            values["grad_norm"] = self.grad_norm
        return {name: float(value) for name, value in values.items()} | {"schedule/beta": float(self.beta)}
