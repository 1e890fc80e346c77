"""What a tuning may change: a space of settings for each size, and the words that change it. No Optuna here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from sacbbf.agents.config import flatten
from sacbbf.agents.presets import SizeName
from sacbbf.agents.rules import check_agent
from sacbbf.envs import games
from sacbbf.errors import UsageError
from sacbbf.run.settings import RunConfig, Value, lay_over
from sacbbf.sweep.spec import parse_values

ALIASES = {"replay_ratio": "schedule.replay_ratio"}


@dataclass(frozen=True)
class Range:
    """A setting between two values, both included."""

    name: str
    low: float
    high: float
    log: bool = False  # equally many trials in each power of ten, not in each stretch of equal length
    whole: bool = False

    @property
    def ends(self) -> tuple[Value, ...]:
        """The values at which the settings are checked."""
        return (int(self.low), int(self.high)) if self.whole else (float(self.low), float(self.high))

    def holds(self, value: Value) -> bool:
        """Whether a value lies in it."""
        return not isinstance(value, str) and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}{', log' if self.log else ''}"


@dataclass(frozen=True)
class Choice:
    """A setting that takes one of several values."""

    name: str
    values: tuple[Value, ...]

    @property
    def ends(self) -> tuple[Value, ...]:
        """The values at which the settings are checked."""
        return self.values

    def holds(self, value: Value) -> bool:
        """Whether a value is among them."""
        return value in self.values

    def __str__(self) -> str:
        return ", ".join(map(str, self.values))


Axis = Range | Choice


@dataclass(frozen=True)
class Around:
    """A logarithmic range around the preset's value: from `low` times to `high` times as much."""

    name: str
    low: float
    high: float


@dataclass(frozen=True)
class Multiples:
    """A choice among multiples of the preset's value."""

    name: str
    factors: tuple[float, ...]


# Ranges around the preset's own value suit every kind of observation, and every number of steps: counts of updates are
# scaled with it. docs/tune.md says why these settings, and not others.
TINY: tuple[Axis | Around | Multiples, ...] = (
    Around("optimiser.learning_rate", 0.3, 5.0),
    Around("schedule.beta_start", 0.1, 3.0),
    Range("schedule.entropy_start", 0.1, 0.8),
    Range("schedule.gamma_end", 0.97, 0.998),
    Range("schedule.n_start", 3, 15, whole=True),
    Range("schedule.n_end", 1, 5, whole=True),
    Around("schedule.cycle", 0.5, 5.0),
    Multiples("schedule.reset_every", (0.0, 0.5, 1.0)),
)
SPACES: dict[SizeName, tuple[Axis | Around | Multiples, ...]] = {
    "tiny": (*TINY, Choice("schedule.replay_ratio", (1, 2))),
    "tiny-paper": (*TINY, Choice("schedule.replay_ratio", (1, 2))),
    "laptop": (
        Around("optimiser.learning_rate", 0.1, 2.0),
        Around("schedule.beta_start", 0.1, 3.0),
        Range("schedule.gamma_end", 0.98, 0.998),
        Range("schedule.n_end", 1, 5, whole=True),
        Around("schedule.cycle", 0.2, 2.0),
        Multiples("schedule.reset_every", (0.0, 0.5, 1.0)),
        Around("loss.spr_weight", 0.1, 2.0),
        Multiples("schedule.replay_ratio", (1.0, 2.0)),
    ),
    "paper": (
        Around("optimiser.learning_rate", 0.3, 5.0),
        Around("schedule.beta_start", 0.1, 5.0),
        Range("schedule.gamma_end", 0.985, 0.998),
        Range("schedule.n_end", 1, 5, whole=True),
        Around("schedule.cycle", 0.5, 3.0),
        Multiples("schedule.reset_every", (0.5, 1.0, 2.0)),
        Around("loss.spr_weight", 0.2, 2.0),
        Multiples("schedule.replay_ratio", (1.0, 2.0)),
    ),
}


def space_of(config: RunConfig, words: Sequence[str], fixed: Sequence[str], only: bool) -> tuple[Axis, ...]:
    """Return the space of a tuning: that of the size, with the words of --space in it, or `only` these.

    Settings that are `fixed` for all trials are left out, and so are those of parts that the agent does not have.
    """
    given = [parse_axis(text, config) for text in words]
    named = [axis.name for axis in given]
    for name in named:
        if named.count(name) > 1 or name in fixed:
            other = "--set" if name in fixed else "--space"
            raise UsageError(f"space = {name}: is given by another {other} already; must be given once")
    if only and not given:
        raise UsageError("only = True: leaves no setting to tune; name some by --space NAME=LOW:HIGH")
    own = [] if only else [_placed(one, config) for one in SPACES[config.size] if _has(config, one.name)]
    space = (*(axis for axis in own if axis.name not in (*named, *fixed)), *given)
    for axis in space:
        check_axis(axis, config)
    return space


def default_of(name: str, config: RunConfig) -> Value:
    """Return a setting's value in a configuration."""
    found: Value = flatten(config.settings)[name]
    return found


