"""What a tuning has found: every number of its summary and its page, computed once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sacbbf import __version__
from sacbbf.run.settings import Settings, Value
from sacbbf.tune.compare import Comparison, mean_interval
from sacbbf.tune.space import Axis, Choice
from sacbbf.tune.study import Trial, best_of
from sacbbf.tune.tuning import FIRST_FRESH, FIRST_SEED, Tuning, to_json


@dataclass(frozen=True)
class Spent:
    """The budget, and what was used of it."""

    trials: int | None
    hours: float | None
    hours_used: float
    workers: int


@dataclass(frozen=True)
class Stretch:
    """Trials whose value of a setting lies in one part of its range, or is one of its choices."""

    words: str
    scores: tuple[float, ...]


@dataclass(frozen=True)
class Findings:
    """The result of a tuning."""

    tuning: Tuning
    trials: tuple[Trial, ...]
    default: Mapping[str, Value]  # the default's value of every tuned setting
    importance: Mapping[str, float]
    comparison: Comparison | None
    spent: Spent

    @property
    def first(self) -> Trial:
        """The default."""
        return self.trials[0]

    @property
    def best(self) -> Trial:
        """The trial with the best score; the default, if none is better."""
        return best_of(self.trials) or self.first

    @property
    def verdict(self) -> str:
        """What the final comparison says, in words."""
        if not self.best.number:
            return "no trial scores above the default: there is nothing to compare on fresh seeds"
        if self.comparison is None:
            return f"trial {self.best.number} is not compared with the default: no fresh seed was finished by both"
        return f"trial {self.best.number} {self.comparison.verdict}"

    def stretches(self, axis: Axis) -> list[Stretch]:
        """Return the finished trials by their value of a setting: each choice, or the thirds of those of a range."""
        known = [
            (trial.settings.get(axis.name, self.default[axis.name]), trial.score)
            for trial in self.trials
            if trial.score is not None
        ]
        if isinstance(axis, Choice):
            groups = [(str(value), [score for own, score in known if own == value]) for value in axis.values]
        else:
            groups = _thirds(sorted(known, key=lambda pair: float(pair[0])))
        return [Stretch(words, tuple(scores)) for words, scores in groups if scores]

    def settings_of(self, trial: Trial) -> Settings:
        """Return a trial's value of every tuned setting."""
        return {**self.default, **trial.settings}


def _thirds(pairs: Sequence[tuple[Value, float]]) -> list[tuple[str, list[float]]]:
    """Cut pairs of value and score, in the order of values, into three groups of about the same size."""
    ends = [round(part * len(pairs) / 3) for part in range(4)]
    groups = [pairs[low:high] for low, high in itertools.pairwise(ends)]
    return [(_span([value for value, _ in own]), [score for _, score in own]) for own in groups if own]


def _span(values: Sequence[Value]) -> str:
    return " to ".join(dict.fromkeys(map(value_words, (values[0], values[-1]))))


def value_words(value: Value) -> str:
    """Return a setting's value in few letters."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def budget_words(found: Findings) -> str:
    """Return the budget in one line."""
    tuning, spent = found.tuning, found.spent
    limits = [] if spent.trials is None else [f"at most {spent.trials} trials"]
    limits += [] if spent.hours is None else [f"at most {spent.hours:g} hours"]
    return (
        f"{len(found.trials)} trials ({', '.join(limits)}) of {tuning.seeds} seed{'s' * (tuning.seeds > 1)}, "
        f"{tuning.steps:,} steps each; {spent.hours_used:.2f} hours with {spent.workers} at a time"
    )


def comparison_lines(found: Findings) -> list[str]:
    """Return the final comparison in a few lines: the verdict, and the scores behind it."""
    lines = [found.verdict]
    if found.comparison is None:
        return lines
    for name, scores in (("default", found.comparison.default), (f"trial {found.best.number}", found.comparison.best)):
        lines.append(f"  {name}: {span_words(mean_interval(scores))}, {len(scores)} fresh seeds")
    lines.append(f"  difference: {span_words(found.comparison.difference)}")
    return lines


def last_words(found: Findings) -> list[str]:
    """Return the result in the lines that the command prints, and that stand above the configuration."""
    lines = [*comparison_lines(found), budget_words(found)]
    if found.best.number:
        words = ", ".join(f"{name}={value_words(value)}" for name, value in found.best.settings.items())
        lines.append(f"trial {found.best.number}: {words}")
    return lines


def span_words(estimate: Any) -> str:
    """Return a score with its interval in words."""
    if estimate.low is None:
        return f"{estimate.value:.2f}"
    return f"{estimate.value:.2f} (95% interval {estimate.low:.2f} to {estimate.high:.2f})"


def to_summary(found: Findings) -> dict[str, Any]:
    """Return the result as plain data."""
    comparison = found.comparison
    return {
        "version": __version__,
        "tuning": to_json(found.tuning),
        "tuning_seeds": [FIRST_SEED + number for number in range(found.tuning.seeds)],
        "fresh_seeds": [FIRST_FRESH + number for number in range(found.tuning.fresh_seeds)],
        "budget": asdict(found.spent),
        "trials": [
            {
                "number": one.number,
                "settings": dict(one.settings),
                "state": one.state,
                "score": one.score,
                "why": one.why,
            }
            for one in found.trials
        ],
        "default": dict(found.default),
        "best": found.best.number,
        "importance": dict(found.importance),
        "comparison": None
        if comparison is None
        else asdict(comparison) | {"difference": asdict(comparison.difference)},
        "verdict": found.verdict,
    }
