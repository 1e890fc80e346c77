"""A run's whole configuration: how it is resolved from a name and a size, stored as TOML, and compared.

It is read where nothing is trained too, so PyTorch is not imported here.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import tomli_w
import tyro

from sacbbf.agents.config import AgentConfig, flatten
from sacbbf.agents.presets import AGENTS, BASELINES, SIZES, AgentName, SizeName, preset
from sacbbf.agents.ranges import Between, check_settings
from sacbbf.agents.rules import check_agent
from sacbbf.disk.reading import CONFIGURATION, Unreadable, check_whole, read_file
from sacbbf.envs import games
from sacbbf.envs.base import EnvSpec
from sacbbf.envs.make import EnvSettings, make_env
from sacbbf.envs.trust import admit
from sacbbf.errors import UsageError
from sacbbf.run.devices import check_compiler, resolve_device
from sacbbf.run.earlier import in_todays_words

T = TypeVar("T")
Value = bool | int | float | str
Settings = Mapping[str, Value]  # by the names that flags have: `replay_ratio`, `loss.variance_reduction`

GIVEN_APART = ("env", "agent", "seed", "device", "initial_policy")  # not to be found among settings by name
# Settings that choose a preset, so that others follow from them.
WORDS: dict[str, type] = {"size": str, "steps": int, "replay_ratio": int}
# What values of a type are called in words.
KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
FREE = ("checkpoint.every", "checkpoint.keep", "eval.parallel")  # settings that no number depends on


@dataclass(frozen=True)
class EvalConfig:
    """Evaluation, during the run and at its end."""

    every: Annotated[int, Between(0)] = 0
    """Steps between evaluations during training; 0: none. They leave training untouched."""
    every_episodes: Annotated[int, Between(1, 1e6)] = 10
    """Episodes of each evaluation during training."""
    episodes: Annotated[int, Between(1, 1e6)] = 100
    """Episodes of the evaluation at the end; their mean is the run's score (paper: 100)."""
    greedy: bool = False
    """Take the most likely action instead of drawing one (the paper draws)."""
    parallel: Annotated[int, Between(1)] = 8
    """Environments played side by side; the scores do not depend on it."""
    baselines: bool = False
    """After the run, play chance and the best blind mix too, for comparison; by default where none are published."""


@dataclass(frozen=True)
class CheckpointConfig:
    """What is kept to take the run up again. No number depends on it."""

    every: Annotated[int, Between(0)] = 2_000
    """Steps between checkpoints; 0: only when a run is stopped, and at its end."""
    keep: bool = False
    """Keep checkpoints and replay of a finished run, instead of policy, records and result alone."""


