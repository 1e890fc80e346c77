"""The learner: one update of the networks from a batch, and what belongs to it: optimiser, target, resets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from numpy.random import Generator

from sacbbf.behaviour import BEHAVIOURS
from sacbbf.config import AgentConfig
from sacbbf.errors import RunFailed
from sacbbf.learner import losses, sac_discrete, schedules
from sacbbf.learner.augment import augment, to_float
from sacbbf.learner.batches import check_batch, split
from sacbbf.learner.noise import Noise
from sacbbf.learner.optimiser import make_optimiser, move_towards
from sacbbf.learner.passes import next_policy_logits, next_q_logits, online_pass, target_pass
from sacbbf.learner.resets import reset_network
from sacbbf.learner.terms import Terms, Update
from sacbbf.networks import AgentNetwork, Network, TwinNetwork, build_network, compile_network
from sacbbf.replay import Replay
from sacbbf.rules import check_agent
from sacbbf.seeding import torch_generator
from sacbbf.types import Batch, FloatArray, IntArray

Timer = Callable[[str], AbstractContextManager[object]]  # entered around each part of an update, by its name
_NO_TIMER = nullcontext()


def untimed(part: str) -> AbstractContextManager[object]:
    """Measure nothing."""
    return _NO_TIMER


class Learner:
    """Online and target network, optimiser and schedules of one agent."""

    def __init__(
        self,
        config: AgentConfig,
        obs_shape: Sequence[int],
        num_actions: int,
        *,
        total_steps: int = schedules.REFERENCE_STEPS,
        seed: int = 0,
        device: torch.device | str = "cpu",
        noise: Noise | None = None,
        timer: Timer = untimed,
    ) -> None:
        check_agent(config)
        self.config = config
        self.obs_shape = tuple(obs_shape)
        self.num_actions = num_actions
        self.total_steps = total_steps
        self.device = torch.device(device)
        self.behaviour = BEHAVIOURS[config.behaviour]
        self.timer = timer
        self.spr_steps = config.loss.spr_steps if config.loss.spr_weight > 0 else 0
        self.init_generator = torch_generator(seed, "networks", device=self.device)
        self.noise = noise or Noise(torch_generator(seed, "learner", device=self.device))
        compute = config.compute
        self.autocast: AbstractContextManager[object] = nullcontext()
        if compute.precision == "bf16":
            self.autocast = torch.autocast(self.device.type, torch.bfloat16)
        self.online = self._fresh_network()
        self.target = self._fresh_network()
        self.target.load_state_dict(self.online.state_dict())
        self.target.requires_grad_(False)
        self.optimiser = make_optimiser(config.optimiser, self.online)
        if compute.compile:
            compile_network(self.online)
            compile_network(self.target)
        network = config.network
        self.atoms = losses.support(network.num_atoms, network.v_max, self.device)
        self.reset_steps = frozenset(schedules.reset_steps(config.schedule, total_steps, self.behaviour))
        self.updates = 0
        self.updates_since_reset = 0

    # --- schedules ---

    @property
    def actor(self) -> Network:
        """The network that acts."""
        return self.target if self.config.acting.network == "target" else self.online

    @property
    def n(self) -> int:
        """Steps of the n-step return at the next update."""
        return schedules.n_step(self.config.schedule, self.updates_since_reset)

    @property
    def gamma(self) -> float:
        """Discount at the next update."""
        return schedules.discount(self.config.schedule, self.updates_since_reset)

    def beta(self, step: int) -> float:
        """Weight of the entropy bonus at an environment step."""
        return schedules.entropy_weight(self.config.schedule, step, self.total_steps)

    # --- learning ---

    def learn(self, replay: Replay, step: int, generator: Generator, measure: bool = False) -> dict[str, float]:
        """Do the updates due at one environment step: sample, update, write priorities.

        Returns the last update's metrics if `measure`, else an empty dict.
        """
        size = self.config.replay.batch_size
        ratio = self.config.schedule.replay_ratio
        group = math.gcd(self.behaviour.batches_per_group, ratio)
        metrics: dict[str, float] = {}
        for number in range(ratio // group):
            n, gamma = self.n, self.gamma
            with self.timer("sampling"):
                drawn = replay.sample(size * group, n, gamma, generator)
            last = number == ratio // group - 1
            updates = [self.update(batch, self.beta(step), measure and last) for batch in split(drawn, group)]
            with self.timer("priorities"):
                priorities = self._write_priorities(replay, drawn.indices, updates)
            if measure and last:
                metrics = updates[-1].metrics() | {
                    "replay/priority": float(priorities.mean()),
                    "schedule/n": float(n),
                    "schedule/gamma": gamma,
                }
        return metrics

    def update(self, batch: Batch, beta: float, measure: bool = True) -> Update:
        """One gradient step on a batch; `measure` adds the gradient norm. Section by section as in the paper."""
        check_batch(batch, self.obs_shape, self.spr_steps)
        self.optimiser.zero_grad(set_to_none=True)
        total, terms = self.compute(batch, beta)
        with self.timer("backward"):
            total.backward()  # type: ignore[no-untyped-call]
        grad_norm = self._grad_norm() if measure else None
        with self.timer("optimiser"):
            self.optimiser.step()
        with self.timer("EMA"):
            self._update_target()
        self.updates += 1
        self.updates_since_reset += 1
        return Update(terms, beta, grad_norm)

    def compute(self, batch: Batch, beta: float) -> tuple[torch.Tensor, Terms]:
        """Return the loss to minimise, with its graph, and everything it was made of, without."""
        if isinstance(self.online, TwinNetwork):
            assert isinstance(self.target, TwinNetwork)
            return self._compute_twin(self.online, self.target, batch)
        assert isinstance(self.target, AgentNetwork)
        size = batch.return_n.shape[0]
        row = self._bootstrap_row(batch)
        with self.timer("augmentation"):
            used = batch.states[: max(row, self.spr_steps) + 1]
            states = self.prepare(used)  # (rows * B, ...)
        self._draw_noise(self.target, self.online)
        with self.timer("target passes"), self.autocast:
            target = target_pass(self.target, states[size:], size, self.spr_steps, row - 1)
            state_n = states[row * size : (row + 1) * size]
            bootstrap, next_logits, next_action = self._bootstrap(self.online, target.q_logits, state_n)
        self._draw_noise(self.online)
        with self.timer("forward"), self.autocast:
            online = online_pass(self.online, states[:size], batch.actions[: self.spr_steps])
        goal = self._goal(bootstrap, batch)
        taken = losses.select(online.q_logits, batch.actions[0])  # (B, N)
        distributional = self.atoms.numel() > 1
        td = losses.td_cross_entropy(taken, goal) if distributional else losses.td_huber(taken.squeeze(1), goal)
        q_values = losses.expected_value(online.q_logits.detach(), self.atoms)
        spr = torch.zeros_like(td)
        if online.prediction is not None and target.projection is not None:
            spr = losses.spr_loss(online.prediction, target.projection, batch.same_episode)
        policy, entropy, policy_action = self._policy_loss(online.policy_logits, q_values, beta)
        total = (batch.weights * (td + self.config.loss.spr_weight * spr + policy)).mean()
        terms = Terms(
            latent=online.latent.detach(),
            q_logits=online.q_logits.detach(),
            q_values=q_values,
            policy_logits=None if online.policy_logits is None else online.policy_logits.detach(),
            next_policy_logits=next_logits,
            next_action=next_action,
            policy_action=policy_action,
            target=goal,
            spr_prediction=None if online.prediction is None else online.prediction.detach(),
            spr_target=target.projection,
            td=td.detach(),
            spr=spr.detach(),
            policy=policy.detach(),
            entropy=entropy.detach(),
            weights=batch.weights,
            total=total.detach(),
        )
        return total, terms

    def _compute_twin(self, online: TwinNetwork, target: TwinNetwork, batch: Batch) -> tuple[torch.Tensor, Terms]:
        with self.timer("augmentation"):
            states = self.prepare(batch.states)  # (2 * B, ...): no future states without self-prediction
        with self.timer("forward"), self.autocast:
            return sac_discrete.compute(online, target, states, batch, self.config.loss.target_entropy)

    def reset(self) -> None:
        """Reset both networks, each with its own fresh draw, and start optimiser and schedules afresh."""
        for network in (self.online, self.target):
            reset_network(network, self._fresh_network(), self.config.schedule.shrink)
        self.optimiser = make_optimiser(self.config.optimiser, self.online)
        self.updates_since_reset = 0

    def prepare(self, states: torch.Tensor) -> torch.Tensor:
        """Network inputs ((k + 2) * B, ...) from a batch's stored states (k + 2, B, ...)."""
        flat = states.flatten(0, 1)
        if self.config.loss.augment and flat.dim() == 4:
            return augment(flat, self.noise, self.behaviour.crop_extra)
        return to_float(flat)

    # --- parts of an update ---

    def _draw_noise(self, *networks: AgentNetwork) -> None:
        if self.config.network.noisy:
            for network in networks:
                network.draw_noise(self.noise.normal)

    def _bootstrap_row(self, batch: Batch) -> int:
        """Row of the batch's states that holds the bootstrap state: its own, or that of the same step for SPR.

        Without augmentation both are the same picture.
        """
        shared = self.config.compute.share_bootstrap or not self.config.loss.augment
        if shared and 1 <= batch.bootstrap_step <= self.spr_steps:
            return batch.bootstrap_step
        return self.spr_steps + 1

    def _bootstrap(
        self, online: AgentNetwork, target_logits: torch.Tensor, state_n: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """Bootstrap (B, N) at s_{t+n}, with the policy's logits and the action drawn, where there are any."""
        distributional = self.atoms.numel() > 1
        values = torch.softmax(target_logits, dim=-1) if distributional else target_logits  # (B, A, N)
        if self.config.loss.backup == "greedy":
            chooser = next_q_logits(online, state_n) if self.config.loss.double else target_logits
            q_chooser = losses.expected_value(chooser, self.atoms)
            return losses.backup_greedy(values, q_chooser), None, None
        logits = next_policy_logits(online, state_n)
        if self.config.loss.backup == "expected":
            return losses.backup_expected(values, logits), logits, None
        action = losses.draw_action(logits, self.noise.gumbel(logits.shape))
        return losses.backup_sampled(values, action), logits, action

    def _goal(self, bootstrap: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Target of the TD loss: (B, N), or (B,) for a scalar Q."""
        if self.atoms.numel() > 1:
            return losses.target_distribution(bootstrap, batch.return_n, batch.discount_n, batch.done, self.atoms)
        return losses.target_value(bootstrap.squeeze(1), batch.return_n, batch.discount_n, batch.done)

    def _policy_loss(
        self, logits: torch.Tensor | None, q_values: torch.Tensor, beta: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Policy loss and entropy, (B,) each, and the sampled action; zeros for an agent without a policy."""
        if logits is None:
            zeros = torch.zeros_like(q_values[:, 0])
            return zeros, zeros, None
        entropy = losses.entropy(logits)
        if self.config.loss.policy_gradient == "expected":
            return losses.policy_gradient_expected(logits, q_values) - beta * entropy, entropy, None
        action = losses.draw_action(logits.detach(), self.noise.gumbel(logits.shape))
        gradient = losses.policy_gradient_sampled(logits, q_values, action, self.config.loss.variance_reduction)
        return gradient - beta * entropy, entropy, action

    def _write_priorities(self, replay: Replay, indices: IntArray, updates: list[Update]) -> FloatArray:
        """Write sqrt(TD loss) back: to every index, or (released) each batch's mean to the group's first ones."""
        td = torch.stack([update.terms.td for update in updates])  # (group, B)
        if not self.behaviour.priority_per_sample:
            td = td.mean(dim=1)
            indices = indices[: len(updates)]
        priorities: FloatArray = torch.sqrt(td.flatten() + 1e-10).cpu().double().numpy()
        if not np.isfinite(priorities).all():
            raise RunFailed(
                f"the TD loss became {td.flatten()[~torch.isfinite(td.flatten())][0].item()} at update {self.updates}: "
                f"training diverged; lower optimiser.learning_rate (it is {self.config.optimiser.learning_rate:g})"
            )
        replay.set_priorities(indices, priorities)
        return priorities

    def _update_target(self) -> None:
        if (self.updates + 1) % self.config.optimiser.target_every == 0:
            move_towards(self.target, self.online, self.config.optimiser.tau)

    @torch.no_grad()
    def _grad_norm(self) -> torch.Tensor:
        grads = [parameter.grad for parameter in self.online.parameters() if parameter.grad is not None]
        norm: torch.Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
        return norm

    def _fresh_network(self) -> Network:
        return build_network(
            self.config.network,
            self.obs_shape,
            self.num_actions,
            self_prediction=self.spr_steps > 0,
            device=self.device,
            generator=self.init_generator,
        )
