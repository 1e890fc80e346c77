"""From states to actions: what a network, chance or a fixed mix would do. No learning."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from sacbbf.learner.augment import to_float
from sacbbf.learner.losses import expected_value, support
from sacbbf.learner.noise import Noise
from sacbbf.networks import Network, TwinNetwork
from sacbbf.networks.modes import evaluating
from sacbbf.types import Frame

Logits = npt.NDArray[np.float32]


class Policy(Protocol):
    """Anything that rates actions in states."""

    def logits(self, states: Frame) -> Logits:
        """Logits (N, A) of the actions in stored-dtype states (N, stack * C, ...)."""
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

        Without a policy branch, or if `by_critic`, all the probability is on the action with the largest Q.
        """
        self.network = network
        self.by_critic = by_critic or network.policy_head is None
        self.device = device
        self.rows = rows
        self.noise = noise

    @torch.inference_mode()
    def logits(self, states: Frame) -> Logits:
        """Logits (N, A), from the encoder and one branch alone."""
        self.network.set_noise(None if self.noise is None else self.network.draw_noise(self.noise.normal))
        with evaluating(self.network):
            starts = range(0, len(states), self.rows)
            return np.concatenate([self._padded_logits(states[start : start + self.rows]) for start in starts])

    def _padded_logits(self, states: Frame) -> Logits:
        """Logits (N, A) of at most `rows` states, computed as `rows` of them."""
        padded = np.zeros((self.rows, *states.shape[1:]), states.dtype)
        padded[: len(states)] = states
        obs = to_float(torch.from_numpy(padded).to(self.device))
        if self.by_critic:
            q_values = rate(self.network, obs)
            logits = torch.where(q_values == q_values.amax(1, keepdim=True), 0.0, -torch.inf)
        else:
            logits = act(self.network, obs)
        found: Logits = logits[: len(states)].float().cpu().numpy()
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
    """The same action probabilities in every state: chance, a constant action, or a blind mix."""

    def __init__(self, probabilities: npt.ArrayLike) -> None:
        self.probabilities = np.asarray(probabilities, np.float64)
        with np.errstate(divide="ignore"):
            self._logits: npt.NDArray[Any] = np.log(self.probabilities).astype(np.float32)

    def logits(self, states: Frame) -> Logits:
        """Log-probabilities (N, A), the same in every row."""
        return np.broadcast_to(self._logits, (len(states), len(self._logits)))


def uniform_policy(num_actions: int) -> FixedPolicy:
    """Chance: every action is equally likely."""
    return FixedPolicy(np.full(num_actions, 1.0 / num_actions))


def choose(logits: Logits, generator: np.random.Generator, greedy: bool = False, epsilon: float = 0.0) -> int:
    """Draw an action from logits (A,), or take the most likely one; with probability `epsilon` any one."""
    if epsilon > 0.0 and generator.random() < epsilon:
        return int(generator.integers(len(logits)))
    if greedy:
        return int(np.argmax(logits))
    return int(np.argmax(logits + generator.gumbel(size=logits.shape)))
