"""From states to actions: what a network, chance or a fixed mix would do. No learning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from sacbbf.envs.base import check_mask
from sacbbf.errors import UsageError
from sacbbf.learner.augment import to_float
from sacbbf.learner.losses import expected_value, support
from sacbbf.learner.noise import Noise
from sacbbf.networks import Network, TwinNetwork
from sacbbf.networks.modes import evaluating
from sacbbf.types import BoolArray, Frame, IntArray

Logits = npt.NDArray[np.float32]


class Policy(Protocol):
    """Anything that rates actions in states."""

    def logits(self, states: Frame, masks: BoolArray | None = None) -> Logits:
        """Logits (N, A) of the actions in stored-dtype states (N, stack * C, ...).

        Where masks (N, A) tell the legal actions, those of all others are minus infinity.
        """
        ...


class NetworkPolicy:
    """A network's policy branch, or its critic's best action, always run on batches of `rows` states.

    The size of a batch changes float results in their last bits. A fixed one, padded where there are fewer
    states, makes an episode the same however many others are played beside it.
    """

    def __init__(
        self,
        network: Network,
        device: torch.device,
        rows: int = 1,
        noise: Noise | None = None,
        *,
        by_critic: bool = False,
    ) -> None:
        """Act by a network; noisy layers draw from `noise` for each call, or are quiet without it.

        Without a policy branch, or if `by_critic`, all the probability is on the legal action with the largest Q.
        """
        self.network = network
        self.by_critic = by_critic or network.policy_head is None
        self.device = device
        self.rows = rows
        self.noise = noise

    @torch.inference_mode()
    def logits(self, states: Frame, masks: BoolArray | None = None) -> Logits:
        """Logits (N, A), from the encoder and one branch alone; of illegal actions minus infinity."""
        self.network.set_noise(None if self.noise is None else self.network.draw_noise(self.noise.normal))
        with evaluating(self.network):
            parts = [slice(start, start + self.rows) for start in range(0, len(states), self.rows)]
            return np.concatenate(
                [self._padded_logits(states[part], None if masks is None else masks[part]) for part in parts]
            )

    def _padded_logits(self, states: Frame, masks: BoolArray | None) -> Logits:
        """Logits (N, A) of at most `rows` states, computed as `rows` of them."""
        padded = np.zeros((self.rows, *states.shape[1:]), states.dtype)
        padded[: len(states)] = states
        obs = to_float(torch.from_numpy(padded).to(self.device))
        rated = (rate if self.by_critic else act)(self.network, obs)[: len(states)]  # (N, A)
        if masks is not None:
            rated = rated.masked_fill(~torch.from_numpy(masks).to(self.device), -torch.inf)
        if self.by_critic:
            rated = torch.where(rated == rated.amax(1, keepdim=True), 0.0, -torch.inf)
        found: Logits = rated.float().cpu().numpy()
        return found


def act(network: Network, obs: torch.Tensor) -> torch.Tensor:
    """What acting needs of a network, from inputs (N, ...): policy logits (N, A), or Q up to scale without a policy."""
    if network.policy_head is None:
        return rate(network, obs)
    return network.policy_logits(network.policy_features(network.encode(obs)))


def rate(network: Network, obs: torch.Tensor) -> torch.Tensor:
    """Q (N, A) up to scale, from inputs (N, ...); of two critics, the smaller."""
    if isinstance(network, TwinNetwork):
        return network.q_values(obs).amin(0)
    atoms = support(network.num_atoms, 1.0, obs.device)
    return expected_value(network.q_logits(network.q_features(network.encode(obs))), atoms)


class FixedPolicy:
    """The same action probabilities in every state: chance, a constant action, or a blind mix.

    Of illegal actions they are zero, the others' in proportion; where nothing is left, all legal actions are as likely.
    """

    def __init__(self, probabilities: npt.ArrayLike) -> None:
        self.probabilities = np.asarray(probabilities, np.float64)
        with np.errstate(divide="ignore"):
            self._logits: npt.NDArray[Any] = np.log(self.probabilities).astype(np.float32)

    def logits(self, states: Frame, masks: BoolArray | None = None) -> Logits:
        """Log-probabilities (N, A) up to a constant, the same in every row but for illegal actions."""
        rows: Logits = np.broadcast_to(self._logits, (len(states), len(self._logits)))
        if masks is None:
            return rows
        nothing_left = np.isneginf(rows).all(axis=1, where=masks, keepdims=True)
        found: Logits = np.where(masks, np.where(nothing_left, np.float32(0.0), rows), np.float32(-np.inf))
        return found


def uniform_policy(num_actions: int) -> FixedPolicy:
    """Chance: every action is equally likely."""
    return FixedPolicy(np.full(num_actions, 1.0 / num_actions))


def choose(
    logits: Logits,
    generator: np.random.Generator,
    greedy: bool = False,
    epsilon: float = 0.0,
    mask: BoolArray | None = None,
) -> int:
    """Draw an action from logits (A,), or take the most likely one; with probability `epsilon` any legal one.

    `mask` (A,) are the legal actions; the logits of others are minus infinity already.
    """
    if epsilon > 0.0 and generator.random() < epsilon:
        return any_action(len(logits), generator, mask)
    if greedy:
        return int(np.argmax(logits))
    return int(np.argmax(logits + generator.gumbel(size=logits.shape)))


def choose_each(
    logits: Logits, generator: np.random.Generator, greedy: bool, epsilon: float, masks: BoolArray | None
) -> IntArray:
    """Actions (N,) by `choose`, one for each row of logits (N, A)."""
    legal: Iterable[BoolArray | None] = [None] * len(logits) if masks is None else masks
    rows = zip(logits, legal, strict=True)
    return np.array([choose(row, generator, greedy, epsilon, mask) for row, mask in rows], np.int64)


def any_action(num_actions: int, generator: np.random.Generator, mask: BoolArray | None = None) -> int:
    """Draw an action, each legal one as likely as the others."""
    if mask is None:
        return int(generator.integers(num_actions))
    legal = np.flatnonzero(mask)
    return int(legal[generator.integers(len(legal))])


def masks_for(states: int, num_actions: int, given: npt.ArrayLike | None, wanted: bool) -> BoolArray | None:
    """Masks (N, A) from what a caller gave for N states, (A,) if it is one; UsageError if they are wanted and lacking.

    `wanted`: whether the environment has illegal actions. Masks are heeded where it has none, too.
    """
    if given is None:
        if wanted:
            raise UsageError(
                "action_masks is not given: this agent's environment has illegal actions; give the legal ones of each "
                'state, which come with it as info["action_mask"] or by the environment\'s action_masks()'
            )
        return None
    shape = (num_actions,) if states == 1 and np.ndim(given) == 1 else (states, num_actions)
    return check_mask(given, shape, "action_masks").reshape(states, num_actions)
