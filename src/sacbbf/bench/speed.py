"""How fast this machine trains: an update by its parts, its share of the machine's peak, acting, replay, memory.

Everything compared is interleaved: the machine's peak, SAC-BBF's update and BBF's are measured in turn, so that a
neighbour on the same machine slows them alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

import sacbbf.kernels  # noqa: F401 - what `compute.kernels` may use
from sacbbf.agents.config import AgentConfig
from sacbbf.agents.presets import AgentName, Kind, SizeName, preset
from sacbbf.bench.clock import PartsTimer, Peak, Spread, seconds, spread
from sacbbf.envs.stack import state_shape
from sacbbf.learner.augment import to_float
from sacbbf.learner.learner import Learner
from sacbbf.policy import act
from sacbbf.replay import Replay

PARTS = (
    "sampling",
    "augmentation",
    "forward",
    "backward",
    "optimiser",
    "EMA",
    "priorities",
)
WARM_UPS = 2  # rounds that are not counted: the first updates take their memory from the system
REPLAY_SIZES = (1_000, 10_000, 100_000, 1_000_000)  # transitions


@dataclass(frozen=True)
class Workload:
    """What the learner is fed: observations and actions of a benchmark's typical game."""

    name: str
    env: str  # played for environment steps and evaluation episodes
    frame_shape: tuple[int, ...]
    frame_dtype: str
    stack: int
    num_actions: int
    kind: Kind


ATARI = Workload("84x84 frames, 18 actions", "Pong", (1, 84, 84), "uint8", 4, 18, "image")
MINATAR = Workload("10x10x6 grid, 4 actions", "MinAtar/SpaceInvaders-v1", (6, 10, 10), "bool", 1, 4, "grid")
WORKLOADS: dict[SizeName, Workload] = {"paper": ATARI, "laptop": ATARI, "tiny": MINATAR, "tiny-paper": MINATAR}


class Subject:
    """A learner and a filled replay, ready for updates."""

    def __init__(self, config: AgentConfig, load: Workload, device: torch.device, steps: int = 2_000) -> None:
        self.config, self.load, self.device = config, load, device
        self.timer = PartsTimer(device)
        obs_shape = state_shape(load.frame_shape, load.stack)
        self.learner = Learner(config, obs_shape, load.num_actions, device=device, timer=self.timer)
        self.replay = filled_replay(load, steps, self.learner.spr_steps, device)
        self.generator = np.random.default_rng(0)
        self.obs = torch.zeros(1, *obs_shape, dtype=torch.uint8, device=device)

    def update(self, count: int = 1) -> None:
        """Do `count` updates, sampling and priorities included."""
        for _ in range(count):
            self.learner.learn(self.replay, 0, self.generator)

    @torch.inference_mode()
    def act(self, count: int = 1) -> None:
        """Do `count` forward passes of batch 1, as acting needs them."""
        for _ in range(count):
            act(self.learner.target, to_float(self.obs))

    def flops(self) -> float:
        """Return the arithmetic of one update, as PyTorch's counter sees it, in FLOP."""
        with FlopCounterMode(display=False) as counter:
            self.update()
        return float(counter.get_total_flops())


def filled_replay(load: Workload, steps: int, k: int, device: torch.device) -> Replay:
    """Return a replay with `steps` random transitions, an episode's end every hundred or so."""
    replay = Replay(
        capacity=steps,
        frame_shape=load.frame_shape,
        frame_dtype=load.frame_dtype,
        stack=load.stack,
        k=k,
        device=device,
    )
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 2, (64, *load.frame_shape)).astype(load.frame_dtype)
    ends, actions = rng.random(steps) < 0.01, rng.integers(0, load.num_actions, steps)
    for step in range(steps):
        replay.add(frames[step % 64], int(actions[step]), 0.0, terminated=bool(ends[step]))
    return replay


@dataclass(frozen=True)
class UpdateSpeed:
    """One agent's update beside the machine's peak."""

    flops: float  # of one update
    seconds: Spread  # of one update, sampling and priorities included
    parts: dict[str, Spread]  # seconds
    fraction: Spread  # of the peak measured right before and after


@dataclass(frozen=True)
class Rounds:
    """Updates of both agents and the machine's peak, measured in turn."""

    agents: dict[str, UpdateSpeed]  # sac-bbf, bbf
    peak: Spread  # FLOP/s
    ratio: Spread  # SAC-BBF's update over BBF's, round by round


def make_subjects(size: SizeName, device: torch.device, compiled: bool = False) -> dict[str, Subject]:
    """Return SAC-BBF and BBF at a size, one update per call; `compiled`: by torch.compile."""
    load = WORKLOADS[size]
    agents: tuple[AgentName, AgentName] = ("sac-bbf", "bbf")
    configs = {name: preset(size, load.kind, 100_000, replay_ratio=1, agent=name) for name in agents}
    return {
        name: Subject(replace(config, compute=replace(config.compute, compile=compiled)), load, device)
        for name, config in configs.items()
    }


