"""Evaluation: play whole episodes with a policy, many environments side by side, one batch of states at a time.

Each episode has its own seed and its own generator of actions, and the policy sees batches of a fixed size,
so the scores depend on the seed alone, not on how many environments play in parallel.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sacbbf.envs.base import Environment
from sacbbf.envs.stack import FrameStack
from sacbbf.errors import UsageError
from sacbbf.policy import Logits, Policy, choose
from sacbbf.run.settings import RunConfig
from sacbbf.seeding import episode_seed, numpy_generator
from sacbbf.types import BoolArray, EpisodeRecord

ROWS = 16  # states per forward pass in evaluation, whatever the number of environments


@dataclass(frozen=True)
class Summary:
    """Statistics of the scores of an evaluation."""

    mean: float
    standard_error: float
    median: float
    episodes: int

    @property
    def interval(self) -> tuple[float, float]:
        """Normal 95% interval of the mean."""
        return self.mean - 1.96 * self.standard_error, self.mean + 1.96 * self.standard_error

    def line(self) -> dict[str, float]:
        """Return it as a line of `evaluations.jsonl` has it."""
        return {name: getattr(self, name) for name in ("mean", "standard_error", "median", "episodes")}


def summarise(scores: Sequence[float]) -> Summary:
    """Mean, standard error (0 for a single episode) and median of scores."""
    error = statistics.stdev(scores) / math.sqrt(len(scores)) if len(scores) > 1 else 0.0
    return Summary(statistics.fmean(scores), error, statistics.median(scores), len(scores))


@dataclass(frozen=True)
class Plan:
    """Which episodes are played, and how."""

    episodes: int
    seed: int
    stack: int  # frames in a state
    greedy: bool = False  # take the most likely action instead of drawing one
    parallel: int = 8  # environments side by side, at most
    phase: str = "evaluate"  # phases have episodes of their own
    epsilon: float = 0.0  # share of random actions


def plan_of(
    config: RunConfig,
    episodes: int,
    *,
    seed: int | None = None,
    greedy: bool = False,
    parallel: int | None = None,
    phase: str = "evaluate",
) -> Plan:
    """Return how a run's agent is evaluated; what is not given is the run's own, and a greedy run stays greedy."""
    return Plan(
        episodes=episodes,
        seed=config.seed if seed is None else seed,
        stack=config.stack,
        greedy=greedy or config.eval.greedy,
        parallel=config.eval.parallel if parallel is None else parallel,
        phase=phase,
        epsilon=config.settings.acting.epsilon_eval,
    )


class _Seat:
    """One environment and the episode that is being played in it."""

    def __init__(self, env: Environment, plan: Plan) -> None:
        self.env = env
        self.plan = plan
        self.frames = FrameStack.of(env.spec, plan.stack)

    def begin(self, number: int) -> None:
        plan = self.plan
        self.number = number
        self.seed = episode_seed(plan.seed, plan.phase, number)
        self.generator = numpy_generator(plan.seed, plan.phase, "actions", number)
        self.state = self.frames.begin(self.env.reset(self.seed))
        self.mask = self.env.mask
        self.score, self.length = 0.0, 0

    def step(self, action: int) -> EpisodeRecord | None:
        step = self.env.step(action)
        self.score += step.reward
        self.length += 1
        if step.over:
            return EpisodeRecord(self.number, self.seed, self.score, self.length, step.truncated)
        self.state, self.mask = self.frames.observe(step), self.env.mask
        return None

    def choose(self, logits: Logits) -> int:
        return choose(logits, self.generator, self.plan.greedy, self.plan.epsilon, self.mask)


def _masks(seats: Sequence[_Seat]) -> BoolArray | None:
    """The legal actions (N, A) of each seat's state, or None."""
    masks = [seat.mask for seat in seats if seat.mask is not None]
    return np.stack(masks) if masks else None


def play_episodes(policy: Policy, make: Callable[[], Environment], plan: Plan) -> Iterator[EpisodeRecord]:
    """Play a plan's episodes, yielding each as it finishes; their order depends on `plan.parallel`.

    `make` builds one environment. One whose episode is over takes the next that nobody plays yet, and drops
    out when there is none.
    """
    for name in ("episodes", "parallel"):
        if getattr(plan, name) < 1:
            raise UsageError(f"{name} = {getattr(plan, name)}: must be at least 1")
    waiting = iter(range(plan.episodes))
    seats: list[_Seat] = []
    try:
        for number in itertools.islice(waiting, plan.parallel):
            seats.append(_Seat(make(), plan))
            seats[-1].begin(number)
        while seats:
            logits = policy.logits(np.stack([seat.state for seat in seats]), _masks(seats))
            for seat, row in zip(list(seats), logits, strict=True):
                record = seat.step(seat.choose(row))
                if record is None:
                    continue
                yield record
                number = next(waiting, -1)
                if number >= 0:
                    seat.begin(number)
                else:
                    seats.remove(seat)
                    seat.env.close()
    finally:
        for seat in seats:
            seat.env.close()


def evaluate(
    policy: Policy,
    make: Callable[[], Environment],
    plan: Plan,
    on_episode: Callable[[EpisodeRecord], object] | None = None,
) -> list[EpisodeRecord]:
    """Play a plan's episodes and return them in the order of their numbers."""
    records = []
    for record in play_episodes(policy, make, plan):
        records.append(record)
        if on_episode is not None:
            on_episode(record)
    return sorted(records, key=lambda record: record.number)
