"""A whole run: from a configuration to a directory that explains itself. Run again, it goes on where it was."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from sacbbf.agents.presets import BASELINES
from sacbbf.disk import faults
from sacbbf.disk.files import checksum
from sacbbf.disk.lease import Lease, state_folder
from sacbbf.disk.takeover import clean_up
from sacbbf.envs.base import Environment, EnvSpec
from sacbbf.envs.make import make_env
from sacbbf.errors import RunFailed, UsageError
from sacbbf.policy import Logits, NetworkPolicy, Policy, uniform_policy
from sacbbf.run.baselines import FINALISTS, candidates, find_blind
from sacbbf.run.checkpoint import Checkpoints
from sacbbf.run.curve import draw_curve
from sacbbf.run.diagnostics import diagnose
from sacbbf.run.display import Display
from sacbbf.run.evaluate import ROWS, Plan, evaluate, plan_of, summarise
from sacbbf.run.loop import Training
from sacbbf.run.more_steps import extended
from sacbbf.run.policy_file import check_layout, load_initial_policy, policy_bytes, read_layout
from sacbbf.run.recorder import Recorder
from sacbbf.run.records import RunDirectory, json_bytes
from sacbbf.run.remote_trackers import TrackerName, check_trackers, make_trackers
from sacbbf.run.result import episode_line, machine, score_fields, versions
from sacbbf.run.settings import RunConfig, check_fit, check_run, differences, from_toml, read_spec, to_toml
from sacbbf.run.stop import Stop, ending_cleanly
from sacbbf.run.take_up import identity, take_up
from sacbbf.run.torch_setup import torch_set_up
from sacbbf.types import BoolArray, EpisodeRecord, Frame

FREE = ("checkpoint.every", "checkpoint.keep", "eval.parallel")  # settings that no number depends on
HARDWARE = ("device", "threads")  # settings that may differ when a run is taken up, at the price of its last bits


def train(
    config: RunConfig,
    out: Path,
    *,
    console: Console,
    max_hours: float | None = None,
    trackers: Sequence[TrackerName] = (),
    init: Path | None = None,
) -> dict[str, Any]:
    """Run a configuration into the directory `out` and return what `result.json` holds.

    A directory that holds the same run already is taken up from its last checkpoint, or only reported if it is
    finished. Ctrl-C, SIGTERM and SIGUSR1 end the run at the next step, and `max_hours` when the time is up; what was
    learned by then is saved. `trackers` are told what is recorded. A new run starts from the weights of the
    run or saved agent in the folder `init`, if it is given.
    """
    check_run(config)
    check_trackers(trackers)
    if max_hours is not None and not max_hours > 0:
        raise UsageError(f"max_hours = {max_hours}: must be above 0")
    spec = read_spec(config.env, config.environment)
    check_fit(config, spec)
    config, initial = _start_from(init, config, spec)
    run = RunDirectory(out)
    run.prepare()
    # Looked at before the lease is taken, which writes: a refused run is not touched, and a finished one only cleared
    # of what killed processes have left.
    if run.config.exists():
        _refuse_saved_agent(run)
        _refuse_another(config, run)
        finished = _finished(config, run, console)
        if finished is not None and (config.checkpoint.keep or state_folder(out) is None):
            clean_up(out)
            return finished
    stop = Stop(deadline=time.monotonic() + 3600 * max_hours if max_hours else float("inf"))
    say = functools.partial(console.print, markup=False)
    try:
        with ending_cleanly(stop), Lease.acquire(out, on_wait=say) as lease:
            _agree_on_configuration(config, run, lease, initial)
            # Meanwhile, or by a process that was killed before it cleared away.
            finished = _finished(config, run, console)
            if finished is not None:
                if not config.checkpoint.keep:
                    lease.drop()
                return finished
            with torch_set_up(config):
                result = _Run(config, spec, run, lease, console, stop, trackers).carry_out()
            if result["finished"] and not config.checkpoint.keep:
                lease.drop()
    except OSError as error:
        raise RunFailed(f"cannot write {run.path}: {error.strerror or error}; sacbbf resume {run.path}") from error
    return result


def extend(config: RunConfig, steps: int, run: RunDirectory, console: Console) -> RunConfig:
    """Give a run that kept its state more steps, `steps` in all, and return its configuration from now on."""
    longer = extended(config, steps)
    check_run(longer)
    if not run.has_state:
        raise UsageError(
            f"{run.path} has kept no state to go on from (--checkpoint.keep keeps it); to start a new run from its "
            f"weights: sacbbf train {config.env} --init {run.path}"
        )
    with Lease.acquire(run.path, on_wait=functools.partial(console.print, markup=False)) as lease:
        lease.publish(run.config, to_toml(longer).encode(), "config")
        result = run.read_result()
        if result is not None and result.get("finished"):
            words = {"finished": False, "stopped_by": f"extension from {config.steps} to {steps} steps"}
            lease.publish(run.result, json_bytes(result | words), "result")
    return longer


def _start_from(init: Path | None, config: RunConfig, spec: EnvSpec) -> tuple[RunConfig, bytes | None]:
    """Return a run's configuration with the policy that it starts from, and that policy's file, if there is one."""
    if init is None:
        return config, None
    if config.agent in BASELINES:
        raise UsageError(f"init = {init}: the baseline {config.agent} has no weights to start from")
    folder = RunDirectory(init).require()
    there = from_toml(folder.config).agent
    if there != config.agent:
        raise UsageError(f"agent = {config.agent!r}: must be {there!r}, as in {init}")
    check_layout(read_layout(folder.policy), config, spec, str(init))
    content = folder.policy.read_bytes()
    return replace(config, initial_policy=checksum(content)), content


def _agree_on_configuration(config: RunConfig, run: RunDirectory, lease: Lease, initial: bytes | None) -> None:
    """Store the configuration in a new directory; refuse one that holds a run with another."""
    if run.config.exists():
        _refuse_another(config, run)
        return
    if initial is not None:
        lease.publish(run.initial_policy, initial, "initial policy")
    elif config.initial_policy is not None:
        raise UsageError(
            f"initial_policy = {config.initial_policy[:12]}...: give the folder of the run it is of (--init)"
        )
    lease.publish(run.config, to_toml(config).encode(), "config")


def _refuse_saved_agent(run: RunDirectory) -> None:
    if run.policy.exists() and not run.holds_run and not run.has_state:
        raise UsageError(f"out = {run.path}: holds a saved agent, which a run would write over; choose a new directory")


def _refuse_another(config: RunConfig, run: RunDirectory) -> None:
    found = differences(from_toml(run.config), config)
    lines = [f"  {name}: {old!r} there, {new!r} here" for name, (old, new) in found.items()]
    if found.keys() - {*FREE, *HARDWARE}:
        raise UsageError(
            f"out = {run.path}: holds another run already; choose a new directory, or take that run up with its own "
            f"settings (sacbbf resume {run.path}). They differ in\n" + "\n".join(lines)
        )


def _finished(config: RunConfig, run: RunDirectory, console: Console) -> dict[str, Any] | None:
    """Return the result of a run that is finished, and say so; else None."""
    found = run.read_result()
    if found is None or not found.get("finished"):
        return None
    if config.agent not in BASELINES and found.get("steps", 0) < config.steps:  # killed while it was extended
        return None
    console.print(f"{run.path} is finished: there is nothing left to do", markup=False)
    return found


@dataclass
class _Run:
    """One process's work on a run."""

    config: RunConfig
    spec: EnvSpec
    run: RunDirectory
    lease: Lease
    console: Console
    stop: Stop
    trackers: Sequence[TrackerName] = ()
    seconds_before: float = 0.0  # of work by processes before this one
    resumes: int = 0

    def __post_init__(self) -> None:
        self.started = time.monotonic()

    def carry_out(self) -> dict[str, Any]:
        """Train, evaluate, compare, and write the result."""
        config, stop = self.config, self.stop
        with Display(self.console, self.spec.game) as display:
            if config.agent not in BASELINES:
                progress = self._learn(display)
            else:
                progress = _baseline(config.agent, config, self.spec, display, stop)
            records = _final_scores(config, progress, display, stop)
            baselines = _compare(config, self.spec, display, stop) if records and config.eval.baselines else {}
        result = {
            "env": config.env,
            "agent": config.agent,
            "size": config.size,
            "seed": config.seed,
            "finished": not stop.reason,
            "stopped_by": stop.reason or None,
            **(score_fields(records, self.spec.game) if records else {"score": None}),
            **progress.facts,
            **({"baselines": baselines} if baselines else {}),
            "wall_seconds": round(self.seconds, 1),
            "resumes": self.resumes,
            "versions": versions(),
            "machine": machine(config.device),
        }
        title = f"{config.env}: {config.agent}, {config.size}, seed {config.seed}"
        self.lease.publish(self.run.curve, draw_curve(self.run, title, self.spec.game, result), "curve")
        self.lease.publish(self.run.result, json_bytes(result), "result")
        return result

    @property
    def seconds(self) -> float:
        """Time spent on the run so far, by this process and those before it."""
        return self.seconds_before + time.monotonic() - self.started

    def _learn(self, display: Display) -> Progress:
        config = self.config
        resumed = take_up(config, self.run, self.lease.folder, self.console)
        training = self._begin() if resumed is None else resumed.training
        checkpoints = Checkpoints(self.lease, identity(config), resumed)
        others = make_trackers(self.trackers, self.run, config, self.spec.game, self._warn)
        marks = None if resumed is None else resumed.manifest.records
        recorder = Recorder(self.lease, self.run, self.spec.game, marks, others)
        if resumed is not None:
            self.seconds_before, self.resumes = resumed.manifest.seconds, checkpoints.resumes
            if resumed.cut_off is not None:
                recorder.add("episodes", episode_line(resumed.cut_off, training.step))
        policy = _Interruptible(NetworkPolicy(training.learner.actor, torch.device(config.device), ROWS), self.stop)
        try:
            self._train(training, policy, recorder, checkpoints, display)
            self._save(training, recorder, checkpoints)
        finally:
            training.close()
            recorder.close()
        learner = training.learner
        masked = training.mask is not None
        content = policy_bytes(learner.actor, config.settings.network, learner.obs_shape, masked=masked)
        self.lease.publish(self.run.policy, content, "policy")
        facts = {"steps": training.step, "updates": learner.updates, "train_episodes": training.episodes}
        return Progress(policy, facts, plan_of(config, config.eval.episodes))

    def _begin(self) -> Training:
        initial = None
        if self.config.initial_policy is not None:
            initial = load_initial_policy(self.run.initial_policy, self.config.initial_policy)
        return Training(self.config, initial=initial)

    def _train(
        self, training: Training, policy: Policy, recorder: Recorder, checkpoints: Checkpoints, display: Display
    ) -> None:
        """Train to the end or until a stop; evaluations come between steps."""
        config, stop = self.config, self.stop
        display.begin("training", config.steps, training.step)
        clock = _SpeedClock(training.step, training.learner.updates)
        every = config.checkpoint.every
        while training.step < config.steps and not stop.wanted():
            if self._evaluation_due(training.step, recorder):
                try:
                    recorder.add("evaluations", _interval_evaluation(config, policy, training.step))
                except KeyboardInterrupt:  # asked to stop; it is due again when the run is taken up
                    return
            measure = (training.step + 1) % config.log_every == 0
            outcome = training.advance(measure)
            if outcome.metrics:
                recorder.add("metrics", {"step": training.step, **outcome.metrics})
            if config.diagnose_every and training.step % config.diagnose_every == 0 and training.learner.updates:
                found = diagnose(training.learner, training.replay, config.seed, training.step)
                recorder.add("diagnostics", {"step": training.step, **found})
            if measure:
                speeds = clock.lap(training.step, training.learner.updates)
                recorder.add("speed", {"step": training.step, **speeds})
                display.speed(speeds["steps_per_second"], speeds["updates_per_second"])
            if outcome.episode is not None:
                recorder.add("episodes", episode_line(outcome.episode, training.step))
                display.episode(outcome.episode.score)
            display.advance()
            if every and training.step % every == 0 and training.step < config.steps:
                self._save(training, recorder, checkpoints)

    def _evaluation_due(self, step: int, recorder: Recorder) -> bool:
        every = self.config.eval.every
        return every > 0 and step > 0 and step % every == 0 and recorder.last_evaluation != step

    def _save(self, training: Training, recorder: Recorder, checkpoints: Checkpoints) -> None:
        """Write a checkpoint; if that fails for want of room, training goes on with the last good one."""
        try:
            checkpoints.save(training, recorder.sync(), self.seconds)
        except OSError as error:
            self._warn(
                f"warning: the checkpoint at step {training.step:,} could not be written ({error.strerror or error}); "
                "the one before stays as it is"
            )

    def _warn(self, words: str) -> None:
        self.console.print(words, style="yellow", markup=False)