def measure_updates(
    subjects: dict[str, Subject], device: torch.device, repeats: int, per_round: int, on_round: Callable[[], object]
) -> Rounds:
    """Time `per_round` updates of both agents and the machine's peak in turn, `repeats` times after a warm-up."""
    peak = Peak(device)
    flops = {name: subject.flops() for name, subject in subjects.items()}
    times: dict[str, list[float]] = {name: [] for name in subjects}
    parts: dict[str, list[dict[str, float]]] = {name: [] for name in subjects}
    peaks: dict[str, list[float]] = {name: [] for name in subjects}  # of the seconds before and after each update
    for number in range(repeats + WARM_UPS):
        before = peak.measure()
        for name, subject in subjects.items():
            subject.timer.take()
            times[name].append(seconds(partial(subject.update, per_round), device) / per_round)
            parts[name].append({part: total / per_round for part, total in subject.timer.take().items()})
            after = peak.measure()
            peaks[name].append((before + after) / 2)
            before = after
        on_round()
        if number < WARM_UPS:
            for values in (*peaks.values(), *times.values(), *parts.values()):
                values.clear()  # type: ignore[attr-defined]
    speeds = {name: _update_speed(flops[name], times[name], parts[name], peaks[name]) for name in subjects}
    ratios = [own / other for own, other in zip(times["sac-bbf"], times["bbf"], strict=True)]
    return Rounds(speeds, spread([rate for rates in peaks.values() for rate in rates]), spread(ratios))


def _update_speed(flops: float, times: list[float], parts: list[dict[str, float]], peaks: list[float]) -> UpdateSpeed:
    return UpdateSpeed(
        flops=flops,
        seconds=spread(times),
        parts={name: spread([taken.get(name, 0.0) for taken in parts]) for name in PARTS},
        fraction=spread([flops / time / rate for time, rate in zip(times, peaks, strict=True)]),
    )


@dataclass(frozen=True)
class ActingSpeed:
    """Forward passes of batch 1, SAC-BBF and BBF in turn."""

    seconds: Spread  # for all passes, SAC-BBF
    bbf_seconds: Spread
    ratio: Spread  # of block pairs
    interval: tuple[float, float]  # 95% bootstrap interval of the ratio's median


def measure_acting(
    subject: Subject, bbf: Subject, passes: int, blocks: int, on_block: Callable[[], object]
) -> ActingSpeed:
    """Time `passes` forward passes of batch 1 each, in `blocks` interleaved blocks."""
    each = max(1, passes // blocks)
    own, other = np.zeros(blocks), np.zeros(blocks)
    for agent in (subject, bbf):
        agent.act()
    for block in range(blocks):
        pairs = [(subject, own), (bbf, other)]
        for agent, times in pairs if block % 2 else reversed(pairs):  # neither always goes first
            times[block] = seconds(partial(agent.act, each), subject.device)
        on_block()
    rng = np.random.default_rng(0)
    draws = rng.integers(0, blocks, (2_000, blocks))
    # The median over pairs: a neighbour's burst falls on one half of a pair, and would rule a ratio of totals.
    low, high = np.quantile(np.median((own / other)[draws], axis=1), [0.025, 0.975])
    scale = passes / each
    return ActingSpeed(
        spread((own * scale).tolist()),
        spread((other * scale).tolist()),
        spread((own / other).tolist()),
        (float(low), float(high)),
    )


def measure_replay(load: Workload, sizes: tuple[int, ...], repeats: int) -> dict[int, tuple[Spread, Spread]]:
    """Return seconds of drawing a batch and of writing its priorities, by number of stored transitions.

    Frames are a single row here: the sampler's work is what may grow with the buffer, and a million Atari frames
    would not fit most machines.
    """
    small = Workload(load.name, load.env, (4,), "uint8", load.stack, load.num_actions, "vector")
    rng = np.random.default_rng(0)
    replays = {size: filled_replay(small, size, 5, torch.device("cpu")) for size in sizes}
    draws: dict[int, list[float]] = {size: [] for size in sizes}
    writes: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(repeats):
        for size, replay in replays.items():
            drawn = []
            draws[size].append(seconds(lambda: drawn.append(replay.sample(32, 5, 0.99, rng)), replay.device))  # noqa: B023
            indices, values = drawn[0].indices, rng.random(32)
            writes[size].append(seconds(lambda: replay.set_priorities(indices, values), replay.device))  # noqa: B023
    return {size: (spread(draws[size]), spread(writes[size])) for size in sizes}
