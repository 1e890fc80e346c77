"""Cells that train alike and differ only in how they are evaluated: one is trained, the others play its policy."""

from __future__ import annotations

from collections.abc import Sequence

from sacbbf.agents.presets import BASELINES
from sacbbf.run.records import RunDirectory
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.spec import Cell, Spec, Variant

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


def _training(variant: Variant) -> tuple[str, dict[str, object]]:
    """What decides a variant's training."""
    return variant.agent, {name: value for name, value in variant.settings.items() if name != EVALUATION}
