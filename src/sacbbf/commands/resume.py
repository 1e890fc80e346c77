"""`sacbbf resume`: take up a run that was stopped, from its last checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from sacbbf.commands.parsing import parse
from sacbbf.commands.train import finish
from sacbbf.errors import UsageError
from sacbbf.machine.process import settle
from sacbbf.run.devices import resolve_device
from sacbbf.run.records import RunDirectory
from sacbbf.run.remote_trackers import TrackerName
from sacbbf.run.settings import playable

EXAMPLES = """\
  sacbbf resume runs/Pong-sac-bbf-laptop-seed0
  sacbbf resume RUN --steps +10000
"""


@dataclass(frozen=True)
class ResumeArgs:
    """Take up a run that was stopped or killed, from its last checkpoint, with the settings that it was begun with.

    It ends with the same weights, records and scores as if it had never been stopped, on the same machine, with as
    many threads and the same versions of libraries. A finished run is left as it is, unless --steps gives it more.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The run directory."""
    device: str | None = None
    """Go on on another device: auto, cpu, cuda, cuda:N or mps. Results are then no longer the same bit for bit."""
    threads: int | None = None
    """Go on with another number of CPU threads. Results are then no longer the same bit for bit."""
    steps: str | None = None
    """More steps for a run that kept its state: their number in all (600), or how many are added (+300). Schedules end
    where they would have ended, and keep their end values from there on."""
    max_hours: float | None = None
    """Stop training after this many hours; what was learned by then is evaluated and saved."""
    tracker: Annotated[tuple[TrackerName, ...], tyro.conf.UseAppendAction] = ()
    """Tell Weights & Biases (wandb) or MLflow (mlflow) too; they go on under the run's name there."""
    trust: bool = False
    """Import modules that the run names and that are not installed, also from the working directory."""
    quiet: bool = False
    """Print the result only."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    args = parse(ResumeArgs, argv, "resume", EXAMPLES)
    run = RunDirectory(args.run).require()
    config = playable(run.config, args.trust)
    from sacbbf.run.admission import extend
    from sacbbf.run.train import train

    settle()
    console = Console(quiet=args.quiet, soft_wrap=True)
    if args.steps is not None and (wanted := total_steps(args.steps, config.steps)) != config.steps:
        config = extend(config, wanted, run, console)
    config = replace(
        config,
        device=resolve_device(config.device if args.device is None else args.device),
        threads=config.threads if args.threads is None else args.threads,
    )
    return finish(train(config, run.path, console=console, max_hours=args.max_hours, trackers=args.tracker), run)


def total_steps(words: str, before: int) -> int:
    """Return the steps that `600`, or `+300` more than before, come to."""
    digits = words.removeprefix("+").replace("_", "").replace(",", "")
    if not digits.isdecimal() or int(digits) < 1:
        raise UsageError(f"steps = {words!r}: must be a number of steps in all (600) or of more steps (+300)")
    return int(digits) + (before if words.startswith("+") else 0)
