"""What a tuning is, and its directory: two sweeps, one of trials and one of fresh seeds, and what is found.

tuning.json     what the tuning is
study.db        Optuna's storage: settings and scores of trials
clock.json      seconds that were worked so far
search/         a sweep: a variant for each trial, the default's among them
comparison/     a sweep: the default and the best trial on fresh seeds
best.toml       the configuration of the best trial; summary.json, tuning.html: the result
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from sacbbf import __version__
from sacbbf.agents.presets import SizeName
from sacbbf.disk.reading import MANIFEST, Unreadable, read_json
from sacbbf.errors import UsageError
from sacbbf.run.records import RunDirectory, write_json
from sacbbf.run.settings import RunConfig, Settings, configure
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.spec import Spec, Variant, environment_spec
from sacbbf.sweep.trust import names_modules
from sacbbf.tune.space import Axis, axis_from_json, axis_to_json

FORMAT = 1
WHAT = "the manifest of a tuning"
FIRST_SEED = 100  # of the trials; reported runs begin at 0
FIRST_FRESH = 200  # of the final comparison
MOST_SEEDS = 100
EPISODES = 30  # of a run's score: more runs tell more than more episodes
EVALUATIONS = 5  # stretches between which a run is evaluated
DEFAULT = "default"
KINDS: dict[str, type] = {
    **dict.fromkeys(("env", "agent", "size", "device"), str),
    **dict.fromkeys(("steps", "seeds", "fresh_seeds"), int),
    "settings": dict,
}


@dataclass(frozen=True)
class Tuning:
    """Everything that decides what trials are, and what the best one is compared with."""

    env: str
    agent: str
    size: SizeName
    steps: int
    space: tuple[Axis, ...]
    seeds: int  # of each trial
    fresh_seeds: int  # of the final comparison
    settings: Settings = field(default_factory=dict)  # of all runs
    device: str = "auto"

    def sweep(self, variants: Sequence[Variant], seeds: range) -> Spec:
        """Return variants and seeds as a sweep; runs are evaluated as they train, so that trials can be pruned."""
        own = {"eval.every": -(-self.steps // EVALUATIONS), "eval.episodes": EPISODES, "eval.baselines": False}
        return Spec(
            envs=(self.env,),
            variants=tuple(variants),
            seeds=tuple(seeds),
            size=self.size,
            steps=self.steps,
            settings=own | dict(self.settings),
            threads=1,
            device=self.device,
            note="part of a tuning",
        )

    def search(self, variants: Sequence[Variant]) -> Spec:
        """Return the sweep of trials."""
        return self.sweep(variants, range(FIRST_SEED, FIRST_SEED + self.seeds))

    def comparison(self, variants: Sequence[Variant]) -> Spec:
        """Return the sweep of the final comparison."""
        return self.sweep(variants, range(FIRST_FRESH, FIRST_FRESH + self.fresh_seeds))

    def variant(self, number: int, settings: Settings) -> Variant:
        """Return a trial as a variant of the agent; the first is the default."""
        return Variant(self.agent, settings, f"trial-{number:03d}" if number else DEFAULT)

    @property
    def names_modules(self) -> bool:
        """Whether its words, which are the user's, name a module to import."""
        return names_modules([self.env], [self.variant(0, {})], self.settings)

    def configuration(self, settings: Settings) -> RunConfig:
        """Return the configuration of an ordinary run with a trial's settings; its device may be one of other nodes."""
        given = {"size": self.size, "steps": self.steps, **self.settings, **settings}
        config, _ = configure(self.env, given, agent=self.agent, device="cpu", known=environment_spec)
        return replace(config, device=self.device)


@dataclass(frozen=True)
class TuningDirectory:
    """Paths of a tuning's files."""

    path: Path

    @property
    def manifest(self) -> Path:
        """What the tuning is."""
        return self.path / "tuning.json"

    @property
    def study(self) -> Path:
        """Optuna's storage."""
        return self.path / "study.db"

    @property
    def clock(self) -> Path:
        """The time that was worked so far."""
        return self.path / "clock.json"

    @property
    def search(self) -> SweepDirectory:
        """The runs of trials."""
        return SweepDirectory(self.path / "search")

    @property
    def comparison(self) -> SweepDirectory:
        """The runs of the final comparison."""
        return SweepDirectory(self.path / "comparison")

    @property
    def best(self) -> Path:
        """The configuration that was found."""
        return self.path / "best.toml"

    @property
    def summary(self) -> Path:
        """The result as plain data."""
        return self.path / "summary.json"

    @property
    def page(self) -> Path:
        """The result as a page."""
        return self.path / "tuning.html"

    def read(self) -> Tuning | None:
        """Return the tuning that lies here, None if there is none; UsageError if it cannot be read."""
        try:
            data = read_json(self.manifest, MANIFEST, WHAT)
        except FileNotFoundError:
            return None
        try:
            if data["format"] != FORMAT:
                raise ValueError(f"format {data['format']}; this version of sacbbf reads {FORMAT}")
            return from_json(data["tuning"])
        except (ValueError, KeyError, TypeError) as error:
            raise Unreadable(self.manifest, f"it is not {WHAT}: {error}") from error

    def begin(self, tuning: Tuning) -> None:
        """Store a tuning, or go on with the one that lies here; another one is refused, and so are other files."""
        old = self.read()
        if old is not None:
            found = list(conflicts(old, tuning))
            if found:
                lines = "\n".join(f"  {line}" for line in found)
                raise UsageError(
                    f"out = {self.path}: holds another tuning already; choose a new directory by --out, or give the "
                    f"words of that one. They differ in\n{lines}"
                )
            return
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise UsageError(f"out = {self.path}: holds other files already; choose a new or empty directory")
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.manifest, {"format": FORMAT, "version": __version__, "tuning": to_json(tuning)})


def finished(run: RunDirectory) -> dict[str, Any] | None:
    """Return the result of a finished run, with all that a tuning counts with; None if it is not finished."""
    result = run.read_result()
    if result is None or not result.get("finished"):
        return None
    lacking = [name for name in ("score", "wall_seconds", "updates") if result.get(name) is None]
    if lacking:
        raise Unreadable(run.result, f"it says that the run is finished, and has no {lacking[0]}")
    return result


def conflicts(old: Tuning, new: Tuning) -> Iterator[str]:
    """Words for all in which two tunings differ."""
    for entry in fields(Tuning):
        one, two = getattr(old, entry.name), getattr(new, entry.name)
        if one != two and entry.name == "space":
            here, there = {axis.name: str(axis) for axis in two}, {axis.name: str(axis) for axis in one}
            for name in {**there, **here}:
                if here.get(name) != there.get(name):
                    yield f"space: {name} {there.get(name, 'not tuned')} there, {here.get(name, 'not tuned')} here"
        elif one != two:
            yield f"{entry.name}: {one!r} there, {two!r} here"


def to_json(tuning: Tuning) -> dict[str, Any]:
    """Return a tuning as plain data."""
    plain = {entry.name: getattr(tuning, entry.name) for entry in fields(Tuning)}
    return plain | {"space": [axis_to_json(axis) for axis in tuning.space], "settings": dict(tuning.settings)}


def from_json(data: dict[str, Any]) -> Tuning:
    """Return the tuning that plain data describes; KeyError or TypeError if it describes none."""
    tuning = Tuning(**data | {"space": tuple(axis_from_json(axis) for axis in data["space"])})
    for name, kind in KINDS.items():
        value = getattr(tuning, name)
        if type(value) is not kind:
            raise TypeError(f"{name} = {value!r}")
    return tuning
