"""What a sweep consists of: games x agents with their settings x seeds. Each combination, a cell, is one run."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from sacbbf.agents.presets import AGENTS, BASELINES, SIZES, SizeName
from sacbbf.envs import games
from sacbbf.envs.base import EnvSpec
from sacbbf.envs.make import EnvSettings, known_environments
from sacbbf.errors import UsageError
from sacbbf.run.settings import (
    GIVEN_APART,
    RunConfig,
    Settings,
    Value,
    configure,
    default_size,
    environment_of,
    read_spec,
)

NOT_TO_SET = (*GIVEN_APART, "threads")  # have options of their own
LEVELS = 3  # folders of a cell's name
MOST = 100_000  # cells
WORTH_COMPILING = 20_000  # updates; docs/performance.md has what compiling takes and gives
SUBSET = 5  # games of the paper's ablations
SEEDS = "; must be as in 5 (0 to 4), 3-7 or 0,2,9"  # the end of a refusal


@dataclass(frozen=True)
class Variant:
    """An agent with the settings that set it apart from its preset."""

    agent: str
    settings: Settings = field(default_factory=dict)
    label: str = ""  # its name, if it has one

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.label or "+".join([self.agent, *(f"{name}={_plain(v)}" for name, v in self.settings.items())])


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    variant: Variant
    env: str
    seed: int

    @property
    def name(self) -> str:
        """Its folder below the sweep's runs: VARIANT/ENV/seedN."""
        return f"{self.variant.name}/{self.env.replace('/', '-').replace(':', '-')}/seed{self.seed}"


@dataclass(frozen=True)
class Spec:
    """A whole sweep. The number of threads is part of it: last bits depend on it, whoever runs a cell."""

    envs: tuple[str, ...]
    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]
    size: SizeName
    steps: int  # of a cell whose settings have no other number
    settings: Settings = field(default_factory=dict)  # of all cells
    threads: int | None = None  # None: the size's
    device: str = "auto"
    compile: bool = False  # compile the updates of cells that have enough of them, and no setting that says so
    note: str = ""  # what a reader of its results must know

    def cells(self) -> list[Cell]:
        """All cells; seed by seed, so that a sweep that is stopped has seen every game alike."""
        product = itertools.product(self.seeds, self.envs, self.variants)
        return [Cell(variant, env, seed) for seed, env, variant in product]

    def steps_of(self, cell: Cell) -> int:
        """Environment steps that a cell trains for."""
        if cell.variant.agent in BASELINES:
            return 0
        return int(cell.variant.settings.get("steps", self.settings.get("steps", self.steps)))


def configuration(spec: Spec, cell: Cell) -> RunConfig:
    """Return the configuration of a cell's run on this machine."""
    given = {"size": spec.size, "steps": spec.steps, **spec.settings, **cell.variant.settings}
    if spec.threads is not None:
        given["threads"] = spec.threads
    config, _ = configure(
        cell.env, given, agent=cell.variant.agent, seed=cell.seed, device=spec.device, known=environment_spec
    )
    if not spec.compile or "compute.compile" in given or config.updates < WORTH_COMPILING:
        return config
    compute = replace(config.settings.compute, compile=True)
    return replace(config, settings=replace(config.settings, compute=compute))


def fitting_size(envs: Sequence[str], device: str, settings: Settings | None = None) -> SizeName:
    """Return the size that fits all environments on a device; UsageError if they need different ones.

    What the environments are made with may be among the `settings` of all cells.
    """
    environment = environment_of(settings or {})
    found = {env: default_size(environment_spec(env, environment), device) for env in envs}
    if len(set(found.values())) > 1:
        words = ", ".join(f"{size} for {env}" for env, size in found.items())
        raise UsageError(f"size: the games fit different ones ({words}); choose one of {', '.join(SIZES)} for all")
    return next(iter(found.values()))


@cache
def environment_spec(env: str, environment: EnvSettings) -> EnvSpec:
    """Return what an environment looks like; built once for all cells."""
    return read_spec(env, environment)


# --- words of the command line ------------------------------------------------------------------------------


def parse_games(text: str) -> tuple[str, ...]:
    """Return the environments meant by `atari26`, `minatar`, `paper-subset:SEED`, or names between commas."""
    if text == "atari26":
        return games.GAMES
    if text == "minatar":
        return tuple(name for name in known_environments()["MinAtar"] if name.endswith("-v1"))  # minimal actions
    if text.startswith("paper-subset:"):
        return paper_subset(_whole(text.removeprefix("paper-subset:"), "games", text))
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError(f"games = {text!r}: must be atari26, minatar, paper-subset:SEED, or names between commas")
    return tuple(dict.fromkeys(games.find_game(name) or name for name in names))


