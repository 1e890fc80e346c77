"""`sacbbf evaluate`: play a trained policy and report its scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from sacbbf.commands.parsing import check_file, parse
from sacbbf.errors import UsageError
from sacbbf.machine.process import settle
from sacbbf.run.certainty import counted
from sacbbf.run.devices import resolve_device
from sacbbf.run.display import Display
from sacbbf.run.records import write_json
from sacbbf.run.settings import playable
from sacbbf.run.zoo import find_run

EXAMPLES = """\
  sacbbf evaluate runs/CartPole-v1-sac-bbf-tiny-seed0
  sacbbf evaluate RUN --episodes 20 --greedy --json scores.json
"""


@dataclass(frozen=True)
class EvaluateArgs:
    """Play the policy of a run and report mean, standard error, median and human-normalised score.

    The returns depend on the seed alone, not on the number of environments played in parallel.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run directory, or `zoo:NAME` (`sacbbf zoo` lists them)."""
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
    args = parse(EvaluateArgs, argv, "evaluate", EXAMPLES)
    if args.seed is not None and args.seed < 0:
        raise UsageError(f"seed = {args.seed}: must be at least 0")
    check_file("json", args.json)
    run = find_run(args.run)
    config = playable(run.config, args.trust)
    from sacbbf.run.evaluate import plan_of
    from sacbbf.run.evaluate_run import evaluate_run
    from sacbbf.run.result import score_fields

    settle()
    device = resolve_device(args.device)
    plan = plan_of(config, args.episodes, seed=args.seed, greedy=args.greedy, parallel=args.parallel)
    with Display(Console(stderr=True), None) as display:
        records, game = evaluate_run(run, config, plan, device, display, args.critic)
    fields = score_fields(records, game)
    console = Console(soft_wrap=True)
    console.print("returns " + " ".join(f"{score:g}" for score in fields["returns"]), highlight=False, markup=False)
    console.print(
        f"mean {fields['score']:.2f}, standard error {fields['standard_error']:.2f}, "
        f"median {fields['median']:g}, {counted(fields['episodes'])}, seed {plan.seed}",
        highlight=False,
        markup=False,
    )
    if fields["human_normalised"] is not None:
        console.print(f"human-normalised {fields['human_normalised']:.3f}", highlight=False, markup=False)
    if args.json is not None:
        write_json(args.json, {"run": str(args.run), "plan": asdict(plan), "by_critic": args.critic, **fields})
    return 0
