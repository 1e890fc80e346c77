"""`sacbbf export`: a trained policy as ONNX, or as a folder for the Hugging Face Hub."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from sacbbf.commands.parsing import check_file, parse
from sacbbf.errors import UsageError
from sacbbf.run.settings import playable
from sacbbf.run.sharing import write_hub_folder
from sacbbf.run.zoo import find_run

EXAMPLES = """\
  sacbbf export RUN --onnx policy.onnx
  sacbbf export RUN --hub folder && sacbbf push folder OWNER/NAME
"""


@dataclass(frozen=True)
class ExportArgs:
    """Write the policy of a run for other programs, or for the Hugging Face Hub."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run directory, a folder that an agent was saved in, or `zoo:NAME` (`sacbbf zoo` lists them)."""
    onnx: Path | None = None
    """Write ONNX: `states` (batch, stack * C, H, W) as `make_env` gives them in, `logits` (batch, A) out.

    Where the environment has illegal actions, `masks` (batch, A), true for the legal ones, go in too.
    """
    hub: Path | None = None
    """Write a folder ready for the Hub: weights, configuration, model card, score, and the video if there is one."""
    trust: bool = False
    """Import modules that the run names and that are not installed, also from the working directory."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    args = parse(ExportArgs, argv, "export", EXAMPLES)
    if args.onnx is None and args.hub is None:
        raise UsageError("export what? Give --onnx FILE, --hub DIR, or both")
    check_file("onnx", args.onnx)
    run = find_run(args.run)
    console = Console(soft_wrap=True)
    if args.onnx is not None:
        from sacbbf.run.onnx_export import write_onnx

        write_onnx(run, playable(run.config, args.trust), args.onnx)
        console.print(f"onnx {args.onnx}", highlight=False, markup=False)
    if args.hub is not None:
        files = write_hub_folder(run, args.hub)
        console.print(f"hub {args.hub}: {', '.join(path.name for path in files)}", highlight=False, markup=False)
    return 0
