"""A whole run: from a configuration to a directory that explains itself. Run again, it goes on where it was."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from sacbbf.agents.presets import BASELINES
from sacbbf.disk.lease import Lease, state_folder
from sacbbf.disk.takeover import clean_up
from sacbbf.envs.source import EnvSource, source_of
from sacbbf.errors import RunFailed, UsageError
from sacbbf.policy import NetworkPolicy
from sacbbf.run.admission import agree_on_configuration, finished, refuse_another, refuse_saved_agent, start_from
from sacbbf.run.announcement import announcement, heading
from sacbbf.run.checkpoint import Checkpoints
from sacbbf.run.curve import draw_curve
from sacbbf.run.diagnostics import diagnose
from sacbbf.run.display import Display
from sacbbf.run.evaluate import ROWS, plan_of
from sacbbf.run.fitting import check_fit
from sacbbf.run.loop import Training
from sacbbf.run.policy_file import load_initial_policy, policy_bytes
from sacbbf.run.recorder import Recorder
from sacbbf.run.records import RunDirectory, json_bytes
from sacbbf.run.remote_trackers import TrackerName, check_trackers, make_trackers
from sacbbf.run.result import episode_line, machine, score_fields, versions
from sacbbf.run.scoring import Interruptible, Progress, Scoring
from sacbbf.run.settings import RunConfig, check_run
from sacbbf.run.stop import Stop, ending_cleanly
from sacbbf.run.take_up import identity, take_up
from sacbbf.run.torch_setup import torch_set_up
from sacbbf.run.trackers import begin_again


def train(
    config: RunConfig,
    out: Path,
    *,
    console: Console,
    max_hours: float | None = None,
    trackers: Sequence[TrackerName] = (),
    init: Path | None = None,
    source: EnvSource | None = None,
    note: str = "",
) -> dict[str, Any]:
    """Run a configuration into the directory `out` and return what `result.json` holds.

    A directory that holds the same run already is taken up from its last checkpoint, or only reported if it is
    finished. Ctrl-C, SIGTERM and SIGUSR1 end the run at the next step, and `max_hours` when the time is up; what was
    learned by then is saved. `trackers` are told what is recorded. A new run starts from the weights of the
    run or saved agent in the folder `init`, if it is given. `source` makes environments that go by no name. A new run
    says what it will do, and `note` with it, once nothing stands in its way.
    """
    check_run(config)
    check_trackers(trackers)
    if max_hours is not None and not max_hours > 0:
        raise UsageError(f"max_hours = {max_hours}: must be above 0")
    source = source or source_of(config.env, config.environment)
    if source.shared:
        raise UsageError(
            f"env = {source.name}: a run evaluates beside its training, so give a function that makes the environment; "
            f"with this object, {source.description}"
        )
    config, initial = start_from(init, config, source.spec)  # first: what does not fit is told by the run's name
    check_fit(config, source.spec)
    run = RunDirectory(out)
    run.prepare()
    # Looked at before the lease is taken, which writes: a refused run is not touched, and a finished one only cleared
    # of what killed processes have left.
    if run.config.exists():
        refuse_saved_agent(run)
        refuse_another(config, run)
        done = finished(config, run, console)
        if done is not None and (config.checkpoint.keep or state_folder(out) is None):
            clean_up(out)
            return done
    stop = Stop(deadline=time.monotonic() + 3600 * max_hours if max_hours else float("inf"))
    say = functools.partial(console.print, markup=False)
    try:
        with ending_cleanly(stop), Lease.acquire(out, on_wait=say) as lease:
            new = not run.config.exists()
            agree_on_configuration(config, run, lease, initial)
            # Meanwhile, or by a process that was killed before it cleared away.
            done = finished(config, run, console)
            if done is not None:
                if not config.checkpoint.keep:
                    lease.drop()
                return done
            lines = [*announcement(config, run), source.spec.note, note] if new else [heading(config)]
            for line in filter(None, lines):
                say(line, highlight=False)
            with torch_set_up(config):
                result = _Run(config, source, run, lease, console, stop, trackers).carry_out()
            if result["finished"] and not config.checkpoint.keep:
                lease.drop()
    except OSError as error:
        raise RunFailed(f"cannot write {run.path}: {error.strerror or error}; sacbbf resume {run.path}") from error
    return result


@dataclass
class _Run:
    """One process's work on a run."""

    config: RunConfig
    source: EnvSource
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
        config, stop, game = self.config, self.stop, self.source.spec.game
        with Display(self.console, game) as display:
            scoring = Scoring(config, self.source, display, stop)
            progress = self._learn(scoring) if config.agent not in BASELINES else scoring.baseline(config.agent)
            records = scoring.final(progress)
            baselines = scoring.compare() if records and config.eval.baselines else {}
        result = {
            "env": config.env,
            "agent": config.agent,
            "size": config.size,
            "seed": config.seed,
            "finished": not stop.reason,
            "stopped_by": stop.reason or None,
            **(score_fields(records, game) if records else {"score": None}),
            **progress.facts,
            **({"baselines": baselines} if baselines else {}),
            "wall_seconds": round(self.seconds, 1),
            "resumes": self.resumes,
            "versions": versions(),
            "machine": machine(config.device),
        }
        title = f"{config.env}: {config.agent}, {config.size}, seed {config.seed}"
        self.lease.publish(self.run.curve, draw_curve(self.run, title, game, result), "curve")
        self.lease.publish(self.run.result, json_bytes(result), "result")
        if result["finished"]:
            begin_again(self.run, game).close()  # TensorBoard shows the result too
            self.lease.check()
        return result

    @property
    def seconds(self) -> float:
        """Time spent on the run so far, by this process and those before it."""
        return self.seconds_before + time.monotonic() - self.started

    def _learn(self, scoring: Scoring) -> Progress:
        config, game = self.config, self.source.spec.game
        resumed = take_up(config, self.run, self.lease.folder, self.console, self.source.make)
        training = self._begin() if resumed is None else resumed.training
        checkpoints = Checkpoints(self.lease, identity(config), resumed)
        others = make_trackers(self.trackers, self.run, config, game, self._warn)
        for other in others:
            other.announce(functools.partial(self.console.print, markup=False, highlight=False))
        marks = None if resumed is None else resumed.manifest.records
        recorder = Recorder(self.lease, self.run, game, marks, others)
        if resumed is not None:
            self.seconds_before, self.resumes = resumed.manifest.seconds, checkpoints.resumes
            if resumed.cut_off is not None:
                recorder.add("episodes", episode_line(resumed.cut_off, training.step))
        policy = Interruptible(NetworkPolicy(training.learner.actor, torch.device(config.device), ROWS), self.stop)
        try:
            self._train(training, policy, recorder, checkpoints, scoring)
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
        return Training(self.config, make=self.source.make, initial=initial)

    def _train(
        self,
        training: Training,
        policy: Interruptible,
        recorder: Recorder,
        checkpoints: Checkpoints,
        scoring: Scoring,
    ) -> None:
        """Train to the end or until a stop; evaluations come between steps."""
        config, stop, display = self.config, self.stop, scoring.display
        display.begin("training", config.steps, training.step)
        clock = _SpeedClock(training.step, training.learner.updates)
        every = config.checkpoint.every
        while training.step < config.steps and not stop.wanted():
            if self._evaluation_due(training.step, recorder):
                try:
                    recorder.add("evaluations", scoring.interval(policy, training.step))
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
