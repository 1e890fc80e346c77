"""The training loop's heart: one environment step at a time, in the order of the paper's release.

A step is: updates (once the warm-up is over), a reset of the networks if one is due, an action, the
environment's answer, and storing it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from sacbbf.agents.behaviour import BEHAVIOURS
from sacbbf.disk import faults
from sacbbf.envs.base import EnvError, Environment
from sacbbf.envs.make import make_env
from sacbbf.envs.stack import FrameStack, state_shape
from sacbbf.errors import RunFailed, UsageError
from sacbbf.learner.learner import Learner
from sacbbf.learner.noise import Noise
from sacbbf.learner.schedules import epsilon
from sacbbf.networks import Network
from sacbbf.policy import NetworkPolicy, any_action, choose
from sacbbf.replay import NoWindow, Replay
from sacbbf.replay.state import grown
from sacbbf.run.settings import RunConfig
from sacbbf.seeding import episode_seed, numpy_generator, torch_generator
from sacbbf.types import BoolArray, EpisodeRecord, Frame, Step


@dataclass(frozen=True)
class Outcome:
    """What one step of training brought."""

    metrics: dict[str, float]  # empty unless they were asked for and an update took place
    episode: EpisodeRecord | None  # the episode that ended with this step


class Training:
    """Environment, replay and learner of one run, and how far they have come."""

    def __init__(
        self,
        config: RunConfig,
        *,
        make: Callable[[], Environment] | None = None,
        initial: Network | None = None,
    ) -> None:
        """Build a run's parts; `make` builds its environment where the name does not say it all.

        Learning starts from the weights of `initial` where they are given.
        """
        self.config = config
        settings, device = config.settings, torch.device(config.device)
        self.env = make_env(config.env, settings=config.environment) if make is None else make()
        spec = self.env.spec
        self.learner = Learner(
            settings,
            state_shape(spec.frame_shape, config.stack),
            spec.num_actions,
            total_steps=config.schedule_steps,
            seed=config.seed,
            device=device,
        )
        if initial is not None:
            self.learner.start_from(initial)
        self.frames = FrameStack.of(spec, config.stack)
        self.step = 0
        self.episodes = 0
        self.begin_episode()  # the first shows whether the environment has illegal actions
        capacity = replay_capacity(config)
        frames_bytes = capacity * math.prod(spec.frame_shape) * spec.frame_dtype.itemsize
        self.replay = Replay(
            capacity=capacity,
            frame_shape=spec.frame_shape,
            frame_dtype=spec.frame_dtype,
            stack=config.stack,
            k=self.learner.spr_steps,
            prioritised=settings.replay.prioritised,
            behaviour=BEHAVIOURS[settings.behaviour],
            device=device,
            storage_device=frames_device(settings.compute.frames, device, frames_bytes),
            mask_size=0 if self.mask is None else len(self.mask),
        )
        self.noise = Noise(torch_generator(config.seed, "acting", device=device))  # of noisy layers
        self.actor = NetworkPolicy(self.learner.actor, device, noise=self.noise)
        self.replay_generator = numpy_generator(config.seed, "replay")
        self.action_generator = numpy_generator(config.seed, "actions")

    def advance(self, measure: bool) -> Outcome:
        """Do one step of training; `measure` asks for metrics of its last update."""
        metrics: dict[str, float] = {}
        if not self.under_way:
            self.begin_episode()
        if self.step >= self.config.settings.schedule.warmup:
            metrics = self._learn(measure)
        if self._progress in self.learner.reset_steps:
            self.learner.reset()
            faults.reach("training: reset")
        action = self._act()
        step = self.env.step(action)
        if not math.isfinite(step.reward):
            raise RunFailed(f"{self.config.env} gave a reward of {step.reward} at step {self.step}: must be finite")
        reward = float(np.clip(step.reward, -1.0, 1.0)) if self.config.clip_rewards else step.reward
        self.replay.add(self.frame, action, reward, step.terminated, step.truncated, step.life_lost, self.mask)
        self.take_in(action, step)
        self.step += 1
        faults.reach(
            "training: warm-up step" if self.step <= self.config.settings.schedule.warmup else "training: step"
        )
        if not step.over:
            return Outcome(metrics, None)
        record = EpisodeRecord(self.episodes, self.seed, self.score, len(self.actions), step.truncated)
        self.episodes += 1
        self.begin_episode()
        return Outcome(metrics, record)

    def begin_episode(self) -> None:
        """Reset the environment with the seed of episode number `episodes`."""
        self.frame: Frame = self.env.reset(self.seed)
        self.state: Frame = self.frames.begin(self.frame)
        self.mask: BoolArray | None = self.env.mask  # (A,) the legal actions, if the environment tells them
        self.score = 0.0  # of the episode in progress
        self.actions: list[int] = []  # taken in it
        self.under_way = True  # whether there is an episode to go on with

    def cut_off(self) -> EpisodeRecord | None:
        """End the episode in progress as truncated, and return its record if it has a step; the next step begins anew.

        For others to use the environment in between.
        """
        self.under_way = False
        if not self.actions:
            return None
        record = EpisodeRecord(self.episodes, self.seed, self.score, len(self.actions), truncated=True)
        self.replay.truncate_last()
        self.episodes += 1
        self.score, self.actions = 0.0, []
        return record

    def take_in(self, action: int, step: Step) -> None:
        """Go on to what a step has shown."""
        self.score += step.reward
        self.actions.append(action)
        if not step.over:
            self.frame, self.state, self.mask = step.frame, self.frames.observe(step), self.env.mask

    def set_env(self, env: Environment, config: RunConfig) -> None:
        """Go on in another environment of the same shapes; the episode in progress is cut off, the replay kept."""
        env.reset(self.seed)  # shows whether it has illegal actions
        if (env.mask is None) != (self.replay.ring.masks is None):
            env.close()
            had, has = ("none", "masks") if self.replay.ring.masks is None else ("masks", "none")
            raise EnvError(f"env = {config.env}: has {has} of legal actions, the environment before had {had}")
        self.cut_off()
        self.env.close()
        self.env, self.config = env, config

    def replan(self, config: RunConfig) -> None:
        """Go on by a configuration with other numbers of steps and other schedules; all that was learned stays."""
        if config.horizon.start != self.config.horizon.start:
            self.learner.updates_since_reset = 0
        self.config = config
        self.learner.replan(config.settings, config.schedule_steps)
        if replay_capacity(config) > self.replay.ring.capacity:
            self.replay = grown(self.replay, replay_capacity(config))

    def close(self) -> None:
        """Give back the environment."""
        self.env.close()

    @property
    def seed(self) -> int:
        """Seed of the episode in progress."""
        return episode_seed(self.config.seed, "train", self.episodes)

    @property
    def _progress(self) -> int:
        """Steps since the schedules began."""
        return max(0, self.step - self.config.horizon.start)

    def _learn(self, measure: bool) -> dict[str, float]:
        try:
            return self.learner.learn(self.replay, self._progress, self.replay_generator, measure)
        except NoWindow as error:
            raise UsageError(f"schedule.warmup = {self.config.settings.schedule.warmup}: {error}") from error

    def _act(self) -> int:
        settings = self.config.settings
        mask = self.mask
        if self.step < settings.schedule.warmup and self.config.initial_policy is None:
            return any_action(self.env.spec.num_actions, self.action_generator, mask)
        warmup = max(0, settings.schedule.warmup - self.config.horizon.start)  # a new cycle has none
        share = epsilon(settings.acting, self._progress, warmup)
        logits = self.actor.logits(self.state[None], None if mask is None else mask[None])[0]
        return choose(logits, self.action_generator, epsilon=share, mask=mask)


def replay_capacity(config: RunConfig) -> int:
    """Return how many steps a run's replay holds: no more than the run has."""
    return min(config.settings.replay.capacity, max(config.steps, 64))


def frames_device(choice: str, device: torch.device, size: int) -> torch.device:
    """Return where `size` bytes of frames lie for a learner on a device, as `compute.frames` says."""
    host = torch.device("cpu")
    if choice == "auto":
        fits = device.type == "cuda" and size <= torch.cuda.mem_get_info(device)[0] // 2
        return device if fits else host
    return device if choice == "device" else host
