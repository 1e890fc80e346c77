"""Optuna's part: which settings a trial has, whether it is pruned, which settings mattered. Nothing else imports it.

Optuna keeps everything in one SQLite file, written in transactions: a process that is killed leaves it whole. What a
trial's settings are depends on its number and on the trials before it, not on how often the tuning was stopped. The
file may be a stranger's: what it holds must be trials of this very tuning.
"""

from __future__ import annotations

import functools
import logging
import math
import sqlite3
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Concatenate, Literal, ParamSpec, TypeVar

from sacbbf.disk.reading import Unreadable
from sacbbf.errors import RunFailed, UsageError
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
# What SQLite says where the file may be whole and the disk is full, say.
UNWRITABLE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR)
P = ParamSpec("P")
R = TypeVar("R")

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


def _told(method: Callable[Concatenate[Study, P], R]) -> Callable[Concatenate[Study, P], R]:
    """Tell in a sentence what is wrong with the file; Optuna and SQLAlchemy raise errors of all kinds for that."""

    @functools.wraps(method)
    def telling(self: Study, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except (UsageError, RunFailed, OSError, MemoryError):
            raise
        except Exception as error:
            raise _fault(self.path, error) from error

    return telling


def _fault(path: Path, error: BaseException) -> UsageError | RunFailed:
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in UNWRITABLE:
        return RunFailed(f"cannot use {path}: {error}")
    words = " ".join(str(error).split()) or "Optuna cannot make sense of it"
    return Unreadable(path, f"it does not hold the trials of this tuning: {words}")


class Study:
    """The trials of one tuning."""

    @_told
    def __init__(self, path: Path, space: Sequence[Axis], default: Mapping[str, Value], warmup: int) -> None:
        """Open the storage; no trial is pruned before `warmup` steps."""
        self.path = path
        logging.getLogger("optuna").setLevel(logging.ERROR)
        logging.getLogger("alembic").setLevel(logging.ERROR)
        # The default may lie outside of a space that words have narrowed; Optuna then learns from the rest of it.
        self._default = {axis.name: default[axis.name] for axis in space if axis.holds(default[axis.name])}
        self._axes = {axis.name: axis for axis in space}
        self._space = {axis.name: distribution(axis) for axis in space}
        self._storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
        pruner = optuna.pruners.MedianPruner(COMPLETE, n_warmup_steps=warmup, n_min_trials=COMPLETE)
        self._study = optuna.create_study(
            storage=self._storage, study_name=NAME, direction="maximize", pruner=pruner, load_if_exists=True
        )
        self._id = self._storage.get_study_id_from_name(NAME)
        self.trials()

    @_told
    def trials(self) -> list[Trial]:
        """Return all trials that were begun, by number."""
        found = [_plain(one) for one in self._study.get_trials(deepcopy=False) if one.state != TrialState.WAITING]
        found.sort(key=lambda trial: trial.number)
        if [trial.number for trial in found] != list(range(len(found))):
            raise ValueError("they are not numbered from 0 on")
        for trial in found:
            self._check(trial)
        return found

    def _check(self, trial: Trial) -> None:
        """Raise ValueError for a trial that this tuning cannot have."""
        for name, value in trial.settings.items():
            if name not in self._axes or not self._axes[name].holds(value):
                raise ValueError(f"trial {trial.number} has {name} = {value!r}, which lies outside of the space")
        if trial.state == "finished" and (trial.score is None or not math.isfinite(trial.score)):
            raise ValueError(f"trial {trial.number} is finished and has no score")

    @_told
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

    @_told
    def report(self, trial: Trial, step: int, value: float) -> bool:
        """Note what a trial has reached; True if it lies below the median of others and is to be pruned."""
        number = self._storage.get_trial_id_from_study_id_trial_number(self._id, trial.number)
        one = optuna.trial.Trial(self._study, number)
        if step in self._storage.get_trial(number).intermediate_values:  # before the tuning was stopped
            return False
        one.report(value, step)
        return trial.number > 0 and bool(one.should_prune())

    @_told
    def finish(self, trial: Trial, score: float) -> None:
        """Note a trial's score."""
        self._study.tell(trial.number, score)

    @_told
    def prune(self, trial: Trial) -> None:
        """Note that a trial was given up for want of promise."""
        self._study.tell(trial.number, state=TrialState.PRUNED)

    @_told
    def fail(self, trial: Trial, why: str) -> None:
        """Note that a trial cannot be trained."""
        number = self._storage.get_trial_id_from_study_id_trial_number(self._id, trial.number)
        self._storage.set_trial_user_attr(number, "why", why)
        self._study.tell(trial.number, state=TrialState.FAIL)

    @_told
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