def paper_subset(seed: int) -> tuple[str, ...]:
    """Return the five games of an ablation, drawn as the paper draws them: shuffled by numpy's seed, the first five."""
    if not 0 <= seed < 2**32:
        raise UsageError(f"games = 'paper-subset:{seed}': the seed must be in 0 .. 2**32 - 1")
    names = np.array(sorted(games.GAMES))
    np.random.RandomState(seed).shuffle(names)
    return tuple(map(str, names[:SUBSET]))


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds meant by `5` (0 to 4), `3-7` or `0,2,9`."""
    if "-" not in text and "," not in text:
        count = _whole(text, "seeds", text, SEEDS)
        if count < 1:
            raise UsageError(f"seeds = {text!r}: must be at least 1")
        return tuple(_seeds(0, count - 1, text))
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        start = _whole(first, "seeds", text, SEEDS)
        end = _whole(last, "seeds", text, SEEDS) if dash else start
        if end < start:
            raise UsageError(f"seeds = {text!r}: {part} runs backwards")
        seeds += _seeds(start, end, text)
    return tuple(dict.fromkeys(seeds))


def _seeds(start: int, end: int, given: str) -> range:
    if end - start >= MOST:
        raise UsageError(f"seeds = {given!r}: must be at most {MOST:,}")
    return range(start, end + 1)


def parse_variants(agents: str, vary: Sequence[str]) -> tuple[Variant, ...]:
    """Return every agent with every combination of the varied settings (`name=value,value`)."""
    names = list(dict.fromkeys(name.strip() for name in agents.split(",") if name.strip()))
    for name in names:
        if name not in AGENTS:
            raise UsageError(
                f"agents = {name!r}: must be among {', '.join(AGENTS)}{games.suggestion(games.nearest(name, AGENTS))}"
            )
    varied = dict(parse_values(text) for text in vary)
    if len(varied) < len(vary):
        raise UsageError(f"vary: a setting may be varied once; got {', '.join(vary)}")
    combinations = [dict(zip(varied, values, strict=True)) for values in itertools.product(*varied.values())]
    return tuple(Variant(name, settings) for name in names for settings in combinations)


def parse_settings(texts: Sequence[str]) -> dict[str, Value]:
    """Return settings given as `name=value`."""
    found: dict[str, Value] = {}
    for text in texts:
        name, values = parse_values(text, "set")
        if len(values) != 1:
            raise UsageError(f"set = {text!r}: must have one value; --vary takes several")
        found[name] = values[0]
    return found


def parse_values(text: str, option: str = "vary") -> tuple[str, list[Value]]:
    """Return a setting's name and the values given for it, as `name=value,value`."""
    name, equals, values = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or not name or not values.strip():
        raise UsageError(f"{option} = {text!r}: must be NAME=VALUE, as in loss.variance_reduction=false")
    if name in NOT_TO_SET:
        raise UsageError(f"{option} = {text!r}: {name} has an option of its own")
    return name, [_value(value.strip()) for value in values.split(",")]


def _value(text: str) -> Value:
    """Return a value as TOML reads it; what TOML does not know is a word."""
    try:
        found = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, bool | int | float | str) else text


def _whole(text: str, setting: str, given: str, takes: str = "") -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{setting} = {given!r}: {text!r} is not a whole number{takes}") from None


def _plain(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).replace("/", "-").replace(":", "-")


# --- JSON ---------------------------------------------------------------------------------------------------


def to_json(spec: Spec) -> dict[str, Any]:
    """Return a sweep as plain data."""
    variants = [
        {"agent": one.agent, "settings": dict(one.settings), **({"label": one.label} if one.label else {})}
        for one in spec.variants
    ]
    plain = {name: getattr(spec, name) for name in ("size", "steps", "threads", "device", "compile", "note")}
    lists = {"envs": list(spec.envs), "variants": variants, "seeds": list(spec.seeds)}
    return {**lists, **plain, "settings": dict(spec.settings)}


def from_json(data: Any) -> Spec:
    """Return the sweep that plain data describes; ValueError if it describes none."""
    try:
        variants = tuple(
            Variant(_text(one["agent"]), _settings(one["settings"]), _text(one.get("label", "")))
            for one in data["variants"]
        )
        spec = Spec(
            envs=tuple(map(_text, data["envs"])),
            variants=variants,
            seeds=tuple(_kind(seed, int) for seed in data["seeds"]),
            size=_size(data["size"]),
            steps=_kind(data["steps"], int),
            settings=_settings(data["settings"]),
            threads=_kind(data["threads"], int, None),
            device=_text(data["device"]),
            compile=_kind(data.get("compile", False), bool),  # sweeps of earlier versions did not say
            note=_text(data["note"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it lacks or misspells {error}") from error
    check_count(spec)
    for cell in spec.cells():
        parts = cell.name.split("/")
        if len(parts) != LEVELS or any(part in ("", ".", "..") for part in parts):
            raise ValueError(f"a cell does not lie where it should: {cell.name}")
    return spec


def check_count(spec: Spec) -> None:
    """Raise UsageError before more cells are made than anybody could run."""
    count = len(spec.envs) * len(spec.variants) * len(spec.seeds)
    if count > MOST:
        raise UsageError(f"a sweep of {count:,} cells: must have at most {MOST:,}")


def _text(value: Any) -> str:
    found: str = _kind(value, str)
    if not found.isprintable():
        raise TypeError(f"{value!r}, with letters that cannot be printed")
    return found


def _size(value: Any) -> SizeName:
    if value not in SIZES:
        raise TypeError(f"size {value!r}")
    found: SizeName = value
    return found


def _settings(value: Any) -> dict[str, Value]:
    return {_text(name): _kind(one, bool, int, float, str) for name, one in value.items()}


def _kind(value: Any, *kinds: type | None) -> Any:
    fitting = tuple(type(None) if kind is None else kind for kind in kinds)
    if not isinstance(value, fitting) or (isinstance(value, bool) and bool not in fitting):
        raise TypeError(f"{value!r}")
    return value


def conflicts(old: Spec, new: Spec) -> Iterator[str]:
    """Words for all that keeps a sweep from going on as another; none if it only adds cells to it, or another note."""
    for name in ("size", "steps", "settings", "threads", "device", "compile"):
        one, two = getattr(old, name), getattr(new, name)
        if one != two:
            yield f"{name}: {one!r} there, {two!r} here"
    here = {cell.name: cell for cell in new.cells()}
    for cell in old.cells():
        if here.get(cell.name) != cell:
            yield f"cells: {cell.name} is there, and not here"
            return