def _has(config: RunConfig, name: str) -> bool:
    """Whether the agent has what a setting belongs to: resets, an entropy bonus, changing n and gamma, SPR."""
    schedule = config.settings.schedule
    if name in ("schedule.beta_start", "schedule.entropy_start"):
        learned = schedule.temperature == "target"
        return schedule.beta_start != 0 and learned == (name == "schedule.entropy_start")
    if name in ("schedule.n_start", "schedule.n_end") and schedule.n_start == schedule.n_end:
        return False
    if name in ("schedule.gamma_end", "schedule.cycle") and schedule.gamma_start == schedule.gamma_end:
        return False
    return default_of(name, config) != 0


def _placed(one: Axis | Around | Multiples, config: RunConfig) -> Axis:
    """Return the range or the choice that is meant where the preset's value is known."""
    if isinstance(one, Range | Choice):
        return one
    value = cast(int | float, default_of(one.name, config))
    whole = isinstance(value, int)
    if isinstance(one, Multiples):
        numbers = [factor * value for factor in one.factors]
        return Choice(one.name, tuple(dict.fromkeys(round(number) if whole else number for number in numbers)))
    low, high = one.low * value, one.high * value
    if whole:
        return Range(one.name, max(1, round(low)), max(1, round(high)), log=True, whole=True)
    return Range(one.name, float(f"{low:.4g}"), float(f"{high:.4g}"), log=True)


def check_axis(axis: Axis, config: RunConfig) -> None:
    """Raise UsageError if an end of a range, or one of several values, is none that the setting may have."""
    for value in axis.ends:
        try:
            check_agent(lay_over(config, {axis.name: value}).settings)
        except UsageError as error:
            raise UsageError(f"space = {axis.name}: {error}") from error


# --- words of the command line ------------------------------------------------------------------------------


def parse_axis(text: str, config: RunConfig) -> Axis:
    """Return the range or the choice meant by `NAME=LOW:HIGH[:log]` or `NAME=a,b,c`."""
    name, _, words = text.partition("=")
    if ":" not in words:
        name, values = parse_values(text, "space")
        name = known_name(ALIASES.get(name, name), config, text)
        whole = _is_whole(name, config)
        kept = [float(v) if isinstance(v, int) and not isinstance(v, bool) and not whole else v for v in values]
        return Choice(name, tuple(dict.fromkeys(kept)))
    name = name.strip().replace("-", "_")
    name = known_name(ALIASES.get(name, name), config, text)
    parts = words.split(":")
    log = parts[2:] == ["log"]
    try:
        low, high = map(float, parts[:2])
    except ValueError:
        low = high = float("nan")
    if not low < high or (parts[2:] and not log):
        raise UsageError(f"space = {text!r}: must be NAME=LOW:HIGH or NAME=LOW:HIGH:log with LOW below HIGH")
    if log and low <= 0:
        raise UsageError(f"space = {text!r}: LOW must be above 0 for a logarithmic range")
    return _range(name, low, high, log, config, text)


def _range(name: str, low: float, high: float, log: bool, config: RunConfig, text: str) -> Range:
    value = default_of(name, config)
    if isinstance(value, bool | str):
        raise UsageError(f"space = {text!r}: {name} is no number; must be NAME=a,b,c")
    axis = Range(name, low, high, log, _is_whole(name, config))
    if axis.whole and not (low.is_integer() and high.is_integer()):
        raise UsageError(f"space = {text!r}: {name} is a whole number, so LOW and HIGH must be whole numbers")
    return replace(axis, low=int(low), high=int(high)) if axis.whole else axis


def _is_whole(name: str, config: RunConfig) -> bool:
    value = default_of(name, config)
    return isinstance(value, int) and not isinstance(value, bool)


def known_name(name: str, config: RunConfig, text: str) -> str:
    """Return a setting's name if it is one of the agent's that may be tuned, else raise UsageError."""
    names = [one for one in flatten(config.settings) if not one.startswith("compute.")]
    if name not in names:
        near = games.suggestion(games.nearest(name, names))
        raise UsageError(f"space = {text!r}: {name} is no setting of an agent; as in schedule.n_end=1:5{near}")
    return name


# --- JSON ---------------------------------------------------------------------------------------------------


def axis_to_json(axis: Axis) -> dict[str, object]:
    """Return an axis as plain data."""
    if isinstance(axis, Choice):
        return {"name": axis.name, "values": list(axis.values)}
    return {"name": axis.name, "low": axis.low, "high": axis.high, "log": axis.log, "whole": axis.whole}


def axis_from_json(data: dict[str, object]) -> Axis:
    """Return the axis that plain data describes; TypeError or KeyError if it describes none."""
    if "values" in data:
        values = data["values"]
        return Choice(str(data["name"]), tuple(values if isinstance(values, list) else []))
    found = Range(**data)  # type: ignore[arg-type]
    if not isinstance(found.name, str) or not all(isinstance(end, int | float) for end in (found.low, found.high)):
        raise TypeError(f"{data!r}")
    return found
