"""How fast environments step and evaluations run on this machine."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from sacbbf.bench.speed import Subject
from sacbbf.envs.make import EnvSettings, make_env
from sacbbf.policy import Logits, NetworkPolicy, Policy
from sacbbf.run.evaluate import ROWS, Plan, evaluate
from sacbbf.types import BoolArray, Frame

STEPS = 1_500  # environment steps to time
EPISODES = 8  # of the evaluation, cut off after a set number of steps
CUT = 300  # agent steps


def measure_environment(env: str) -> float:
    """Return agent steps per second of one environment under random actions, resets left out."""
    made = make_env(env)
    rng = np.random.default_rng(0)
    made.reset(0)
    spent, steps, episode = 0.0, 0, 0
    while steps < STEPS:
        action = int(rng.integers(made.spec.num_actions))
        start = time.perf_counter()
        step = made.step(action)
        spent += time.perf_counter() - start
        steps += 1
        if step.over:
            episode += 1
            made.reset(episode)
    made.close()
    return steps / spent


def measure_evaluation(env: str, subject: Subject) -> float:
    """Return evaluation episodes per minute, for episodes of at most 300 agent steps, eight side by side."""
    made = make_env(env)
    policy = FirstActions(NetworkPolicy(subject.learner.target, subject.device, ROWS), made.spec.num_actions)
    made.close()
    settings = EnvSettings(max_steps=CUT)
    start = time.perf_counter()
    evaluate(policy, lambda: make_env(env, settings=settings), Plan(EPISODES, 0, subject.load.stack))
    return EPISODES / (time.perf_counter() - start) * 60


@dataclass(frozen=True)
class FirstActions:
    """A policy over more actions than the environment has, restricted to its own."""

    policy: Policy
    num_actions: int

    def logits(self, states: Frame, masks: BoolArray | None = None) -> Logits:
        """Logits (N, num_actions) of the environment's own actions."""
        own = self.policy.logits(states)[:, : self.num_actions]
        return own if masks is None else np.where(masks, own, -np.inf)
