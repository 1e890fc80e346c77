"""`sacbbf evaluate`: play a trained policy and report its scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.console import Console

from sacbbf.envs.make import make_env
from sacbbf.errors import UsageError
from sacbbf.machine.allocator import keep_freed_pages
from sacbbf.policy import NetworkPolicy
from sacbbf.run.display import Display
from sacbbf.run.evaluate import ROWS, evaluate, plan_of
from sacbbf.run.policy_file import load_policy
from sacbbf.run.records import RunDirectory, write_json
from sacbbf.run.result import score_fields
from sacbbf.run.settings import playable, read_spec, resolve_device
from sacbbf.run.torch_setup import torch_set_up


@dataclass(frozen=True)
class EvaluateArgs:
    """Play the policy of a run and report mean, standard error, median and human-normalised score.

    The returns depend on the seed alone, not on the number of environments played in parallel.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run directory."""
    episodes: int = 100
    """Episodes to play."""
    seed: int | None = None
    """Root of the episodes' seeds; by default the run's own, which repeats its final evaluation."""
    greedy: bool = False
    """Take the most likely action instead of drawing one; a run with --eval.greedy does so anyway."""
    critic: bool = False
    """Take the action with the largest Q instead of asking the policy: shows whether the policy lags its critic."""
    parallel: int = 8
    """Environments played side by side."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps."""
    json: Path | None = None
    """Write the scores to this file too."""
    trust: bool = False
    """Import modules that the run names and that are not installed, also from the working directory."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    args = tyro.cli(EvaluateArgs, args=argv, prog="sacbbf evaluate")
    if args.seed is not None and args.seed < 0:
        raise UsageError(f"seed = {args.seed}: must be at least 0")
    keep_freed_pages()
    run = RunDirectory(args.run).require()
    config = playable(run.config, args.trust)
    device = torch.device(resolve_device(args.device))
    spec = read_spec(config.env, config.environment)  # first: its modules may register the policy's encoder
    policy = NetworkPolicy(load_policy(run.policy, device), device, ROWS, by_critic=args.critic)
    plan = plan_of(config, args.episodes, seed=args.seed, greedy=args.greedy, parallel=args.parallel)
    console = Console(soft_wrap=True)
    with Display(Console(stderr=True), spec.game) as display, torch_set_up(config):
        display.begin("evaluating", args.episodes)
        records = evaluate(
            policy,
            lambda: make_env(config.env, settings=config.environment),
            plan,
            lambda record: display.advance(f"last score {record.score:g}"),
        )
    fields = score_fields(records, spec.game)
    console.print("returns " + " ".join(f"{score:g}" for score in fields["returns"]), highlight=False, markup=False)
    console.print(
        f"mean {fields['score']:.2f}, standard error {fields['standard_error']:.2f}, "
        f"median {fields['median']:g}, {fields['episodes']} episodes, seed {plan.seed}",
        highlight=False,
        markup=False,
    )
    if fields["human_normalised"] is not None:
        console.print(f"human-normalised {fields['human_normalised']:.3f}", highlight=False, markup=False)
    if args.json is not None:
        write_json(args.json, {"run": str(args.run), "plan": asdict(plan), "by_critic": args.critic, **fields})
    return 0
