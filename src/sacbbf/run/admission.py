"""What is settled before a run's directory is written: which run it holds, what it starts from, how far it goes."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from sacbbf.agents.presets import BASELINES
from sacbbf.disk.files import checksum
from sacbbf.disk.lease import Lease
from sacbbf.envs.base import EnvSpec
from sacbbf.errors import UsageError
from sacbbf.run.more_steps import extended
from sacbbf.run.policy_file import check_layout, read_layout, read_policy
from sacbbf.run.records import RunDirectory, json_bytes
from sacbbf.run.settings import FREE, RunConfig, check_run, differences, from_toml, to_toml
from sacbbf.run.zoo import find_run

HARDWARE = ("device", "threads")  # settings that may differ when a run is taken up, at the price of its last bits


def extend(config: RunConfig, steps: int, run: RunDirectory, console: Console) -> RunConfig:
    """Give a run that kept its state more steps, `steps` in all, and return its configuration from now on."""
    longer = extended(config, steps)
    check_run(longer)
    if not run.has_state:
        raise UsageError(
            f"{run.path} has kept no state to go on from (--checkpoint.keep keeps it); to start a new run from its "
            f"weights: sacbbf train {config.env} --init {run.path}"
        )
    with Lease.acquire(run.path, on_wait=functools.partial(console.print, markup=False)) as lease:
        lease.publish(run.config, to_toml(longer).encode(), "config")
        result = run.read_result()
        if result is not None and result.get("finished"):
            words = {"finished": False, "stopped_by": f"extension from {config.steps} to {steps} steps"}
            lease.publish(run.result, json_bytes(result | words), "result")
    return longer


def start_from(init: Path | None, config: RunConfig, spec: EnvSpec) -> tuple[RunConfig, bytes | None]:
    """Return a run's configuration with the policy that it starts from, and that policy's file, if there is one."""
    if init is None:
        return config, None
    if config.agent in BASELINES:
        raise UsageError(f"init = {init}: the baseline {config.agent} has no weights to start from")
    folder = find_run(init)
    there = from_toml(folder.config).agent
    if there != config.agent:
        raise UsageError(f"agent = {config.agent!r}: must be {there!r}, as in {init}")
    check_layout(read_layout(folder.policy), config, spec, str(init))
    content = read_policy(folder.policy)
    return replace(config, initial_policy=checksum(content)), content


def agree_on_configuration(config: RunConfig, run: RunDirectory, lease: Lease, initial: bytes | None) -> None:
    """Store the configuration in a new directory; refuse one that holds a run with another."""
    if run.config.exists():
        refuse_another(config, run)
        return
    if initial is not None:
        lease.publish(run.initial_policy, initial, "initial policy")
    elif config.initial_policy is not None:
        raise UsageError(
            f"initial_policy = {config.initial_policy[:12]}...: give the folder of the run it is of (--init)"
        )
    lease.publish(run.config, to_toml(config).encode(), "config")


def refuse_saved_agent(run: RunDirectory) -> None:
    """Raise UsageError where an agent was saved without what a run needs to go on."""
    if run.policy.exists() and not run.holds_run and not run.has_state:
        raise UsageError(f"out = {run.path}: holds a saved agent, which a run would write over; choose a new directory")


def refuse_another(config: RunConfig, run: RunDirectory) -> None:
    """Raise UsageError where a run has other settings than this one, and list them."""
    found = differences(from_toml(run.config), config)
    lines = [f"  {name}: {old!r} there, {new!r} here" for name, (old, new) in found.items()]
    if found.keys() - {*FREE, *HARDWARE}:
        raise UsageError(
            f"out = {run.path}: holds another run already; choose a new directory, or take that run up with its own "
            f"settings (sacbbf resume {run.path}). They differ in\n" + "\n".join(lines)
        )


def finished(config: RunConfig, run: RunDirectory, console: Console) -> dict[str, Any] | None:
    """Return the result of a run that is finished, and say so; else None."""
    found = run.read_result()
    if found is None or not found.get("finished"):
        return None
    if config.agent not in BASELINES and found.get("steps", 0) < config.steps:  # killed while it was extended
        return None
    console.print(f"{run.path} is finished: there is nothing left to do", markup=False)
    return found