@dataclass(frozen=True)
class Horizon:
    """The part of a run that its schedules stretch over; learning that goes on after a run's end leaves it behind."""

    start: Annotated[int, Between(0)] = 0
    """Step at which schedules begin; above 0 where learning went on with a new cycle of them."""
    steps: Annotated[int, Between(0)] = 0
    """Steps that schedules take from start to end, after which they keep their end values; 0: all that are left."""


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides what a run computes."""

    env: str
    agent: AgentName
    """What learns: sac-bbf, an agent that it descends from (`sacbbf list agents`), or random or blind, which play the
    baselines."""
    size: SizeName
    """How large the networks are: paper (for a GPU), laptop (Atari on a CPU) or tiny (grids and vectors; tiny-paper: as
    small, with every part of the paper's agent). By default tiny where no pictures are seen, else paper with CUDA and
    laptop without."""
    steps: Annotated[int, Between(1, 1e10)]
    """Environment steps (agent decisions) to train for."""
    seed: Annotated[int, Between(0)]
    """Root of all the run's randomness."""
    stack: Annotated[int, Between(1)]
    """Frames that make a state."""
    clip_rewards: bool
    """Clip rewards to [-1, 1] for learning; scores are never clipped."""
    device: str
    """auto, cpu, cuda, cuda:N or mps; auto is CUDA where there is a device, else the CPU."""
    threads: Annotated[int, Between(0, 4_096)]
    """CPU threads for PyTorch; 0: as many as PyTorch likes."""
    log_every: Annotated[int, Between(1)] = 200
    """Steps between records of losses and the like."""
    diagnose_every: Annotated[int, Between(0)] = 0
    """Steps between records of dormant units, effective rank, Q against returns, priorities; 0: none."""
    initial_policy: Annotated[str | None, tyro.conf.Suppress] = None
    """SHA-256 of the policy file whose weights the run started from; not set: networks were drawn."""
    horizon: Annotated[Horizon, tyro.conf.Suppress] = field(default_factory=Horizon)
    eval: EvalConfig = field(default_factory=EvalConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    environment: Annotated[EnvSettings, tyro.conf.UseAppendAction] = field(default_factory=EnvSettings)
    settings: Annotated[AgentConfig, tyro.conf.arg(name="")] = field(default_factory=AgentConfig)

    @property
    def schedule_steps(self) -> int:
        """Steps that the schedules stretch over."""
        return self.horizon.steps or max(1, self.steps - self.horizon.start)

    @property
    def updates(self) -> int:
        """Updates that the run does."""
        if self.agent in BASELINES:
            return 0
        return max(0, self.steps - self.settings.schedule.warmup) * self.settings.schedule.replay_ratio


BLANK = RunConfig("", "sac-bbf", "tiny", 1, 0, 1, False, "cpu", 0)  # for a configuration to be laid over


def resolve(
    env: str,
    *,
    agent: str = "sac-bbf",
    size: str | None = None,
    steps: int | None = None,
    seed: int = 0,
    replay_ratio: int | None = None,
    device: str = "auto",
    environment: EnvSettings | None = None,
    known: EnvSpec | None = None,
) -> tuple[RunConfig, EnvSpec]:
    """Return the run that a few words describe, every other setting at its preset, and its environment's spec.

    The environment is built to read its spec, unless that is known.
    """
    if agent not in AGENTS:
        raise UsageError(f"agent = {agent!r}: must be one of {', '.join(AGENTS)}")
    if size is not None and size not in SIZES:
        raise UsageError(f"size = {size!r}: must be one of {', '.join(SIZES)}")
    environment = environment or EnvSettings()
    spec = known or read_spec(env, environment)
    device = resolve_device(device)
    name = size or default_size(spec, device)
    chosen = SIZES[name]
    steps = chosen.steps if steps is None else steps
    if steps < 1:
        raise UsageError(f"steps = {steps}: must be at least 1")
    if replay_ratio is not None and replay_ratio < 1:
        raise UsageError(f"replay_ratio = {replay_ratio}: must be at least 1")
    config = RunConfig(
        env=spec.id,
        agent=agent,
        size=name,
        steps=steps,
        seed=seed,
        stack=spec.stack,
        clip_rewards=spec.clip_rewards,
        device=device,
        threads=chosen.threads,
        eval=EvalConfig(baselines=spec.game is None and agent not in BASELINES),
        environment=environment,
        settings=preset(name, spec.kind, steps, replay_ratio, agent),
    )
    return config, spec


def default_size(spec: EnvSpec, device: str) -> SizeName:
    """Return the size that fits an environment on a device."""
    if spec.kind != "image":
        return "tiny"
    return "laptop" if device == "cpu" else "paper"


def configure(
    env: str,
    given: Settings,
    *,
    agent: str = "sac-bbf",
    seed: int = 0,
    device: str = "auto",
    known: Callable[[str, EnvSettings], EnvSpec] | None = None,
) -> tuple[RunConfig, EnvSpec]:
    """Return the run that an agent and some settings by name describe, every other setting at its preset.

    `known` is asked for an environment's spec instead of building it.
    """
    for name in GIVEN_APART:
        if name in given:
            raise UsageError(f"settings: {name} = {given[name]!r}: is given on its own, not among the settings")
    words = {name: _typed(given[name], kind, name) for name, kind in WORDS.items() if name in given}
    environment = environment_of(given)
    spec = (known or read_spec)(env, environment)
    base, _ = resolve(env, agent=agent, seed=seed, device=device, environment=environment, known=spec, **words)
    return lay_over(base, given), spec


def lay_over(config: RunConfig, given: Settings) -> RunConfig:
    """Return a configuration with settings by name put in, except those that choose a preset."""
    return overlay(config, _tables(given), "settings")


def refuse_arguments(
    what: str, taken: Sequence[str], positional: Sequence[object], named: Mapping[str, object]
) -> None:
    """Raise UsageError for arguments that an agent does not take; one that is called like a setting may be meant so."""
    if len(positional) > 1:
        raise UsageError(
            f"{what}({', '.join(map(repr, positional))}): must be {what}({taken[0]}), all else by its name; "
            "networks follow from what the environment shows, and no policy is named"
        )
    flags = [flag.removeprefix("settings.") for flag in flatten(BLANK)]
    for name, value in named.items():
        raise UsageError(
            f"{what}: {name} = {value!r}: is no argument; settings go together by name, as in "
            f'settings={{"replay.batch_size": 32}}{_meant(name, [*taken, *flags], taken)}'
        )


def environment_of(given: Settings) -> EnvSettings:
    """Return the environment's settings among settings by name."""
    return overlay(EnvSettings(), _tables(given).get("environment", {}), "settings")


def _tables(settings: Settings) -> dict[str, Any]:
    """Return settings by dotted name as nested tables, without those that choose a preset.

    The agent's own lie below `settings`.
    """
    own = {entry.name for entry in fields(AgentConfig)}
    flags = [name.removeprefix("settings.") for name in flatten(BLANK)]
    there = list(dict.fromkeys(flag.partition(".")[0] for flag in flags))
    tables: dict[str, Any] = {}
    for given, value in settings.items():
        name = given.replace("-", "_")
        if name in WORDS:
            continue
        if not any(one == name or one.startswith(f"{name}.") or name.startswith(f"{one}.") for one in flags):
            raise UsageError(f"settings: no setting {given}{_meant(name, flags, there)}")
        path = name.split(".")
        table = tables
        for part in ["settings", *path[:-1]] if path[0] in own else path[:-1]:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise UsageError(f"{name}: {part} is a setting and a table of settings at once")
        table[path[-1]] = value
    return tables


def read_spec(env: str, environment: EnvSettings) -> EnvSpec:
    """Build an environment just long enough to read what it looks like."""
    made = make_env(env, settings=environment)
    try:
        return made.spec
    finally:
        made.close()


def check_run(config: RunConfig) -> None:
    """Raise UsageError for a setting out of its range."""
    check_agent(config.settings)
    check_settings(config, apart=("settings",))
    precision = config.settings.compute.precision
    if precision in ("tf32", "bf16") and not config.device.startswith("cuda"):
        raise UsageError(
            f"compute.precision = {precision!r} is for CUDA; on {config.device} it must be 'auto' or 'float32'"
        )
    if config.settings.compute.compile:
        check_compiler(config.device)
    if config.threads > 4 * (os.cpu_count() or 1):
        raise UsageError(f"threads = {config.threads}: must be at most {4 * (os.cpu_count() or 1)} on this machine")


# --- TOML ---------------------------------------------------------------------------------------------------


def to_toml(config: RunConfig) -> str:
    """Return the configuration as TOML; settings at "not set" are left out."""
    return tomli_w.dumps(_without_none(asdict(config)))


def read_toml(path: Path, *, typed: bool = False) -> dict[str, Any]:
    """Read a configuration file, whole or in part, as nested tables; a user may have `typed` its path."""
    try:
        content = read_file(path, CONFIGURATION, typed=typed)
    except FileNotFoundError as error:
        raise UsageError(f"cannot read the configuration {path}: {error.strerror}") from error
    try:
        tables = tomllib.loads(content.decode())
        _check_numbers(tables)
    except (ValueError, RecursionError) as error:
        raise Unreadable(path, f"it is not a configuration in TOML: {error}") from error
    return tables


def _check_numbers(value: Any) -> None:
    """Raise ValueError for a whole number that TOML does not have."""
    if isinstance(value, int):
        check_whole(value)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_numbers(inner)


def from_toml(path: Path) -> RunConfig:
    """Read a whole configuration, as a run stores it."""
    tables = read_toml(path)
    lacking = [name for name in ("env", "agent", "size", "steps", "seed") if name not in tables]
    if lacking:
        raise UsageError(f"{path} lacks {', '.join(lacking)}")
    return overlay(BLANK, in_todays_words(tables), str(path))


def playable(path: Path, trust: bool, remedy: str = "--trust") -> RunConfig:
    """Read a whole configuration whose environment is to be made; Untrusted where that would run a stranger's code."""
    config = from_toml(path)
    check_settings(config, apart=("settings",))
    admit(config.env, config.environment, path, trust=trust, remedy=remedy)
    return config


def overlay(config: T, tables: dict[str, Any], source: str, prefix: str = "") -> T:
    """Return a configuration with the values of nested tables put in; an unknown or ill-typed one is refused."""
    hints = get_type_hints(type(config))
    known = {entry.name: getattr(config, entry.name) for entry in fields(config)}  # type: ignore[arg-type]
    here = [prefix + one for one in known]
    changes: dict[str, Any] = {}
    for name, value in tables.items():
        if name not in known:
            raise UsageError(f"{source}: no setting {prefix}{name}{_meant(prefix + name, flatten(BLANK), here)}")
        if is_dataclass(known[name]):
            if not isinstance(value, dict):
                raise UsageError(f"{source}: {prefix}{name} = {value!r}: must be a table of settings")
            changes[name] = overlay(known[name], value, source, f"{prefix}{name}.")
        else:
            changes[name] = _typed(value, hints[name], f"{source}: {prefix}{name}")
    return replace(config, **changes)  # type: ignore[type-var]


def differences(first: RunConfig, second: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return the settings in which two runs differ, by dotted name."""
    one, two = flatten(first), flatten(second)
    return {name: (one.get(name), two.get(name)) for name in one | two if one.get(name) != two.get(name)}


def _typed(value: Any, hint: Any, name: str) -> Any:
    """Return the value as its setting's type has it, or raise UsageError; ranges are checked elsewhere."""
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise UsageError(f"{name} = {value!r}: must be one of {', '.join(map(str, get_args(hint)))}")
        return value
    if get_origin(hint) is tuple:  # of strings; in one string they stand between semicolons
        parts = [part.strip() for part in value.split(";")] if isinstance(value, str) else value
        if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
            raise UsageError(f"{name} = {value!r}: must be a list of strings")
        for part in parts:
            _check_printable(part, name)
        return tuple(parts)
    if isinstance(value, str):
        _check_printable(value, name)
    kind = next(kind for kind in (*get_args(hint), hint) if kind is not NoneType)  # `int | None` takes an int
    fitting = (int, float) if kind is float else kind
    if not isinstance(value, fitting) or (isinstance(value, bool) and kind is not bool):
        raise UsageError(f"{name} = {value!r}: must be {KINDS[kind]}")
    return kind(value)


def _meant(name: str, settings: Iterable[str], there: Iterable[str]) -> str:
    """Return which settings may have been meant by one that there is not: of the same last part, or spelled alike."""
    ends = {setting: setting.rpartition(".")[2] for setting in settings}
    end = name.rpartition(".")[2]
    if any(setting.startswith(f"settings.{name}.") for setting in ends):  # a table of the agent's, without its parent
        return games.suggestion([f"settings.{name}"])
    alike = [end] if end in ends.values() else games.nearest(end, ends.values())
    return (
        games.suggestion([setting for setting in ends if ends[setting] in alike]) or f"; there are {', '.join(there)}"
    )


def _check_printable(text: str, name: str) -> None:
    """Refuse letters that nobody sees, which could steer a terminal or break out of a line."""
    if not text.isprintable():
        raise UsageError(f"{name} = {text!r}: must be of letters that can be printed")


def _without_none(tables: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_none(value) if isinstance(value, dict) else value
        for name, value in tables.items()
        if value is not None
    }
