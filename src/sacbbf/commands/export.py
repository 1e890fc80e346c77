"""`sacbbf export`: a trained policy as ONNX, or as a folder for the Hugging Face Hub."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.console import Console

from sacbbf.disk.files import write_atomically
from sacbbf.envs.stack import state_shape
from sacbbf.errors import UsageError
from sacbbf.run.policy_file import load_policy, read_layout
from sacbbf.run.records import RunDirectory
from sacbbf.run.settings import playable, read_spec
from sacbbf.run.sharing import onnx_bytes, write_hub_folder


@dataclass(frozen=True)
class ExportArgs:
    """Write the policy of a run for other programs, or for the Hugging Face Hub."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run directory, or a folder that an agent was saved in."""
    onnx: Path | None = None
    """Write ONNX: `states` (batch, stack * C, H, W) of the environment's own type in, `logits` (batch, A) out.

    Where the environment has illegal actions, `masks` (batch, A), true for the legal ones, go in too.
    """
    hub: Path | None = None
    """Write a folder ready for the Hub: weights, configuration, model card, score, and the video if there is one."""
    trust: bool = False
    """Import modules that the run names and that are not installed, also from the working directory."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    args = tyro.cli(ExportArgs, args=argv, prog="sacbbf export")
    if args.onnx is None and args.hub is None:
        raise UsageError("export what? Give --onnx FILE, --hub DIR, or both")
    run = RunDirectory(args.run).require()
    console = Console(soft_wrap=True)
    if args.onnx is not None:
        config = playable(run.config, args.trust)
        spec = read_spec(config.env, config.environment)
        network = load_policy(run.policy, torch.device("cpu"))
        dtype = torch.from_numpy(spec.frame_dtype.type(0)[None]).dtype
        masked = read_layout(run.policy).masked
        write_atomically(args.onnx, onnx_bytes(network, state_shape(spec.frame_shape, config.stack), dtype, masked))
        console.print(f"onnx {args.onnx}", highlight=False, markup=False)
    if args.hub is not None:
        files = write_hub_folder(run, args.hub)
        console.print(f"hub {args.hub}: {', '.join(path.name for path in files)}", highlight=False, markup=False)
    return 0
