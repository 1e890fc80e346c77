"""A whole run: from a configuration to a directory that explains itself."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from rich.console import Console

from sacbbf.envs import Environment, EnvSpec, make_env
from sacbbf.policy import Logits, NetworkPolicy, Policy, uniform_policy
from sacbbf.run.baselines import FINALISTS, candidates, find_blind
from sacbbf.run.curve import draw_curve
from sacbbf.run.display import Display
from sacbbf.run.evaluate import ROWS, Plan, evaluate, summarise
from sacbbf.run.loop import Training
from sacbbf.run.policy_file import save_policy
from sacbbf.run.records import RECORDS, JsonLines, RunDirectory, write_json
from sacbbf.run.result import episode_line, machine, score_fields, versions
from sacbbf.run.settings import RunConfig, check_fit, check_run, to_toml
from sacbbf.run.trackers import TensorBoard
from sacbbf.types import EpisodeRecord, Frame


@dataclass
class Stop:
    """Whether, and why, a run should end before its steps are done."""

    reason: str = ""
    deadline: float = float("inf")  # of time.monotonic()

    def wanted(self) -> bool:
        """Whether to end now, at a step's boundary."""
        if not self.reason and time.monotonic() >= self.deadline:
            self.reason = "max_hours"
        return bool(self.reason)


@dataclass
class Recorder:
    """Writes what happens to the run's records and to TensorBoard."""

    run: RunDirectory
    game: str | None
    files: dict[str, JsonLines] = field(init=False)

    def __post_init__(self) -> None:
        self.files = {name: JsonLines(self.run.record(name)) for name in RECORDS}
        self.board = TensorBoard(self.run.tensorboard, self.game)

    def add(self, kind: str, line: dict[str, Any]) -> None:
        """Append a line to a record."""
        self.files[kind].append(**line)
        self.board.add(kind, line)

    def close(self) -> None:
        """Close every file."""
        for file in self.files.values():
            file.close()
        self.board.close()


def train(config: RunConfig, out: Path, *, console: Console, max_hours: float | None = None) -> dict[str, Any]:
    """Run a configuration into the directory `out` and return what `result.json` holds.

    Ctrl-C and SIGTERM end the run at the next step, and `max_hours` when the time is up; what was learned by
    then is saved.
    """
    check_run(config)
    run = RunDirectory(out)
    env = make_env(config.env, settings=config.environment)
    spec = env.spec
    env.close()
    check_fit(config, spec)
    run.create(to_toml(config))
    if config.threads:
        torch.set_num_threads(config.threads)
    torch.set_float32_matmul_precision("highest" if config.settings.compute.precision == "float32" else "high")
    torch.backends.cudnn.allow_tf32 = config.settings.compute.precision != "float32"
    started = time.monotonic()
    stop = Stop(deadline=started + 3600 * max_hours if max_hours else float("inf"))
    recorder = Recorder(run, spec.game)
    try:
        with _ending_cleanly(stop), Display(console, spec.game) as display:
            if config.agent == "sac-bbf":
                progress = _learn(config, spec, run, recorder, display, stop)
            else:
                progress = _baseline(config.agent, config, spec, display, stop)
            records = _final_scores(config, progress, display, stop)
            baselines = _compare(config, spec, display, stop) if records and config.eval.baselines else {}
    finally:
        recorder.close()
    result = {
        "env": config.env,
        "agent": config.agent,
        "size": config.size,
        "seed": config.seed,
        "finished": not stop.reason,
        "stopped_by": stop.reason or None,
        **(score_fields(records, spec.game) if records else {"score": None}),
        **progress.facts,
        **({"baselines": baselines} if baselines else {}),
        "wall_seconds": round(time.monotonic() - started, 1),
        "versions": versions(),
        "machine": machine(config.device),
    }
    write_json(run.result, result)
    draw_curve(run, f"{config.env}: {config.agent}, {config.size}, seed {config.seed}", spec.game, result)
    return result


@dataclass(frozen=True)
class Progress:
    """What a run has to show before its evaluation."""

    policy: Policy
    facts: dict[str, Any]
    greedy: bool = False  # evaluate the most likely actions; a baseline's draws are all there is to it


@dataclass(frozen=True)
class _Interruptible:
    """A policy that plays no further once an interrupt has come: an episode may be long."""

    policy: Policy
    stop: Stop

    def logits(self, states: Frame) -> Logits:
        if self.stop.reason == "interrupt":
            raise KeyboardInterrupt
        return self.policy.logits(states)


