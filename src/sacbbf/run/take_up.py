"""Taking up a run: the newest checkpoint that is whole, and what to say about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from sacbbf.disk.files import Damaged
from sacbbf.envs.base import Environment
from sacbbf.errors import RunFailed
from sacbbf.run.checkpoint import Manifest, Resumed, load, read_manifests
from sacbbf.run.loop import Training
from sacbbf.run.records import RECORDS, RunDirectory, check_record
from sacbbf.run.result import machine, versions
from sacbbf.run.settings import RunConfig


def identity(config: RunConfig) -> dict[str, Any]:
    """Return what identical continuation depends on, by name."""
    return {**versions(), **{name: value for name, value in machine(config.device).items() if name != "cores"}}


def changes(config: RunConfig, manifest: Manifest) -> str:
    """Return in words what identical continuation depends on and is another now; empty where nothing is."""
    here, there = identity(config), manifest.identity
    return ", ".join(
        f"{name} {there.get(name)} -> {here.get(name)}" for name in here | there if here.get(name) != there.get(name)
    )


def take_up(
    config: RunConfig,
    run: RunDirectory,
    folder: Path,
    console: Console,
    make: Callable[[], Environment] | None = None,
) -> Resumed | None:
    """Bring a training back from the newest usable checkpoint; None if there has been none yet.

    `make` builds the environment where its name does not say it all. Damaged checkpoints are reported and passed over.
    If there are some and none can be used, RunFailed says why.
    """
    damages: list[str] = []
    manifests = list(read_manifests(folder, damages.append))
    resumed = None
    for manifest in reversed(manifests):
        try:
            _check_records(run, manifest)
            resumed = load(folder, manifest, lambda: Training(config, make=make))
            break
        except Damaged as error:
            damages.append(str(error))
    for damage in damages:
        console.print(f"warning: {damage}", style="yellow", highlight=False, markup=False)
    if resumed is None and damages:
        raise RunFailed(
            f"no checkpoint of {run.path} can be used: {damages[-1]}. Nothing was deleted; "
            "to start over, train into a new directory"
        )
    if resumed is not None:
        _say(resumed, config, console)
    elif any(run.record(name).exists() for name in RECORDS):
        console.print(f"{run.path} has no checkpoint yet: the run starts over", markup=False)
    return resumed


def _check_records(run: RunDirectory, manifest: Manifest) -> None:
    if manifest.records.keys() != set(RECORDS):
        raise Damaged(f"the checkpoint of step {manifest.step} has other records than a run: {list(manifest.records)}")
    for name, mark in manifest.records.items():
        check_record(run.record(name), mark)


def _say(resumed: Resumed, config: RunConfig, console: Console) -> None:
    manifest = resumed.manifest
    console.print(f"taken up at step {manifest.step:,} of {config.steps:,}")
    if differing := changes(config, manifest):
        console.print(
            f"warning: not what the run was begun with ({differing}): "
            "it goes on, but the same bits as without a stop are no longer promised",
            style="yellow",
            highlight=False,
            markup=False,
        )
    if resumed.cut_off is not None:
        console.print(
            f"warning: {config.env} did not repeat episode {resumed.cut_off.number}, so it is not deterministic: "
            "the episode counts as cut off, and a new one begins",
            style="yellow",
            highlight=False,
            markup=False,
        )
