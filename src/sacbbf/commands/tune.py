"""`sacbbf tune`: settings that beat the preset's on an environment, searched for and confirmed on fresh seeds."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console

from sacbbf.agents.presets import BASELINES, SIZES, SizeName
from sacbbf.commands.parsing import parse
from sacbbf.disk.reading import CONFIGURATION, RESULT, Unreadable, read_file, read_json
from sacbbf.envs import games
from sacbbf.envs.trust import search_working_directory
from sacbbf.errors import UsageError
from sacbbf.run.settings import Value
from sacbbf.sweep.spec import Variant, fitting_size, parse_settings
from sacbbf.sweep.trust import names_modules
from sacbbf.sweep.workers import Workers, check_workers, device_of, gpu_names
from sacbbf.tune.budget import Budget, Clock, check_hours, measured_pace, planned_steps
from sacbbf.tune.space import ALIASES, space_of
from sacbbf.tune.tuning import MOST_SEEDS, Tuning, TuningDirectory

if TYPE_CHECKING:
    from sacbbf.tune.findings import Findings

WHAT = "the result of a tuning"
APART = ("size", "steps")  # settings that have options of their own

EXAMPLES = """\
  sacbbf tune CartPole-v1 --trials 12 --hours 0.3
  sacbbf tune CartPole-v1 --hours 0.3 --space schedule.n_end=1:5
