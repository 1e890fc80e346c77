"""`sacbbf train`: train an agent, or play a baseline, and write a run directory."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from sacbbf.agents.config import flatten
from sacbbf.agents.presets import BASELINES
from sacbbf.commands.parsing import parse
from sacbbf.disk.reading import Unreadable
from sacbbf.envs import games
from sacbbf.envs.make import EnvSettings
from sacbbf.envs.trust import admit, modules_of
from sacbbf.errors import UsageError
from sacbbf.machine.process import settle
from sacbbf.run.certainty import certainty, certainty_and_count
from sacbbf.run.devices import resolve_device
from sacbbf.run.more_steps import like_its_start, rescaled
from sacbbf.run.records import RunDirectory, default_directory
from sacbbf.run.remote_trackers import TrackerName
from sacbbf.run.settings import (
    BLANK,
    RunConfig,
    check_run,
    from_toml,
    overlay,
    read_toml,
    resolve,
)
from sacbbf.run.video import require_ffmpeg, write_video
from sacbbf.run.zoo import find_run

# Short flags of settings of the environment.
SHORT = {"resize": "resize", "env_kwargs": "kwargs", "wrapper": "wrappers", "import_": "imports"}
LISTS = ("kwargs", "wrappers", "imports")
LISTED = ("env_kwargs", "wrapper", "import_", *(f"environment.{name}" for name in LISTS))  # flags to repeat


EXAMPLES = """\
  sacbbf train CartPole-v1 --steps 10000
  sacbbf train Pong --agent bbf --seed 3 --out runs/pong
  sacbbf train MinAtar/Breakout-v1 --optimiser.learning-rate 1e-3 --video
"""


@dataclass(frozen=True)
class TrainArgs(RunConfig):
    """Train an agent on an environment and write a run directory with its score, curve, records and policy.

    ENV is an Atari game (Pong, ALE/Pong-v5), one of MinAtar's (MinAtar/Breakout-v1) or a Gymnasium id
    (CartPole-v1, module:id). Agent, size and steps choose a preset; every flag below overrides one of its settings,
    and the defaults shown are those of the preset chosen so far.
    """

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """The environment: Pong, MinAtar/Breakout-v1, CartPole-v1, module:id; `sacbbf list environments` has them all."""
    replay_ratio: int | None = None
    """Short for --schedule.replay-ratio: updates per environment step; schedules are scaled with it."""
    eval_every: int | None = None
    """Short for --eval.every: steps between evaluations during training."""
    resize: int | None = None
    """Short for --environment.resize: side that longer sides of pictures are shrunk to; 0: they keep their size."""
    env_kwargs: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="KEY=VALUE")] = ()
    """An argument that a Gymnasium environment is made with, in TOML or as a Python literal (--environment.kwargs)."""
    wrapper: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="MODULE:CLASS")] = ()
    """A wrapper around a Gymnasium environment, the first one innermost (--environment.wrappers)."""
    import_: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(name="import", metavar="MODULE")] = ()
    """A module to import first, which registers environments, encoders or the like (--environment.imports)."""
    config: Path | None = None
    """A TOML file, whole or in part, whose settings replace the preset's; flags replace both."""
    init: Path | None = None
    """Start from the weights of this run or saved agent, whose networks and size are taken over. Resets, which would
    draw most of them afresh, are then off unless --schedule.reset-every is given."""
    out: Path | None = None
    """The run directory: new or empty, or that of the same run, which then goes on; else runs/ENV-AGENT-SIZE-seedN."""
    max_hours: float | None = None
    """Stop training after this many hours; what was learned by then is evaluated and saved."""
    tracker: Annotated[tuple[TrackerName, ...], tyro.conf.UseAppendAction] = ()
    """Tell Weights & Biases (wandb) or MLflow (mlflow) too, online or off; TensorBoard is always told."""
    trust: bool = False
    """Import modules that the file of --config names and that are not installed, also from the working directory."""
    video: bool = False
    """Record an episode at the end, unless interrupted, as `sacbbf play` does: video.mp4 in the run directory."""
    quiet: bool = False
    """Print the result only."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    defaults, note = preset_defaults(argv)
    args = parse(TrainArgs, argv, "train", EXAMPLES, defaults)
    config = run_config(args)
    check_run(config)
    if args.video:
        check_video(config)
    from sacbbf.run.train import train

    settle()
    run = RunDirectory(args.out or default_directory(config.env, config.agent, config.size, config.seed))
    console = Console(quiet=args.quiet, soft_wrap=True)
    result = train(
        config,
        run.path,
        console=console,
        max_hours=args.max_hours,
        trackers=args.tracker,
        init=args.init,
        note=note,
    )
    code = finish(result, run)
    if args.video and code == 0 and run.policy.exists():
        record(run, config)
        console.print(f"video {run.path / 'video.mp4'}", highlight=False, markup=False)
    return code


def title(config: RunConfig) -> str:
    """Return a run in a line."""
    return f"{config.agent} on {config.env}, {config.size} size, {config.steps:,} steps, seed {config.seed}"


def check_video(config: RunConfig) -> None:
    """Raise UsageError where no video could be made: better before the training than after it."""
    from sacbbf.run.watching import filmed

    require_ffmpeg()
    filmed(config)[0].close()


def record(run: RunDirectory, config: RunConfig) -> None:
    """Film an episode of what was learned: video.mp4 in the run directory."""
    from sacbbf.run.torch_setup import torch_set_up
    from sacbbf.run.watching import Film, Wish

    film = Film(run, config, Wish(device=config.device))
    with torch_set_up(config):
        write_video(run.path / "video.mp4", film.pictures(), film.rate)


def finish(result: dict[str, Any], run: RunDirectory) -> int:
    """Print a run's last words and return the exit code: 130 if it was interrupted, as shells have it."""
    try:
        words = summary(result, run)
    except (KeyError, TypeError, ValueError) as error:
        raise Unreadable(run.result, f"it is not a run's result: {error!r}") from error
    Console(soft_wrap=True).print(words, highlight=False, markup=False)
    return 130 if result["stopped_by"] == "interrupt" else 0


