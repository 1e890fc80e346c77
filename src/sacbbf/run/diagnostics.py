"""What this line of research looks at beside the score: units, ranks, values and priorities. Changes nothing.

Everything is measured on stored states that are drawn with a generator of its own, so that training is the same with
and without it.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from sacbbf.learner.augment import to_float
from sacbbf.learner.learner import Learner
from sacbbf.learner.losses import entropy, expected_value, mask_illegal
from sacbbf.networks import Network, TwinNetwork
from sacbbf.networks.layers import to_rows
from sacbbf.networks.modes import evaluating
from sacbbf.replay import Replay
from sacbbf.seeding import numpy_generator
from sacbbf.types import BoolArray, FloatArray, IntArray

STATES = 256  # that networks are measured on
RECENT = 5_000  # steps whose returns are computed
DORMANT = 0.025  # share of its layer's mean activity below which a unit counts as dormant (Sokar et al. 2023)
RANK_DELTA = 0.01  # share of the singular values' sum that the effective rank leaves out (Kumar et al. 2021)


def diagnose(learner: Learner, replay: Replay, seed: int, step: int) -> dict[str, float]:
    """Return all diagnostics of a learner and its replay at a step, by name."""
    rng = numpy_generator(seed, "diagnostics", step)
    steps = rng.choice(np.arange(replay.oldest, replay.steps_added), min(STATES, len(replay)), replace=False)
    found = {**network_metrics(learner, replay, steps), **priority_metrics(replay)}
    known, returns = known_returns(replay, learner.gamma)
    if known.size > 1:
        chosen = rng.choice(known.size, min(STATES, known.size), replace=False)
        found |= value_metrics(learner, replay, known[chosen], returns[chosen])
    return found


# --- units, rank, entropy ---


def network_metrics(learner: Learner, replay: Replay, steps: IntArray) -> dict[str, float]:
    """Return dormant units and effective rank of the Q branch, and the policy's entropy, over states at `steps`."""
    layers, _, policy_logits = activity(learner, replay, steps)
    found = {f"dormant_{name}": dormant_share(units) for name, units in layers.items()}
    found["effective_rank"] = float(effective_rank(layers["hidden"]))
    if policy_logits is not None:
        spread = entropy(policy_logits)
        found |= {"entropy_mean": float(spread.mean()), "entropy_min": float(spread.min())}
    return found


@torch.no_grad()
def activity(
    learner: Learner, replay: Replay, steps: IntArray
) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor | None]:
    """Return units (N, D) by layer, Q (N, A) and policy logits (N, A) of the online network at stored states.

    Q is in learning rewards.
    """
    inputs = to_float(replay.states(steps))
    network = learner.online
    network.set_noise(None)
    with evaluating(network):
        latent = network.encode(inputs)
        policy_logits = policy_of(network, latent)
        if policy_logits is not None:
            policy_logits = mask_illegal(policy_logits, replay.masks(steps))
        if isinstance(network, TwinNetwork):  # of the two critics, which have encoders of their own, the first is shown
            first, second = network.critics
            latent = first.encoder(inputs)  # type: ignore[operator]
            hidden = F.relu(first.projection(to_rows(latent)))  # type: ignore[operator]
            q = torch.minimum(first.head(hidden), second(inputs))  # type: ignore[operator]
        else:
            features = network.q_features(latent)
            hidden, q = F.relu(features), expected_value(network.q_logits(features), learner.atoms)
    q = q * network.unit
    return {"encoder": per_channel(latent), "hidden": hidden}, q, policy_logits


def policy_of(network: Network, latent: torch.Tensor) -> torch.Tensor | None:
    """Return policy logits (N, A) from latents (N, ...), if the network has a policy."""
    if not isinstance(network, TwinNetwork) and network.policy_head is None:
        return None
    return network.policy_logits(network.policy_features(latent))


def per_channel(latent: torch.Tensor) -> torch.Tensor:
    """Return activities (N, C) of a convolution's channels, averaged over the image; vectors (N, D) as they are."""
    return latent.abs().mean(dim=(2, 3)) if latent.dim() == 4 else latent


def dormant_share(units: torch.Tensor) -> float:
    """Share of units (N, D) whose mean activity is at most DORMANT times the mean of their layer."""
    mean = units.abs().mean(dim=0)
    return float((mean <= DORMANT * mean.mean()).float().mean())


def effective_rank(features: torch.Tensor) -> int:
    """Singular values of features (N, D) that make up all but RANK_DELTA of their sum."""
    values = torch.linalg.svdvals(features.float().cpu())
    total = values.sum()
    if total == 0:
        return 0
    return int((values.cumsum(0) / total < 1.0 - RANK_DELTA).sum()) + 1


# --- values ---


def known_returns(replay: Replay, gamma: float) -> tuple[IntArray, FloatArray]:
    """Return recent steps of episodes that came to their end, and the discounted returns that followed them.

    A lost life is an end, as it is for learning; what was cut off, or is still going on, has no known return.
    """
    steps = np.arange(max(replay.oldest, replay.steps_added - RECENT), replay.steps_added)
    ends = replay.ring.ends(steps)
    rewards = replay.ring.rewards[replay.ring.slots(steps)].astype(np.float64)
    returns = np.full(len(steps), np.nan)
    following = np.nan
    for index in range(len(steps) - 1, -1, -1):
        if ends.over[index]:
            following = 0.0 if ends.terminal[index] else np.nan
        following = rewards[index] + gamma * following
        returns[index] = following
    known: BoolArray = ~np.isnan(returns)
    return steps[known], returns[known]


def value_metrics(learner: Learner, replay: Replay, steps: IntArray, returns: FloatArray) -> dict[str, float]:
    """Return how Q of the actions taken compares with the returns that followed: bias, error, correlation."""
    _, q, _ = activity(learner, replay, steps)
    actions = torch.from_numpy(replay.ring.actions[replay.ring.slots(steps)].astype(np.int64)).to(q.device)
    values = q.gather(1, actions[:, None]).squeeze(1).double().cpu().numpy()
    spread = values.std() * returns.std()
    correlation = float(((values - values.mean()) * (returns - returns.mean())).mean() / spread) if spread > 0 else 0.0
    return {
        "q_mean": float(values.mean()),
        "return_mean": float(returns.mean()),
        "q_bias": float((values - returns).mean()),
        "q_error": float(np.sqrt(((values - returns) ** 2).mean())),
        "q_correlation": correlation,
    }


# --- priorities ---


def priority_metrics(replay: Replay) -> dict[str, float]:
    """Return quantiles of the stored priorities, and the share of steps that sampling by them amounts to."""
    if replay.tree is None:
        return {}
    steps = np.arange(replay.oldest, replay.steps_added)
    priorities = replay.priorities(steps)
    quantiles = np.quantile(priorities, [0.0, 0.1, 0.5, 0.9, 1.0])
    found = dict(zip(("min", "p10", "median", "p90", "max"), map(float, quantiles), strict=True))
    squares = float((priorities**2).sum())
    effective = float(priorities.sum() ** 2 / squares / len(priorities)) if squares > 0 else 0.0
    return {f"priority_{name}": value for name, value in found.items()} | {"priority_effective_share": effective}
