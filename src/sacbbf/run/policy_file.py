"""A trained policy on disk: the networks that act, as safetensors, and how to build them again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save

from sacbbf.agents.config import NetworkConfig, flatten
from sacbbf.disk.arrays import unpack
from sacbbf.disk.files import Damaged, checksum
from sacbbf.disk.reading import POLICY, Unreadable, read_file
from sacbbf.envs.base import EnvSpec
from sacbbf.envs.stack import state_shape
from sacbbf.errors import UsageError
from sacbbf.networks import Network, lay_out
from sacbbf.networks.network import RETURN_SCALE, TRAINING_ONLY
from sacbbf.run.settings import RunConfig


def policy_bytes(network: Network, config: NetworkConfig, obs_shape: tuple[int, ...], *, masked: bool = False) -> bytes:
    """Return what acting and judging need, encoder, policy branch and Q branch, as the content of a file.

    `masked`: whether its environment has illegal actions.
    """
    tensors = {
        name: value.detach().cpu().contiguous()
        for name, value in network.state_dict().items()
        if not name.startswith(TRAINING_ONLY)
    }
    meta = {"network": asdict(config), "obs_shape": list(obs_shape), "num_actions": network.num_actions}
    meta |= {"masked": True} if masked else {}
    content: bytes = save(tensors, {"sacbbf": json.dumps(meta)})
    return content


@dataclass(frozen=True)
class Layout:
    """What a stored policy was built for."""

    network: NetworkConfig
    obs_shape: tuple[int, ...]  # of a state: (stack * C, H, W) or (D,)
    num_actions: int
    masked: bool = False  # whether its environment has illegal actions


def load_policy(path: Path, device: torch.device) -> Network:
    """Rebuild the networks stored at `path`; nothing in the file is executed."""
    return _build(path, read_policy(path)).to(device).requires_grad_(False).eval()


def read_layout(path: Path) -> Layout:
    """Return what the policy stored at `path` was built for."""
    with _reading(path):
        return _layout(unpack(read_policy(path))[1])


def read_policy(path: Path) -> bytes:
    """Return the content of a policy's file."""
    try:
        return read_file(path, POLICY)
    except FileNotFoundError as error:
        raise UsageError(f"{path.parent} holds no trained policy ({path.name} is missing)") from error


def _build(path: Path, content: bytes) -> Network:
    with _reading(path):
        arrays, meta = unpack(content)
        # Policies of version 0.1.0 lack the scale of returns: theirs were raw.
        arrays = {RETURN_SCALE: np.zeros((), np.float32)} | arrays
        layout = _layout(meta)
        _check_shapes(layout, arrays)
        with torch.random.fork_rng(devices=[]):  # what the layers draw is replaced
            network = lay_out(layout.network, layout.obs_shape, layout.num_actions, self_prediction=False)
        network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    return network


def _check_shapes(layout: Layout, arrays: dict[str, np.ndarray]) -> None:
    """Raise ValueError for networks that the file does not hold, before they take any memory."""
    try:
        with torch.device("meta"):
            network = lay_out(layout.network, layout.obs_shape, layout.num_actions, self_prediction=False)
    except (NotImplementedError, RuntimeError):  # a part of one's own that looks at its numbers as it is made
        return
    for name, value in network.state_dict().items():
        if name not in arrays or tuple(value.shape) != arrays[name].shape:
            raise ValueError(f"{name} must be an array of shape {tuple(value.shape)}")


def check_layout(layout: Layout, config: RunConfig, spec: EnvSpec, source: str) -> None:
    """Raise UsageError unless a stored policy has a run's networks, and its environment's states and actions."""
    wanted = state_shape(spec.frame_shape, config.stack)
    if layout.obs_shape != wanted:
        raise UsageError(f"{source} takes states of shape {layout.obs_shape}; {spec.id} shows states of shape {wanted}")
    if layout.num_actions != spec.num_actions:
        raise UsageError(f"{source} has {layout.num_actions} actions; {spec.id} has {spec.num_actions}")
    # v_max scales Q and touches no weight: it may be another.
    there, here = flatten(layout.network), flatten(config.settings.network)
    for name, value in there.items():
        if here[name] != value and name != "v_max":
            raise UsageError(f"network.{name} = {here[name]!r}: must be {value!r}, as in {source}")


def load_initial_policy(path: Path, sha256: str) -> Network:
    """Rebuild the networks that a run starts from; UsageError if the file is not the one that it was begun with."""
    content = read_policy(path)
    if checksum(content) != sha256:
        raise UsageError(f"{path} is not the policy that the run was begun with: its checksum is another")
    return _build(path, content).requires_grad_(False).eval()


def _layout(meta: dict[str, Any]) -> Layout:
    return Layout(
        NetworkConfig(**meta["network"]), tuple(meta["obs_shape"]), meta["num_actions"], meta.get("masked", False)
    )


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what can be wrong with a policy's content into Unreadable."""
    try:
        yield
    except (Damaged, KeyError, TypeError, ValueError, RuntimeError, ArithmeticError) as error:
        raise Unreadable(path, str(error), what="the policy ") from error