def preset_defaults(argv: Sequence[str]) -> tuple[TrainArgs, str]:
    """Look ahead for the words that choose a preset, and return its settings as the defaults of all flags.

    What becomes of a configuration file's schedules at another number of steps is said in words; else those are empty.
    """
    words = _look_ahead(argv)
    source, init = words.pop("config", None), words.pop("init", None)
    tables = read_toml(Path(source), typed=True) if source is not None else {}
    overlay(BLANK, tables, str(source))  # refuses unknown settings and wrong types before any is used
    typed_env, trust = words.pop("env", ""), words.pop("trust", False)
    env = typed_env or tables.get("env")
    helping = any(word in ("-h", "--help") for word in argv)
    if env is None and not helping:
        raise UsageError("which environment? Give an Atari game (Pong), MinAtar/Breakout-v1, CartPole-v1, ...")
    start = None if init is None else from_toml(find_run(Path(init)).config)
    chosen = {} if start is None else {"agent": start.agent, "size": start.size}
    chosen |= {name: tables[name] for name in ("agent", "size", "steps", "seed", "device") if name in tables}
    steps = words.pop("steps", None)
    steps_there = chosen.get("steps")
    chosen["steps"] = steps if steps_there is None else steps_there
    environment = overlay(EnvSettings(), tables.get("environment", {}), str(source))
    flags = {name: words.pop(name) for name in list(words) if name in SHORT or name.startswith("environment.")}
    if helping:  # any device will do, and asking for a GPU takes PyTorch a second
        words["device"] = "cpu"
    there = with_flags(environment, flags)
    typed = typed_modules(typed_env, flags)
    admit(env or "Pong", there, Path(source or "."), typed=typed, trust=trust)
    base, spec = resolve(env or "Pong", environment=there, **chosen | words)
    if start is not None:
        base = like_its_start(base, start)
    base, note = overlay(base, tables, str(source)), ""
    if steps is not None and steps_there is not None and steps != base.steps:
        base, kept = rescaled(base, spec.kind, steps)
        note = f"{source} is for {steps_there:,} steps: its schedules are scaled to {steps:,}"
        note += f"; {', '.join(kept)} as the file has it" if kept else ""
    base = replace(base, environment=without_replaced(environment, flags))
    values = {name: getattr(base, name) for name in RunConfig.__dataclass_fields__}
    values["env"] = tyro.MISSING if env is None else base.env
    values["device"] = "auto" if helping else base.device
    return TrainArgs(**values), note


def typed_modules(env: str, flags: Mapping[str, Any]) -> set[str]:
    """Return the modules that the user named on this command line."""
    return {module for module, _ in modules_of(env, with_flags(EnvSettings(), flags))}


def with_flags(environment: EnvSettings, flags: Mapping[str, Any]) -> EnvSettings:
    """Return an environment's settings with those that flags, long or short, replace; of lists the long ones first."""
    changes: dict[str, Any] = {}
    for flag, value in flags.items():
        name = SHORT.get(flag, flag.removeprefix("environment."))
        changes[name] = (*changes.get(name, ()), *value) if isinstance(value, list) else value
    return replace(environment, **changes)


def without_replaced(environment: EnvSettings, flags: Mapping[str, Any]) -> EnvSettings:
    """Return a file's settings without the lists that flags replace: the parser adds to what is there."""
    names = {SHORT.get(flag, flag.removeprefix("environment.")) for flag in flags}
    changes: dict[str, Any] = dict.fromkeys(names & set(LISTS), ())
    return replace(environment, **changes)


