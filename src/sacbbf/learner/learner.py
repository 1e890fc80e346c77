"""The learner: one update of the networks from a batch, and what belongs to it: optimiser, target, resets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from numpy.random import Generator

from sacbbf.agents.behaviour import BEHAVIOURS
from sacbbf.agents.config import REFERENCE_STEPS, AgentConfig
from sacbbf.agents.rules import check_agent
from sacbbf.errors import RunFailed
from sacbbf.learner import auxiliary, losses, sac_discrete, schedules
from sacbbf.learner.augment import Observations, augment
from sacbbf.learner.batches import check_batch, draw, split
from sacbbf.learner.noise import Noise
from sacbbf.learner.optim import MovingAverage, make_optimiser
from sacbbf.learner.resets import reset_network
from sacbbf.learner.returns import ReturnScale
from sacbbf.learner.temperature import Temperature
from sacbbf.learner.terms import Terms, Update
from sacbbf.learner.update import Draws, compute, precision
from sacbbf.networks import AgentNetwork, Network, TwinNetwork, build_network
from sacbbf.networks.build import drawing_from
from sacbbf.networks.network import TRAINING_ONLY
from sacbbf.networks.replacements import replace_forwards
from sacbbf.replay import Replay
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
        total_steps: int = REFERENCE_STEPS,
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
        self.init_generator = torch_generator(seed, "networks")  # on the CPU: the same networks on every device
        self.noise = noise or Noise(torch_generator(seed, "learner", device=self.device))
        compute_config = config.compute
        self.bf16 = compute_config.precision == "bf16"
        self.online = self._fresh_network()
        self.target = self._fresh_network()
        self.target.load_state_dict(self.online.state_dict())
        self.target.requires_grad_(False).eval()
        plain = compute_config.kernels == "off" or compute_config.compile  # torch.compile gets the plain networks
        self.kernels = [] if plain else replace_forwards(self.online)
        self.optimiser = make_optimiser(config.optimiser, self.online)
        self.average = MovingAverage(self.target, self.online, config.optimiser.tau)
        self._compute, self._compute_sac_discrete = compute, sac_discrete.compute
        if compute_config.compile:
            self._compute = torch.compile(compute, dynamic=False, fullgraph=True)
            self._compute_sac_discrete = torch.compile(sac_discrete.compute, dynamic=False, fullgraph=True)
        network = config.network
        self.atoms = losses.support(network.num_atoms, network.v_max, self.device)
        self.reset_steps = frozenset(schedules.reset_steps(config.schedule, total_steps, self.behaviour))
        self.returns = ReturnScale(config, (self.online, self.target))
        self.temperature = Temperature(config.schedule, total_steps, num_actions, self.device)
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

    # --- learning ---

    def learn(self, replay: Replay, step: int, generator: Generator, measure: bool = False) -> dict[str, float]:
        """Do the updates due at one environment step: sample, update, write priorities.

        Returns the last update's metrics if `measure`, else an empty dict.
        """
        size = self.config.replay.batch_size
        ratio = self.config.schedule.replay_ratio
        group = math.gcd(self.behaviour.batches_per_group, ratio)
        metrics: dict[str, float] = {}
        self.returns.follow(replay)
        scale = self.returns.scale
        for number in range(ratio // group):
            n, gamma = self.n, self.gamma
            with self.timer("sampling"):
                drawn, n = draw(replay, size * group, n, gamma, generator)
            if self.returns.follows:
                drawn = replace(drawn, return_n=drawn.return_n / scale)
            last = number == ratio // group - 1
            updates = []
            for batch in split(drawn, group):
                updates.append(self.update(batch, self.temperature.beta(step), measure and last))
                terms = updates[-1].terms
                self.temperature.follow(terms.entropy, step, terms.mask)
            with self.timer("priorities"):
                priorities = self._write_priorities(replay, drawn.indices, updates)
            if measure and last:
                metrics = updates[-1].metrics(scale) | {
                    "replay/priority": float(priorities.mean()),
                    "schedule/n": float(n),
                    "schedule/gamma": gamma,
                }
                metrics |= {"replay/return_scale": scale} if self.returns.follows else {}
        return metrics

    def update(self, batch: Batch, beta: float | torch.Tensor, measure: bool = True) -> Update:
        """One gradient step on a batch; `measure` adds the gradient norm. `compute` is steps 1 to 6, 7 and 8 follow."""
        check_batch(batch, self.obs_shape, self.spr_steps, self.num_actions)
        self.optimiser.zero_grad()
        total, terms = self.compute(batch, beta)
        with self.timer("backward"):
            total.backward()  # type: ignore[no-untyped-call]
        grad_norm = self._grad_norm() if measure else None
        with self.timer("optimiser"):  # 7. AdamW
            self.optimiser.step()
        with self.timer("EMA"):  # 8. Moving average
            self._update_target()
        self.updates += 1
        self.updates_since_reset += 1
        return Update(terms, beta, grad_norm, self.config.loss.auxiliary != "none")

    def compute(self, batch: Batch, beta: float | torch.Tensor) -> tuple[torch.Tensor, Terms]:
        """Return the loss to minimise, with its graph, and everything it was made of, without."""
        if isinstance(self.online, TwinNetwork):
            return self._compute_twin(self.online, cast(TwinNetwork, self.target), batch)
        online, target = self.online, cast(AgentNetwork, self.target)
        row = self._bootstrap_row(batch)
        with self.timer("augmentation"):
            obs = self.prepare(batch.states[: max(row, self.spr_steps) + 1])
        draws = self._draw(online, target, batch.return_n.shape[0])
        with self.timer("forward"):
            return self._compute(
                online,
                target,
                batch,
                obs,
                row,
                self.spr_steps,
                self.atoms,
                self.config.loss,
                self._number(beta),
                draws,
                self.bf16,
            )

    def _compute_twin(self, online: TwinNetwork, target: TwinNetwork, batch: Batch) -> tuple[torch.Tensor, Terms]:
        with self.timer("augmentation"):
            obs = self.prepare(batch.states)  # one row after s_t: no future states without self-prediction
        with self.timer("forward"), precision(self.bf16, self.device):
            return self._compute_sac_discrete(online, target, obs, batch, self.config.loss.target_entropy)

    def reset(self) -> None:
        """Reset both networks, each with its own fresh draw, and start optimiser and schedules afresh."""
        for network in (self.online, self.target):
            reset_network(network, self._fresh_network(), self.config.schedule.shrink)
        self.optimiser = make_optimiser(self.config.optimiser, self.online)
        self.updates_since_reset = 0

    def start_from(self, network: Network) -> None:
        """Take over the weights of a network that acts; what serves training alone stays as it was drawn."""
        tensors = network.state_dict()
        for own in (self.online, self.target):
            state = own.state_dict()
            lacking = [name for name in state if name not in tensors and not name.startswith(TRAINING_ONLY)]
            if lacking or not tensors.keys() <= state.keys():
                raise ValueError(f"the weights are of another network: they lack {', '.join(lacking) or 'nothing'}")
            own.load_state_dict(state | tensors)
        self.returns.take_over()

    def replan(self, config: AgentConfig, total_steps: int) -> None:
        """Go on with other schedules; networks, optimiser and all that was learned stay."""
        self.config, self.total_steps = config, total_steps
        self.reset_steps = frozenset(schedules.reset_steps(config.schedule, total_steps, self.behaviour))
        self.temperature.schedule, self.temperature.total_steps = config.schedule, total_steps

    def prepare(self, states: torch.Tensor) -> Observations:
        """1. Observations from a batch's stored states (rows, B, ...), each augmented by itself."""
        if self.config.loss.augment and states.dim() == 5:
            return augment(states, self.noise, self.behaviour.crop_extra)
        return Observations(states)

    # --- parts of an update ---

    def _draw(self, online: AgentNetwork, target: AgentNetwork, size: int) -> Draws:
        """The update's random numbers, where they are wanted."""
        loss, policy = self.config.loss, self.config.network.policy
        shape = (size, self.num_actions)
        noise_target, noise_next, noise_now = None, None, None
        if self.config.network.noisy:
            noise_target, noise_next, noise_now = (
                network.draw_noise(self.noise.normal) for network in (target, online, online)
            )
        return Draws(
            self.noise.gumbel(shape) if loss.backup == "sampled" else None,
            self.noise.gumbel(shape) if policy and loss.policy_gradient == "sampled" else None,
            noise_target,
            noise_next,
            noise_now,
        )

    def _bootstrap_row(self, batch: Batch) -> int:
        """Row of the batch's states that holds the bootstrap state: its own, or that of the same step for SPR.

        Without augmentation both are the same picture.
        """
        shared = self.config.compute.share_bootstrap or not self.config.loss.augment
        if shared and 1 <= batch.bootstrap_step <= self.spr_steps:
            return batch.bootstrap_step
        return self.spr_steps + 1

    def _number(self, value: float | torch.Tensor) -> float | torch.Tensor:
        """Return a number that changes from update to update, for functions that may have been compiled.

        Compiled code takes plain numbers for constants, and would be compiled again for each.
        """
        if isinstance(value, torch.Tensor) or not self.config.compute.compile:
            return value
        return torch.tensor(value, dtype=torch.float32, device=self.device)

    def _write_priorities(self, replay: Replay, indices: IntArray, updates: list[Update]) -> FloatArray:
        """9. Write sqrt(TD loss) back: to every index, or (released) each batch's mean to the group's first ones."""
        td = np.stack([update.terms.td.cpu().numpy() for update in updates])  # (group, B)
        td = td.ravel() if self.behaviour.priority_per_sample else td.mean(axis=1)
        if not np.isfinite(td).all():
            raise RunFailed(
                f"the TD loss became {td[~np.isfinite(td)][0]} at update {self.updates}: "
                f"training diverged; lower optimiser.learning_rate (it is {self.config.optimiser.learning_rate:g})"
            )
        priorities = np.sqrt(td + np.float32(1e-10)).astype(np.float64)
        replay.set_priorities(indices[: len(priorities)], priorities)
        return priorities

    def _update_target(self) -> None:
        if (self.updates + 1) % self.config.optimiser.target_every == 0:
            self.average.move()

    @torch.no_grad()
    def _grad_norm(self) -> torch.Tensor:
        grads = [parameter.grad for parameter in self.online.parameters() if parameter.grad is not None]
        return torch.nn.utils.get_total_norm(grads)

    def _fresh_network(self) -> Network:
        network = build_network(
            self.config.network,
            self.obs_shape,
            self.num_actions,
            self_prediction=self.spr_steps > 0,
            device=torch.device("cpu"),
            generator=self.init_generator,
        )
        if self.config.loss.auxiliary != "none":
            with drawing_from(self.init_generator):
                auxiliary.attach(self.config.loss.auxiliary, network)
        return network.to(self.device)
