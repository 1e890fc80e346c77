"""Optuna's part: which settings a trial has, whether it is pruned, which settings mattered. Nothing else imports it.

Optuna keeps everything in one SQLite file, written in transactions: a process that is killed leaves it whole. What a
trial's settings are depends on its number and on the trials before it, not on how often the tuning was stopped.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sacbbf.errors import UsageError
from sacbbf.run.settings import Settings, Value
from sacbbf.tune.space import Axis, Choice

try:
    import optuna
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )
    from optuna.trial import FrozenTrial, TrialState
except ImportError as error:
    raise UsageError(f"tune: Optuna is not installed here: pip install 'sacbbf[tune]' ({error})") from error

NAME = "tuning"
DRAWN = 4  # trials that are drawn at random before the others learn from them
COMPLETE = 3  # finished trials before the first may be pruned

State = Literal["at work", "finished", "pruned", "failed"]
STATES: dict[TrialState, State] = {
    TrialState.RUNNING: "at work",
    TrialState.COMPLETE: "finished",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}


@dataclass(frozen=True)
class Trial:
    """One trial; number 0 is the default."""

    number: int
    settings: Settings  # that differ from the default's
    state: State
    score: float | None = None  # mean over its seeds
    points: Mapping[int, float] = field(default_factory=dict)  # what was reported, by steps of all its seeds
    why: str = ""  # it failed


class Study:
    """The trials of one tuning."""

    def __init__(self, path: Path, space: Sequence[Axis], default: Mapping[str, Value], warmup: int) -> None:
        """Open the storage; no trial is pruned before `warmup` steps."""
        logging.getLogger("optuna").setLevel(logging.ERROR)
        logging.getLogger("alembic").setLevel(logging.ERROR)
        # The default may lie outside of a space that words have narrowed; Optuna then learns from the rest of it.
        self._default = {axis.name: default[axis.name] for axis in space if axis.holds(default[axis.name])}
        self._space = {axis.name: distribution(axis) for axis in space}
        self._storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
        pruner = optuna.pruners.MedianPruner(COMPLETE, n_warmup_steps=warmup, n_min_trials=COMPLETE)
        self._study = optuna.create_study(
            storage=self._storage, study_name=NAME, direction="maximize", pruner=pruner, load_if_exists=True
        )
        self._id = self._storage.get_study_id_from_name(NAME)

    def trials(self) -> list[Trial]:
        """Return all trials that were begun, by number."""
        found = [_plain(one) for one in self._study.get_trials(deepcopy=False) if one.state != TrialState.WAITING]
        return sorted(found, key=lambda trial: trial.number)

    def ask(self) -> Trial:
        """Begin another trial; the first one is the default."""
        known = self._study.get_trials(deepcopy=False)
        first = all(one.state == TrialState.WAITING for one in known)
        if not known:
            self._study.enqueue_trial(self._default)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # of constant_liar, for workers
            self._study.sampler = optuna.samplers.TPESampler(
                n_startup_trials=DRAWN, constant_liar=True, seed=len(self.trials())
            )
        names = self._default if first else self._space
        asked = self._study.ask({name: self._space[name] for name in names})
        return Trial(asked.number, {} if first else dict(asked.params), "at work")

    def report(self, trial: Trial, step: int, value: float) -> bool:
        """Note what a trial has reached; True if it lies below the median of others and is to be pruned."""
        number = self._storage.get_trial_id_from_study_id_trial_number(self._id, trial.number)
        one = optuna.trial.Trial(self._study, number)
        if step in self._storage.get_trial(number).intermediate_values:  # before the tuning was stopped
            return False
        one.report(value, step)
        return trial.number > 0 and bool(one.should_prune())

    def finish(self, trial: Trial, score: float) -> None:
        """Note a trial's score."""
        self._study.tell(trial.number, score)

    def prune(self, trial: Trial) -> None:
        """Note that a trial was given up for want of promise."""
        self._study.tell(trial.number, state=TrialState.PRUNED)

    def fail(self, trial: Trial, why: str) -> None:
        """Note that a trial cannot be trained."""
        number = self._storage.get_trial_id_from_study_id_trial_number(self._id, trial.number)
        self._storage.set_trial_user_attr(number, "why", why)
        self._study.tell(trial.number, state=TrialState.FAIL)

    def importance(self) -> dict[str, float]:
        """Return each setting's share in what set the better half of finished trials apart; empty for want of trials.

        By PED-ANOVA, which compares how the settings of the better trials are distributed with those of all.
        """
        finished = [trial for trial in self.trials() if trial.state == "finished" and trial.number]
        if len(finished) < COMPLETE:
            return {}
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=0.5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there are few trials is said in our own words
            found = optuna.importance.get_param_importances(self._study, evaluator=evaluator)
        return {name: share for name, share in found.items() if math.isfinite(share)}

    def close(self) -> None:
        """Let the file go."""
        self._storage.remove_session()
        self._storage.engine.dispose()


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """Return the finished trial with the best score, of equal ones the first; None if there is none."""
    finished = [(trial.score, trial) for trial in trials if trial.state == "finished" and trial.score is not None]
    return max(finished, key=lambda pair: pair[0])[1] if finished else None


def distribution(axis: Axis) -> BaseDistribution:
    """Return an axis as Optuna has it."""
    if isinstance(axis, Choice):
        return CategoricalDistribution(axis.values)
    if axis.whole:
        return IntDistribution(int(axis.low), int(axis.high), log=axis.log)
    return FloatDistribution(axis.low, axis.high, log=axis.log)


def _plain(one: FrozenTrial) -> Trial:
    return Trial(
        number=one.number,
        settings=dict(one.params) if one.number else {},
        state=STATES[one.state],
        score=one.value if one.state == TrialState.COMPLETE else None,
        points=dict(one.intermediate_values),
        why=str(one.user_attrs.get("why", "")),
    )