def run_config(args: TrainArgs) -> RunConfig:
    """Return the configuration that the flags describe."""
    values = {name: getattr(args, name) for name in RunConfig.__dataclass_fields__}
    values["env"] = games.find_game(args.env) or args.env  # `pong` and `ALE/Pong-v5` are Pong
    config = RunConfig(**values)
    config = replace(config, device=resolve_device(config.device))
    if args.replay_ratio is not None:
        schedule = replace(config.settings.schedule, replay_ratio=args.replay_ratio)
        config = replace(config, settings=replace(config.settings, schedule=schedule))
    if args.eval_every is not None:
        config = replace(config, eval=replace(config.eval, every=args.eval_every))
    return replace(config, environment=with_short_flags(args))


def with_short_flags(args: TrainArgs) -> EnvSettings:
    """Return the environment's settings with what the short flags say of them."""
    there = args.environment
    changes: dict[str, Any] = {} if args.resize is None else {"resize": args.resize}
    for name, values in {"kwargs": args.env_kwargs, "wrappers": args.wrapper, "imports": args.import_}.items():
        changes[name] = getattr(there, name) + values
    return replace(there, **changes)


def summary(result: dict[str, Any], run: RunDirectory) -> str:
    """Return the last words of a run: score, what it compares with, where everything lies."""
    lines = []
    if result["score"] is None:
        lines.append(f"stopped by {result['stopped_by']} after {result['steps']:,} steps; no evaluation")
    else:
        words = certainty_and_count(result["interval_95"], result["episodes"])
        lines.append(f"score {result['score']:.2f} ({words})")
    for name, other in result.get("baselines", {}).items():
        how = f": {other['mix']}" if "mix" in other else ""
        lines.append(f"{name} play {other['score']:.2f} ({certainty(other['interval_95'], other['episodes'])}){how}")
    if "mix" in result:
        lines.append(f"best blind mix: {result['mix']}")
    if result.get("human_normalised") is not None:
        scores = games.SCORES[result["env"]]
        lines.append(
            f"human-normalised {result['human_normalised']:.3f} (random {scores.random:g}, human {scores.human:g})"
        )
    if result["updates"]:
        minutes = result["wall_seconds"] / 60
        lines.append(f"{result['steps']:,} steps, {result['updates']:,} updates, {minutes:.1f} minutes")
    elif result["agent"] not in BASELINES:
        lines.append(f"no update was made in {result['steps']:,} steps: the warm-up (schedule.warmup) was not over")
    lines.append(f"run directory {run.path}, learning curve {run.curve}")
    return "\n".join([*lines, *next_commands(result, run)])


def next_commands(result: dict[str, Any], run: RunDirectory) -> list[str]:
    """Return what to type next."""
    path = shlex.quote(str(run.path))
    if not result["finished"]:
        return [f"to go on: sacbbf resume {path}"]
    commands = [f"sacbbf report {path} --html report.html"]
    if run.policy.exists():
        commands = [f"sacbbf play {path}", f"sacbbf evaluate {path}", *commands]
    return [f"next: {commands[0]}", *(f"      {command}" for command in commands[1:])]


def _look_ahead(argv: Sequence[str]) -> dict[str, Any]:
    """Read the few words that choose a preset, leaving all checking of flags to the real parser."""
    wanted = {
        "agent": str,
        "size": str,
        "steps": int,
        "seed": int,
        "replay_ratio": int,
        "device": str,
        "config": str,
        "init": str,
        "resize": int,
        "environment.resize": int,
        "environment.pictures": str,
        **dict.fromkeys(LISTED, str),
    }
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("env", nargs="?")
    for name in _flags_with_values():
        flag = name.removesuffix("_")  # of `import_`
        spellings = dict.fromkeys((f"--{flag.replace('_', '-')}", f"--{flag}"))
        action = "append" if name in LISTED else "store"
        parser.add_argument(*spellings, dest=name, type=wanted.get(name, str), action=action)
    parser.add_argument("--trust", action="store_true", default=None)
    try:
        found, _ = parser.parse_known_args(list(argv))
    except argparse.ArgumentError as error:
        raise UsageError(str(error)) from error
    kept = (*wanted, "env", "trust")
    return {name: value for name, value in vars(found).items() if name in kept and value is not None}


def _flags_with_values() -> list[str]:
    """Names of all flags that take a value, so that none of their values is taken for ENV."""
    blank = TrainArgs(**{name: getattr(BLANK, name) for name in RunConfig.__dataclass_fields__})
    names = [name for name, value in flatten(blank).items() if not isinstance(value, bool)]
    return [name.removeprefix("settings.") for name in names if name != "env"]
