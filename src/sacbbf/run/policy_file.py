"""A trained policy on disk: the networks that act, as safetensors, and how to build them again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from sacbbf.agents.config import NetworkConfig
from sacbbf.errors import UsageError
from sacbbf.networks import Network, lay_out
from sacbbf.networks.network import TRAINING_ONLY


def policy_bytes(network: Network, config: NetworkConfig, obs_shape: tuple[int, ...]) -> bytes:
    """Return what acting and judging need, encoder, policy branch and Q branch, as the content of a file."""
    tensors = {
        name: value.detach().cpu().contiguous()
        for name, value in network.state_dict().items()
        if not name.startswith(TRAINING_ONLY)
    }
    meta = {"network": asdict(config), "obs_shape": list(obs_shape), "num_actions": network.num_actions}
    content: bytes = save(tensors, {"sacbbf": json.dumps(meta)})
    return content


def load_policy(path: Path, device: torch.device) -> Network:
    """Rebuild the networks stored at `path`; nothing in the file is executed."""
    try:
        with safe_open(path, "pt") as file:
            meta: dict[str, Any] = json.loads(file.metadata()["sacbbf"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        config = NetworkConfig(**meta["network"])
        with torch.random.fork_rng(devices=[]):  # what the layers draw is replaced
            network = lay_out(config, meta["obs_shape"], meta["num_actions"], self_prediction=False)
        network.load_state_dict(tensors)
    except FileNotFoundError as error:
        raise UsageError(f"{path.parent} holds no trained policy ({path.name} is missing)") from error
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError, OSError) as error:
        raise UsageError(f"cannot read the policy {path}: {error}") from error
    return network.to(device).requires_grad_(False).eval()