def _learn(
    config: RunConfig, spec: EnvSpec, run: RunDirectory, recorder: Recorder, display: Display, stop: Stop
) -> Progress:
    training = Training(config)
    device = torch.device(config.device)
    policy = _Interruptible(NetworkPolicy(training.learner.target, device, ROWS), stop)
    display.begin("training", config.steps)
    clock = _SpeedClock()
    try:
        while training.step < config.steps and not stop.wanted():
            measure = (training.step + 1) % config.log_every == 0
            outcome = training.advance(measure)
            if outcome.metrics:
                recorder.add("metrics", {"step": training.step, **outcome.metrics})
            if measure:
                speeds = clock.lap(training.step, training.learner.updates)
                recorder.add("speed", {"step": training.step, **speeds})
                display.speed(speeds["steps_per_second"], speeds["updates_per_second"])
            if outcome.episode is not None:
                recorder.add("episodes", episode_line(outcome.episode, training.step))
                display.episode(outcome.episode.score)
            display.advance()
            if config.eval.every and training.step % config.eval.every == 0 and training.step < config.steps:
                with suppress(KeyboardInterrupt):  # the loop ends by itself, and saves what was learned
                    recorder.add("evaluations", _interval_evaluation(config, policy, training.step))
    finally:
        training.close()
    save_policy(run.policy, training.learner.target, config.settings.network, training.learner.obs_shape)
    facts = {"steps": training.step, "updates": training.learner.updates, "train_episodes": training.episodes}
    return Progress(policy, facts, config.eval.greedy)


def _baseline(agent: str, config: RunConfig, spec: EnvSpec, display: Display, stop: Stop) -> Progress:
    """Return chance, or the best blind mix after a search for it; chance too if the search is interrupted."""
    chance = Progress(_Interruptible(uniform_policy(spec.num_actions), stop), {"steps": 0, "updates": 0})
    if agent == "random":
        return chance

    def advance() -> None:
        display.advance()
        if stop.reason == "interrupt":
            raise KeyboardInterrupt

    count = len(candidates(spec.num_actions)) + 3 * FINALISTS
    display.begin("searching the best blind mix", count)
    try:
        mix, steps = find_blind(_maker(config), _plan(config, 1, greedy=False), spec.num_actions, advance)
    except KeyboardInterrupt:
        return chance
    facts = {"steps": steps, "updates": 0, "mix": mix.describe(spec.action_names)}
    return Progress(_Interruptible(mix.policy(spec.num_actions), stop), facts)


def _compare(config: RunConfig, spec: EnvSpec, display: Display, stop: Stop) -> dict[str, Any]:
    """Return the scores of chance and blind play on the run's own evaluation episodes."""
    found: dict[str, Any] = {}
    for agent in ("random", "blind"):
        progress = _baseline(agent, config, spec, display, stop)
        records = _final_scores(config, progress, display, stop, f"evaluating {agent} play")
        if not records:
            return found
        fields = score_fields(records, spec.game)
        kept = {name: fields[name] for name in ("score", "standard_error", "interval_95", "episodes")}
        found[agent] = kept | {name: progress.facts[name] for name in ("mix",) if name in progress.facts}
    return found


def _final_scores(
    config: RunConfig, progress: Progress, display: Display, stop: Stop, name: str = "evaluating"
) -> list[EpisodeRecord]:
    """Return the run's final evaluation; none after an interrupt, which asked for an end and not for more play."""
    if stop.reason == "interrupt":
        return []
    plan = _plan(config, config.eval.episodes, progress.greedy)
    display.begin(name, plan.episodes)
    scores: list[float] = []

    def note(record: EpisodeRecord) -> None:
        scores.append(record.score)
        display.advance(f"mean score {sum(scores) / len(scores):.2f}")

    try:
        return evaluate(progress.policy, _maker(config), plan, note)
    except KeyboardInterrupt:
        return []


def _interval_evaluation(config: RunConfig, policy: Policy, step: int) -> dict[str, Any]:
    """Evaluate in the middle of training, with environments and generators of its own."""
    plan = _plan(config, config.eval.every_episodes, config.eval.greedy, "interval")
    summary = summarise([record.score for record in evaluate(policy, _maker(config), plan)])
    line = {"mean": summary.mean, "standard_error": summary.standard_error, "median": summary.median}
    return {"step": step, **line, "episodes": summary.episodes}


def _plan(config: RunConfig, episodes: int, greedy: bool, phase: str = "evaluate") -> Plan:
    return Plan(episodes, config.seed, config.stack, greedy, config.eval.parallel, phase)


def _maker(config: RunConfig) -> Callable[[], Environment]:
    return lambda: make_env(config.env, settings=config.environment)


class _SpeedClock:
    """Steps and updates per second since the last lap."""

    def __init__(self) -> None:
        self._time, self._step, self._updates = time.monotonic(), 0, 0

    def lap(self, step: int, updates: int) -> dict[str, float]:
        now = time.monotonic()
        seconds = max(now - self._time, 1e-9)
        speeds = {
            "steps_per_second": round((step - self._step) / seconds, 2),
            "updates_per_second": round((updates - self._updates) / seconds, 2),
        }
        self._time, self._step, self._updates = now, step, updates
        return speeds


@contextmanager
def _ending_cleanly(stop: Stop) -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into a wish to stop; a second Ctrl-C ends at once."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop.reason == "interrupt" and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.reason = "interrupt"

    try:
        previous = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: signals are somebody else's affair
        previous = {}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
