"""Cells that train alike and differ only in how they are evaluated: one is trained, the others play its policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console

from sacbbf.agents.presets import BASELINES
from sacbbf.envs.make import make_env
from sacbbf.policy import NetworkPolicy
from sacbbf.run.curve import draw_curve
from sacbbf.run.display import Display
from sacbbf.run.evaluate import ROWS, evaluate, plan_of
from sacbbf.run.policy_file import load_policy
from sacbbf.run.records import RunDirectory, write_json
from sacbbf.run.result import score_fields
from sacbbf.run.settings import RunConfig, read_spec, to_toml
from sacbbf.run.torch_setup import torch_set_up
from sacbbf.sweep.copy import copied_run
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.spec import LEVELS, Cell, Spec, Variant

EVALUATION = "eval.greedy"  # the setting in which twins may differ


def twins_of(spec: Spec, cell: Cell) -> list[Cell]:
    """Return the other cells of a sweep that train as this one does, in the sweep's order.

    There are none where runs are evaluated during training too, since those evaluations are among their records, and
    none of a baseline, which has no policy to play.
    """
    if cell.variant.agent in BASELINES or "eval.every" in spec.settings.keys() | cell.variant.settings.keys():
        return []
    alike = [one for one in spec.variants if one != cell.variant and _training(one) == _training(cell.variant)]
    return [Cell(variant, cell.env, cell.seed) for variant in alike]


def is_second(spec: Spec, cell: Cell) -> bool:
    """Whether a cell has a twin among the variants before its own."""
    before = spec.variants[: spec.variants.index(cell.variant)]
    return any(twin.variant in before for twin in twins_of(spec, cell))


def twins_last(spec: Spec, cells: Sequence[Cell]) -> list[Cell]:
    """Return cells in their order, but behind all others those that have a twin before them."""
    return sorted(cells, key=lambda cell: is_second(spec, cell))


def finished_twin(directory: SweepDirectory, spec: Spec, cell: Cell) -> RunDirectory | None:
    """Return the run of a twin that is finished, if there is one."""
    for twin in twins_of(spec, cell):
        run = directory.run(twin)
        result = run.read_result()
        if result is not None and result.get("finished"):
            return run
    return None


def evaluate_twin(twin: RunDirectory, config: RunConfig, path: Path, console: Console) -> None:
    """Make the run of a configuration from a finished twin's: its records and policy, with an evaluation of its own.

    The scores are those that the run would have had if it had been trained itself. The folder `path` appears when all
    of it is there.
    """
    spec = read_spec(config.env, config.environment)
    device = torch.device(config.device)
    with copied_run(twin.path, path) as copy:
        run = RunDirectory(copy)
        policy = NetworkPolicy(load_policy(run.policy, device), device, ROWS)
        with Display(console, spec.game) as display, torch_set_up(config):
            display.begin("evaluating", config.eval.episodes)
            records = evaluate(
                policy,
                lambda: make_env(config.env, settings=config.environment),
                plan_of(config, config.eval.episodes),
                lambda record: display.advance(f"last score {record.score:g}"),
            )
        trained_by = "/".join(twin.path.parts[-LEVELS:])
        result = {**(run.read_result() or {}), **score_fields(records, spec.game), "trained_by": trained_by}
        run.config.write_text(to_toml(config))
        title = f"{config.env}: {config.agent}, {config.size}, seed {config.seed}"
        run.curve.write_bytes(draw_curve(run, title, spec.game, result))
        write_json(run.result, result)


def _training(variant: Variant) -> tuple[str, dict[str, object]]:
    """What decides a variant's training."""
    return variant.agent, {name: value for name, value in variant.settings.items() if name != EVALUATION}
