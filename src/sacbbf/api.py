"""Agents as objects: learn, predict, evaluate, save, load.

    agent = SACBBF("MinAtar/SpaceInvaders-v1", seed=0)
    agent.learn(20_000, progress_bar=True)
    print(agent.evaluate(100))
    agent.save("my-agent")

The command line's `sacbbf train` does the same with a run directory, checkpoints and records; what it leaves can be
loaded here, and what is saved here can be given to `sacbbf evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console

from sacbbf.agents.presets import AgentName
from sacbbf.disk.files import write_atomically
from sacbbf.envs.base import Environment, EnvSpec
from sacbbf.envs.make import make_env
from sacbbf.envs.stack import state_shape
from sacbbf.envs.states import StateEnv
from sacbbf.errors import UsageError
from sacbbf.networks import Network
from sacbbf.policy import NetworkPolicy, choose_each, masks_for
from sacbbf.run.display import Display
from sacbbf.run.evaluate import ROWS, evaluate, plan_of, summarise
from sacbbf.run.loop import Training
from sacbbf.run.policy_file import load_policy, policy_bytes, read_layout
from sacbbf.run.records import RunDirectory
from sacbbf.run.settings import (
    RunConfig,
    Value,
    check_fit,
    check_run,
    configure,
    from_toml,
    read_spec,
    resolve_device,
    to_toml,
)
from sacbbf.run.torch_setup import torch_set_up
from sacbbf.seeding import numpy_generator
from sacbbf.types import EpisodeRecord


@dataclass(frozen=True)
class Evaluation:
    """Scores of whole episodes, never clipped."""

    mean: float
    standard_error: float
    interval: tuple[float, float]  # normal 95% interval of the mean
    scores: tuple[float, ...]  # of each episode

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.mean:.2f} (95% interval {low:.2f} to {high:.2f}, {len(self.scores)} episodes)"


class Callback:
    """What may be done while an agent learns; each method that returns False ends the learning."""

    def on_step(self, agent: Agent) -> bool | None:
        """After every environment step; `agent.steps` counts them, `agent.metrics` holds the latest losses."""
        return None

    def on_episode(self, agent: Agent, episode: EpisodeRecord) -> bool | None:
        """After every training episode."""
        return None

    def on_evaluation(self, agent: Agent, evaluation: Evaluation) -> bool | None:
        """After every evaluation during learning."""
        return None


class _Function(Callback):
    """A function that is called after every step."""

    def __init__(self, function: Callable[[Agent], bool | None]) -> None:
        self.function = function

    def on_step(self, agent: Agent) -> bool | None:
        return self.function(agent)


class Agent:
    """An agent on one environment. Its subclasses are the published ones."""

    name: ClassVar[AgentName]

    def __init__(
        self,
        env: str,
        *,
        size: str | None = None,
        seed: int = 0,
        device: str = "auto",
        settings: Mapping[str, Value] | None = None,
    ) -> None:
        """Describe an agent; nothing is built before it learns or plays.

        `env` is an Atari game (Pong, ALE/Pong-v5), one of MinAtar's or a Gymnasium id; `size` is paper, laptop or tiny,
        by default the one that fits. `settings` go by the names that flags of `sacbbf train` have:
        {"replay_ratio": 2, "loss.variance_reduction": False}.
        """
        self._given: dict[str, Value] = {**(settings or {}), **({"size": size} if size is not None else {})}
        self.config, self.spec = configure(env, self._given, agent=self.name, seed=seed, device=device)
        _check(self.config, self.spec)
        self.metrics: dict[str, float] = {}
        self._training: Training | None = None
        self._loaded: Network | None = None
        self._loaded_masked = False
        self._generator = numpy_generator(seed, "predict")

    # --- learning -----------------------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Environment steps that it has learned from."""
        return 0 if self._training is None else self._training.step

    def learn(
        self,
        steps: int | None = None,
        *,
        callback: Callback | Callable[[Agent], bool | None] | None = None,
        progress_bar: bool = False,
        eval_every: int = 0,
        eval_episodes: int = 10,
    ) -> Self:
        """Learn from `steps` environment steps (the size's number by default) and return the agent.

        Schedules stretch over the whole number, so it is fixed by the first step. A call after a callback has ended
        one goes on to that number. A function as `callback` is called after every step.
        """
        training = self._prepare(steps)
        listener = callback if isinstance(callback, Callback) else _Function(callback or (lambda agent: None))
        with Display(Console(quiet=not progress_bar), self.spec.game) as display, torch_set_up(self.config):
            display.begin("learning", self.config.steps, training.step)
            while training.step < self.config.steps:
                going = self._advance(training, listener, display)
                if eval_every and training.step % eval_every == 0:
                    going &= listener.on_evaluation(self, self.evaluate(eval_episodes)) is not False
                if not going:
                    break
        return self

    def _prepare(self, steps: int | None) -> Training:
        if self._loaded is not None:
            raise UsageError("a loaded agent plays but does not learn; sacbbf resume goes on with a run directory")
        if steps is not None and steps != self.config.steps:
            if self.steps > 0:
                total = self.config.steps
                raise UsageError(f"steps = {steps}: this agent's schedules are made for {total} steps in all")
            self._plan_for(steps)
        if self._training is None:
            with torch_set_up(self.config):
                self._training = Training(self.config)
        return self._training

    def _plan_for(self, steps: int) -> None:
        """Take another number of steps, and what follows from it; what has only played so far is built anew."""
        seed, device = self.config.seed, self.config.device
        given = {**self._given, "steps": steps}
        config, _ = configure(self.config.env, given, agent=self.name, seed=seed, device=device)
        _check(config, self.spec)
        if self._training is not None:
            self._training.close()
        self.config, self._training = config, None

    def _advance(self, training: Training, listener: Callback, display: Display) -> bool:
        """Do one step and tell of it; returns whether to go on."""
        outcome = training.advance((training.step + 1) % self.config.log_every == 0)
        self.metrics = outcome.metrics or self.metrics
        going = listener.on_step(self) is not False
        if outcome.episode is not None:
            display.episode(outcome.episode.score)
            going &= listener.on_episode(self, outcome.episode) is not False
        display.advance()
        return going

    # --- playing ------------------------------------------------------------------------------------------------

    @property
    def network(self) -> Network:
        """The network that acts; one that has learned nothing is freshly drawn."""
        if self._loaded is not None:
            return self._loaded
        return self._prepare(None).learner.actor

    def predict(
        self,
        observation: npt.NDArray[Any],
        state: Any = None,
        episode_start: npt.NDArray[Any] | None = None,
        deterministic: bool = False,
        action_masks: npt.ArrayLike | None = None,
    ) -> tuple[npt.NDArray[np.int64], Any]:
        """Return actions for one state (stack * C, H, W) or a batch of them, and `state` as it was.

        States are what `make_env` of this agent shows. Actions are drawn from the policy, or the most likely ones if
        `deterministic`. `action_masks` (A,), or (N, A) for a batch, are true for the legal actions; they must be given
        where the environment has illegal ones. The signature is Stable-Baselines3's; there is no recurrent state.
        """
        shape = self._obs_shape
        states = np.asarray(observation)
        if states.shape[-len(shape) :] != shape or states.ndim - len(shape) not in (0, 1):
            raise UsageError(f"observation has shape {states.shape}: must be {shape}, or a batch of such")
        batch = states.reshape(-1, *shape).astype(self.spec.frame_dtype, copy=False)
        network = self.network
        masks = masks_for(len(batch), self.spec.num_actions, action_masks, self.masked)
        with torch_set_up(self.config):
            logits = NetworkPolicy(network, torch.device(self.config.device), ROWS).logits(batch, masks)
        epsilon = 0.0 if deterministic else self.config.settings.acting.epsilon_eval
        actions = choose_each(logits, self._generator, deterministic, epsilon, masks)
        return (actions[0:1].reshape(()) if states.ndim == len(shape) else actions), state

    @property
    def masked(self) -> bool:
        """Whether the environment has illegal actions, which come with every state."""
        if self._loaded is not None:
            return self._loaded_masked
        return self._prepare(None).mask is not None

    @property
    def _obs_shape(self) -> tuple[int, ...]:
        return state_shape(self.spec.frame_shape, self.config.stack)

    def make_env(self) -> StateEnv:
        """Return this agent's environment as Gymnasium has them; its observations are what `predict` takes."""
        return StateEnv(self.config.env, stack=self.config.stack, settings=self.config.environment)

    def evaluate(self, episodes: int = 100, *, greedy: bool = False, seed: int | None = None) -> Evaluation:
        """Play whole episodes and return their scores; learning is not disturbed."""
        if seed is not None and seed < 0:
            raise UsageError(f"seed = {seed}: must be at least 0")
        plan = plan_of(self.config, episodes, seed=seed, greedy=greedy)
        policy = NetworkPolicy(self.network, torch.device(self.config.device), ROWS)
        with torch_set_up(self.config):
            scores = tuple(record.score for record in evaluate(policy, self._make_environment, plan))
        found = summarise(scores)
        return Evaluation(found.mean, found.standard_error, found.interval, scores)

    def _make_environment(self) -> Environment:
        return make_env(self.config.env, settings=self.config.environment)

    # --- keeping ------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write policy and configuration into a folder, which `load` and `sacbbf evaluate` take."""
        folder = RunDirectory(Path(path))
        if folder.holds_run:
            raise UsageError(f"{folder.path} holds a run, whose policy would be lost; choose a new directory")
        folder.prepare()
        network = self.network
        content = policy_bytes(network, self.config.settings.network, self._obs_shape, masked=self.masked)
        write_atomically(folder.policy, content)
        write_atomically(folder.config, to_toml(self.config).encode())
        return folder.path

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> Self:
        """Return the agent that was saved in a folder, or that a run directory holds; nothing in it is executed."""
        folder = RunDirectory(Path(path)).require()
        config = replace(from_toml(folder.config), device=resolve_device(device))
        kind = AGENT_CLASSES.get(config.agent)
        if kind is None or not issubclass(kind, cls):
            wanted = getattr(cls, "name", "one of " + ", ".join(AGENT_CLASSES))
            raise UsageError(f"{path} holds the agent {config.agent!r}: must be {wanted}")
        agent = kind.__new__(kind)
        agent._take(config, load_policy(folder.policy, torch.device(config.device)))
        agent._loaded_masked = read_layout(folder.policy).masked
        return agent

    def _take(self, config: RunConfig, network: Network) -> None:
        self.config, self.spec = config, read_spec(config.env, config.environment)
        self._given, self.metrics = {}, {}
        self._training, self._loaded = None, network
        self._generator = numpy_generator(config.seed, "predict")


class SACBBF(Agent):
    """SAC-BBF: BBF with an explicit policy, trained by a discrete soft actor-critic."""

    name = "sac-bbf"


class BBF(Agent):
    """BBF: bigger, better, faster."""

    name = "bbf"


class SRSPR(Agent):
    """SR-SPR: SPR at a high replay ratio with resets."""

    name = "sr-spr"


class SPR(Agent):
    """SPR: self-predictive representations."""

    name = "spr"


class DrQEps(Agent):
    """DrQ(eps): augmented images and epsilon-greedy acting."""

    name = "drq-eps"


class OTRainbow(Agent):
    """OTRainbow: Rainbow, overtrained."""

    name = "otrainbow"


class DER(Agent):
    """Data-efficient Rainbow."""

    name = "der"


class SACDiscrete(Agent):
    """SAC-Discrete: twin Q, soft targets, learned temperature."""

    name = "sac-discrete"


AGENT_CLASSES: dict[str, type[Agent]] = {
    kind.name: kind for kind in (SACBBF, BBF, SRSPR, SPR, DrQEps, OTRainbow, DER, SACDiscrete)
}


def _check(config: RunConfig, spec: EnvSpec) -> None:
    check_run(config)
    check_fit(config, spec)