@dataclass(frozen=True)
class Progress:
    """What a run has to show before its evaluation."""

    policy: Policy
    facts: dict[str, Any]
    plan: Plan  # of the evaluation


@dataclass(frozen=True)
class _Interruptible:
    """A policy that plays no further once an interrupt has come: an episode may be long."""

    policy: Policy
    stop: Stop

    def logits(self, states: Frame, masks: BoolArray | None = None) -> Logits:
        if self.stop.interrupted:
            raise KeyboardInterrupt
        return self.policy.logits(states, masks)


def _baseline(agent: str, config: RunConfig, spec: EnvSpec, display: Display, stop: Stop) -> Progress:
    """Return chance, or the best blind mix after a search for it; chance too if the search is interrupted."""
    # A baseline's draws are all there is to it.
    plan = replace(plan_of(config, config.eval.episodes), greedy=False, epsilon=0.0)
    chance = Progress(_Interruptible(uniform_policy(spec.num_actions), stop), {"steps": 0, "updates": 0}, plan)
    if agent == "random":
        return chance

    def advance() -> None:
        display.advance()
        if stop.interrupted:
            raise KeyboardInterrupt

    count = len(candidates(spec.num_actions)) + 3 * FINALISTS
    display.begin("searching the best blind mix", count)
    try:
        mix, steps = find_blind(_maker(config), plan, spec.num_actions, advance)
    except KeyboardInterrupt:
        return chance
    facts = {"steps": steps, "updates": 0, "mix": mix.describe(spec.action_names)}
    return Progress(_Interruptible(mix.policy(spec.num_actions), stop), facts, plan)


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
    if stop.interrupted:
        return []
    display.begin(name, progress.plan.episodes)
    scores: list[float] = []

    def note(record: EpisodeRecord) -> None:
        faults.reach("evaluation: episode")
        scores.append(record.score)
        display.advance(f"mean score {sum(scores) / len(scores):.2f}")

    try:
        return evaluate(progress.policy, _maker(config), progress.plan, note)
    except KeyboardInterrupt:
        return []


def _interval_evaluation(config: RunConfig, policy: Policy, step: int) -> dict[str, Any]:
    """Evaluate in the middle of training, with environments and generators of its own."""
    plan = plan_of(config, config.eval.every_episodes, phase="interval")
    records = evaluate(policy, _maker(config), plan, lambda record: faults.reach("interval evaluation: episode"))
    summary = summarise([record.score for record in records])
    line = {"mean": summary.mean, "standard_error": summary.standard_error, "median": summary.median}
    return {"step": step, **line, "episodes": summary.episodes}


def _maker(config: RunConfig) -> Callable[[], Environment]:
    return lambda: make_env(config.env, settings=config.environment)


class _SpeedClock:
    """Steps and updates per second since the last lap."""

    def __init__(self, step: int, updates: int) -> None:
        self._time, self._step, self._updates = time.monotonic(), step, updates

    def lap(self, step: int, updates: int) -> dict[str, float]:
        now = time.monotonic()
        seconds = max(now - self._time, 1e-9)
        speeds = {
            "steps_per_second": round((step - self._step) / seconds, 2),
            "updates_per_second": round((updates - self._updates) / seconds, 2),
        }
        self._time, self._step, self._updates = now, step, updates
        return speeds
