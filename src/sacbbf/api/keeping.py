"""Agents on disk: a folder with configuration and policy, and on request all that learning needs to go on exactly."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from sacbbf.disk.files import Damaged, checksum, write_atomically
from sacbbf.disk.lease import Lease, state_folder
from sacbbf.envs.source import EnvLike, EnvSource, source_of
from sacbbf.envs.stack import state_shape
from sacbbf.envs.trust import admit
from sacbbf.errors import UsageError
from sacbbf.networks import Network
from sacbbf.run.checkpoint import Checkpoints, Resumed, load, read_manifests
from sacbbf.run.devices import resolve_device
from sacbbf.run.fitting import check_fit
from sacbbf.run.loop import Training
from sacbbf.run.policy_file import check_layout, load_policy, policy_bytes, read_layout, read_policy
from sacbbf.run.records import RECORDS, Mark, RunDirectory
from sacbbf.run.settings import RunConfig, from_toml, to_toml
from sacbbf.run.take_up import changes, identity
from sacbbf.run.torch_setup import torch_set_up


def write_agent(
    path: Path, config: RunConfig, source: EnvSource, network: Network, masked: bool, training: Training | None
) -> Path:
    """Write an agent into a folder; with `training`, replay, optimiser and generators too.

    Each file is whole or not there. The checkpoint comes last, as it counts where it differs from the policy.
    """
    folder = RunDirectory(path)
    if folder.holds_run:
        raise UsageError(f"{folder.path} holds a run, whose policy would be lost; choose a new directory")
    folder.prepare()
    shape = state_shape(source.spec.frame_shape, config.stack)
    policy = policy_bytes(network, config.settings.network, shape, masked=masked)
    if training is None and not folder.has_state:
        write_atomically(folder.config, to_toml(config).encode())
        write_atomically(folder.policy, policy)
        return folder.path
    with Lease.acquire(folder.path) as lease:
        lease.publish(folder.config, to_toml(config).encode(), "config")
        lease.publish(folder.policy, policy, "policy")
        if training is None:
            lease.drop()
            return folder.path
        with torch_set_up(config):
            # Names of its own, by the fence: what an earlier save has left stays whole meanwhile.
            checkpoints = Checkpoints(lease, identity(config), keep=1, resumes=lease.fence)
        checkpoints.save(training, {name: Mark() for name in RECORDS}, seconds=0.0)
    return folder.path


@dataclass(frozen=True)
class Kept:
    """An agent as it was read: with its training where that was kept, else with the networks that act."""

    config: RunConfig
    source: EnvSource
    training: Training | None
    network: Network | None
    sha256: str = ""  # of the policy file that the networks are from; empty for a training
    masked: bool = False  # whether that policy's environment has illegal actions


def read_agent(path: Path, config: RunConfig, env: EnvLike | None, device: str, replay: bool, trust: bool) -> Kept:
    """Read the agent with this configuration from its folder, for its own environment or for `env`."""
    folder = RunDirectory(path)
    _admit(folder, config, env, trust)
    source = source_of(config.env if env is None else env, config.environment)
    same = source.name == config.env and source.given is None
    config = replace(config, env=source.name, device=resolve_device(device))
    check_fit(config, source.spec)
    if folder.policy.exists():
        check_layout(read_layout(folder.policy), config, source.spec, str(path))
    state = state_folder(path)
    if replay and state is not None:
        return Kept(config, source, _read_training(state, config, source, same), None)
    network = load_policy(folder.policy, torch.device(config.device))
    masked = read_layout(folder.policy).masked
    return Kept(config, source, None, network, checksum(read_policy(folder.policy)), masked)


def stored_config(path: Path) -> RunConfig:
    """Return the configuration of a saved agent or a run."""
    return from_toml(RunDirectory(path).require().config)


def _admit(folder: RunDirectory, config: RunConfig, env: EnvLike | None, trust: bool) -> None:
    """Raise Untrusted where the stored configuration, and not the caller, names modules that are not installed."""
    stored = config.env if env is None else ""
    admit(stored, config.environment, folder.config, trust=trust, remedy="trust=True")


def _read_training(state: Path, config: RunConfig, source: EnvSource, repeat: bool) -> Training:
    """Bring a training back from the newest checkpoint that is whole; UsageError if none can be used."""
    damages: list[str] = []
    manifests = list(read_manifests(state, damages.append))
    for manifest in reversed(manifests):
        try:
            with torch_set_up(config):
                resumed = load(state, manifest, lambda: Training(config, make=source.make), repeat=repeat)
                _warn(resumed, config, repeat)
            return resumed.training
        except Damaged as damage:
            damages.append(str(damage))
    raise UsageError(
        f"{state.parent}: what was kept for learning cannot be used ({damages[-1] if damages else 'no checkpoint'}); "
        "load(path, replay=False) takes the policy alone"
    )


def _warn(resumed: Resumed, config: RunConfig, repeat: bool) -> None:
    """Say what is not as it was when the agent was saved."""
    if found := changes(config, resumed.manifest):
        warnings.warn(f"not what the agent learned with ({found}): the same bits are not promised", stacklevel=5)
    if repeat and resumed.cut_off is not None:
        warnings.warn(
            f"{config.env} did not repeat episode {resumed.cut_off.number}, so it counts as cut off", stacklevel=5
        )