"""


@dataclass(frozen=True)
class TuneArgs:
    """Search for settings that beat the preset's on an environment, and compare the best with it on fresh seeds.

    The first trial is the preset as it is. Optuna chooses the others; one whose evaluations during training fall below
    the median is pruned. Trials end with --trials or --hours, whichever comes first; the final comparison is within the
    hours. Stopped or killed, the same command goes on, with more trials or hours too. The result is best.toml, for
    `sacbbf train --config`, and a page, tuning.html, in the tuning's directory.
    """

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """An Atari game (Pong), one of MinAtar's (MinAtar/Breakout-v1) or a Gymnasium id (CartPole-v1, module:id)."""
    trials: int | None = None
    """At most this many trials, the default, pruned and failed ones among them."""
    hours: float | None = None
    """At most this many hours of work, the final comparison included: no trial begins that cannot end by then."""
    agent: str = "sac-bbf"
    """The agent to tune."""
    size: SizeName | None = None
    """Its size; by default the one that fits the environment and the machine."""
    steps: int | None = None
    """Environment steps of each run. By default the size's or, where --hours allow fewer, as many as let all trials
    (12, if not given) and the comparison fit, by the speed of this machine."""
    space: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """NAME=LOW:HIGH, NAME=LOW:HIGH:log or NAME=a,b,c: a setting to tune, instead of its range in the size's space or
    beside that space."""
    only: bool = False
    """Tune the settings that --space names and no others."""
    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """NAME=VALUE: a setting of all runs, the default's too, as in eval.episodes=20. It is not tuned."""
    seeds: int = 2
    """Seeds of each trial, from 100 on: a score is the mean over them."""
    fresh_seeds: int = 12
    """Seeds of the final comparison, from 200 on, for the default and for the best trial."""
    out: Path | None = None
    """The tuning's directory; by default tune/ENV-AGENT-SIZE."""
    executor: Literal["local", "ray"] = "local"
    """local: processes on this machine; ray: a Ray cluster."""
    workers: int | None = None
    """Runs at a time, one CPU thread each; by default as many as there are cores, on GPUs --per-gpu for each. Must be
    given for ray."""
    device: str = "auto"
    """Device of all runs: auto, cpu, cuda or mps."""
    per_gpu: int = 1
    """Runs that share a GPU."""
    address: str | None = None
    """ray: address of the cluster, `auto` for the one this machine belongs to; by default a new one is started here."""
    retries: int = 2
    """How often a run may fail before its trial is given up."""
    quiet: bool = False
    """Print the result only."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    args = parse(TuneArgs, argv, "tune", EXAMPLES)
    workers = check(args)
    from sacbbf.tune.carry_out import Limits, Tuner  # needs Optuna, which --help and refusals do not

    console = Console(quiet=args.quiet, soft_wrap=True)
    directory, tuning = settle(args, workers, console)
    limits = Limits(args.trials, args.hours, workers)
    if is_done(directory, args):
        console.print(f"{directory.path} is finished; more --trials or --hours go on with it", markup=False)
        print_again(directory)
        return 0
    found = Tuner(tuning, directory, limits, console).run()
    if found is None:
        print(f"stopped; to go on: sacbbf tune {shlex.join(argv)}", file=sys.stderr)
        return 130
    show(found, directory)
    return 0


def check(args: TuneArgs) -> Workers:
    """Raise UsageError for what makes no sense, and return who does the work."""
    if args.trials is None and args.hours is None:
        raise UsageError("trials, hours: when does it end? Give --trials, --hours, or both")
    bounds = {"trials": (1, None), "steps": (1, None), "seeds": (1, MOST_SEEDS), "fresh_seeds": (2, MOST_SEEDS)}
    for name, (least, most) in bounds.items():
        number = getattr(args, name)
        if number is not None and not least <= number <= (number if most is None else most):
            raise UsageError(
                f"{name} = {number}: must be {f'at least {least}' if most is None else f'{least} to {most}'}"
            )
    if args.hours is not None and not args.hours > 0:
        raise UsageError(f"hours = {args.hours:g}: must be above 0")
    if args.agent in BASELINES:
        raise UsageError(f"agent = {args.agent!r}: a baseline has nothing to tune; must be an agent that learns")
    if args.executor == "ray" and args.workers is None:
        raise UsageError("workers = None: must be given with --executor ray, since the hours depend on it")
    if args.executor == "local" and args.address is not None:
        raise UsageError(f"address = {args.address!r}: is for --executor ray")
    names = ("executor", "workers", "device", "per_gpu", "address", "retries")
    workers = Workers(**{name: getattr(args, name) for name in names})
    check_workers(workers)
    device = device_of(workers)
    at_a_time = args.workers or len(gpu_names(device)) * args.per_gpu or os.cpu_count() or 1
    return replace(workers, device=device, workers=at_a_time)


def settle(args: TuneArgs, workers: Workers, console: Console) -> tuple[TuningDirectory, Tuning]:
    """Return the tuning that the flags describe, and its directory; what is not given is as it lies there."""
    fixed = fixed_settings(args)
    env = games.find_game(args.env) or args.env
    here = workers.executor == "local"
    if names_modules([env], [Variant(args.agent)], fixed):
        search_working_directory()
    size = args.size or fitting_size([env], workers.device if here else "cpu", fixed)
    path = args.out or Path("tune") / f"{env.replace('/', '-').replace(':', '-')}-{args.agent}-{size}"
    directory = TuningDirectory(path.absolute())
    there = directory.read()
    steps = args.steps or (SIZES[size].steps if there is None else there.steps)
    tuning = described(args, env, size, steps, fixed, workers.device)
    from sacbbf.sweep.check import check as check_sweep

    check_sweep(tuning.search([tuning.variant(0, {})]), here)
    if there is None and args.hours is not None:
        tuning = fitted(args, tuning, args.hours, workers.workers or 1, Clock(directory.clock))
        console.print(f"{tuning.steps:,} steps for each run", highlight=False)
    return directory, tuning


def fitted(args: TuneArgs, tuning: Tuning, hours: float, workers: int, clock: Clock) -> Tuning:
    """Return a tuning with as many steps as fit into its hours, unless they are given; too few hours are refused."""
    pace = measured_pace(tuning)
    if args.steps is None:
        steps = planned_steps(tuning, args.trials, hours, workers, pace)
        tuning = described(args, tuning.env, tuning.size, steps, tuning.settings, tuning.device)
    check_hours(Budget(tuning, args.trials, hours, workers, clock, pace))
    return tuning


def described(args: TuneArgs, env: str, size: SizeName, steps: int, fixed: Mapping[str, Value], device: str) -> Tuning:
    """Return the tuning for a number of steps, which ranges of counts are scaled with."""
    blank = Tuning(env, args.agent, size, steps, (), args.seeds, args.fresh_seeds, dict(fixed), device)
    return replace(blank, space=space_of(blank.configuration({}), args.space, list(fixed), args.only))


def fixed_settings(args: TuneArgs) -> dict[str, Value]:
    """Return the settings of all runs by name."""
    found = {ALIASES.get(name, name): value for name, value in parse_settings(args.set).items()}
    for name in APART:
        if name in found:
            raise UsageError(f"set = {name}: has an option of its own, --{name}")
    return found


def is_done(directory: TuningDirectory, args: TuneArgs) -> bool:
    """Whether the result of these very trials and hours is there already."""
    if not directory.summary.exists() or not directory.best.exists():
        return False
    try:
        budget = read_json(directory.summary, RESULT, WHAT)["budget"]
        return (budget["trials"], budget["hours"]) == (args.trials, args.hours)
    except (KeyError, TypeError) as error:
        raise Unreadable(directory.summary, f"it is not {WHAT}: {error!r}") from error


def print_again(directory: TuningDirectory) -> None:
    """Print the last words of a finished tuning."""
    head = [
        line.removeprefix("# ")
        for line in read_file(directory.best, CONFIGURATION).decode(errors="replace").splitlines()
        if line.startswith("#")
    ]
    print_lines(head, directory)


def show(found: Findings, directory: TuningDirectory) -> None:
    """Print what was found."""
    from sacbbf.tune.findings import last_words

    print_lines(last_words(found), directory)


def print_lines(lines: Sequence[str], directory: TuningDirectory) -> None:
    """Print the result with the places of its files."""
    console = Console(soft_wrap=True)
    for line in [*lines, f"page {directory.page}", f"to train with it: sacbbf train --config {directory.best}"]:
        console.print(line, highlight=False, markup=False)
