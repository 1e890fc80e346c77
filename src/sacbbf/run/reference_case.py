"""A reference case: an update computed by the authors' code, read from disk and rebuilt in this package.

A case is a pair PREFIX.json (agent, sizes, expected parameters) and PREFIX.npz (batch, expected quantities).
Its networks are not stored but generated from seeds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import sacbbf.kernels  # noqa: F401 - what `compute.kernels` may use
from sacbbf.agents.config import (
    AgentConfig,
    ComputeConfig,
    Kernels,
    LossConfig,
    NetworkConfig,
    OptimiserConfig,
    ScheduleConfig,
)
from sacbbf.disk.arrays import read_npz
from sacbbf.disk.reading import CONFIGURATION, read_json
from sacbbf.errors import UsageError
from sacbbf.learner.learner import Learner
from sacbbf.learner.noise import NoNoise
from sacbbf.types import Batch

Array = npt.NDArray[Any]

# Agents whose updates a case may hold, and how each bootstraps.
BACKUPS: dict[str, str] = {"sac_bbf": "sampled", "bbf": "greedy", "sr_spr": "greedy", "drq_eps": "greedy"}


class CaseError(UsageError):
    """A reference case that cannot be read: the message names the file and what it lacks."""


@dataclass(frozen=True)
class Case:
    """A reference case as stored."""

    name: str
    meta: dict[str, Any]
    arrays: dict[str, Array]


# --- reading a case -----------------------------------------------------------------------------------------


def shipped_cases() -> list[Path]:
    """Prefixes of the cases that come with the package."""
    folder = Path(str(resources.files("sacbbf") / "data" / "reference"))
    return sorted(path.with_suffix("") for path in folder.glob("*_update.json"))


def shipped_replay_reference() -> Path:
    """Return the file of replay batches that comes with the package."""
    return Path(str(resources.files("sacbbf") / "data" / "reference" / "replay_reference.npz"))


def find_cases(given: str | None) -> list[Path]:
    """Prefixes of the cases meant by `given`: a file or prefix, a folder, a shipped case's name, or all shipped."""
    shipped = {path.name.removesuffix("_update"): path for path in shipped_cases()}
    if given is None:
        return list(shipped.values())
    path = Path(given)
    if path.is_dir():
        inside = sorted(found.with_suffix("") for found in path.glob("*.json") if found.with_suffix(".npz").exists())
        if inside:
            return inside
    base = path.with_suffix("") if path.suffix in (".json", ".npz") else path
    for candidate in (base, base.with_name(base.name + "_update")) if base.name else ():
        if candidate.with_name(candidate.name + ".json").exists():
            return [candidate]
    if given.removesuffix("_update") in shipped:
        return [shipped[given.removesuffix("_update")]]
    raise CaseError(
        f"--case {given}: no such case; give a prefix PATH with PATH.json and PATH.npz, a folder of such pairs, "
        f"or one of {', '.join(shipped)}"
    )


def load_case(prefix: Path) -> Case:
    """Read PREFIX.json and PREFIX.npz; nothing in them is executed."""
    json_path = prefix.with_name(prefix.name + ".json")
    npz_path = prefix.with_name(prefix.name + ".npz")
    try:
        meta = read_json(json_path, CONFIGURATION, "the description of a case", typed=True)
        arrays = read_npz(npz_path)
    except (OSError, ValueError, KeyError) as error:
        raise CaseError(f"cannot read case {prefix}: {error}") from error
    needed_meta = (
        "agent",
        "encoder",
        "num_actions",
        "hidden_dim",
        "width_scale",
        "parameters",
        "after_one_update",
    )
    needed = (
        "states",
        "next_states",
        "actions",
        "rewards",
        "discount",
        "terminals",
        "same_trajectory",
        "weights",
    )
    lacking = [key for key in needed_meta if key not in meta] + [key for key in needed if key not in arrays]
    if lacking:
        raise CaseError(f"case {prefix} lacks {', '.join(lacking)}")
    if meta["agent"] not in BACKUPS:
        raise CaseError(f"case {prefix}: agent = {meta['agent']!r}, must be one of {', '.join(BACKUPS)}")
    return Case(prefix.name, meta, arrays)


# --- rebuilding the learner ---------------------------------------------------------------------------------


def case_config(case: Case) -> AgentConfig:
    """Return the agent that a case's JSON describes."""
    meta, adamw = case.meta, case.meta["adamw"]
    names = {name for name, _ in meta["parameters"]}
    steps = case.arrays["states"].shape[1] - 1
    return AgentConfig(
        network=NetworkConfig(
            encoder=meta["encoder"],
            width_scale=meta["width_scale"],
            hidden_dim=meta["hidden_dim"],
            num_atoms=meta.get("num_atoms", 51),
            v_max=meta.get("v_max", 10.0),
            dueling="q_value.kernel" in names,
            renormalize=meta.get("renormalize", True),
            policy="policy_head.kernel" in names,
        ),
        loss=LossConfig(
            backup=BACKUPS[meta["agent"]],  # type: ignore[arg-type]
            spr_weight=meta["spr_weight"],
            spr_steps=steps,
            augment=False,
        ),
        schedule=ScheduleConfig() if "policy_head.kernel" in names else ScheduleConfig(beta_start=0.0, beta_end=0.0),
        optimiser=OptimiserConfig(
            learning_rate=adamw["lr"],
            adam_beta1=adamw["b1"],
            adam_beta2=adamw["b2"],
            adam_eps=adamw["eps"],
            weight_decay=adamw["weight_decay"],
            tau=meta["tau"],
        ),
    )


def reference_parameters(parameters: list[tuple[str, list[int]]], seed: int) -> dict[str, Array]:
    """Generate a case's parameters, in Flax layout: (H, W, in, out) or (in, out) kernels, (out,) biases."""
    values = {}
    for index, (name, shape) in enumerate(parameters):
        draw = np.random.default_rng([seed, index]).standard_normal(shape, dtype=np.float32)
        scale = 0.01
        if name.endswith(".kernel"):
            scale = math.sqrt(2 / ((shape[-2] + shape[-1]) * math.prod(shape[:-2])))
        values[name] = draw * np.float32(scale)
    return values


def to_torch(name: str, value: Array) -> tuple[str, torch.Tensor]:
    """Name and tensor of a Flax parameter in PyTorch's layout: (out, in, H, W) or (out, in)."""
    if name.endswith(".bias"):
        return name, torch.from_numpy(value)
    order = (3, 2, 0, 1) if value.ndim == 4 else (1, 0)
    return name.removesuffix("kernel") + "weight", torch.from_numpy(value).permute(order)


def to_flax(tensor: torch.Tensor | None) -> Array:
    """Return a PyTorch parameter or gradient in Flax's layout, the inverse of `to_torch`."""
    if tensor is None:
        raise CaseError("the case names a parameter that has no gradient")
    order = {4: (2, 3, 1, 0), 2: (1, 0)}.get(tensor.dim(), (0,))
    return tensor.detach().permute(order).contiguous().numpy()


def build_learner(case: Case, kernels: Kernels = "auto") -> Learner:
    """Return a learner with the case's networks, every draw at its mode, with or without kernels."""
    states = case.arrays["states"]  # (B, k + 1, H, W, stack)
    obs_shape = (states.shape[-1], *states.shape[2:-1])
    device = torch.device("cpu")
    config = replace(case_config(case), compute=ComputeConfig(kernels=kernels))
    learner = Learner(config, obs_shape, case.meta["num_actions"], noise=NoNoise(device))
    for network, seed in ((learner.online, "seed_online"), (learner.target, "seed_target")):
        values = reference_parameters(case.meta["parameters"], case.meta[seed])
        try:
            tensors = dict(to_torch(name, value) for name, value in values.items())
            network.load_state_dict(dict(network.named_buffers()) | tensors)
        except RuntimeError as error:
            raise CaseError(f"case {case.name}: its parameters do not fit the agent it describes: {error}") from error
    return learner


def case_batch(case: Case, spr_steps: int) -> Batch:
    """Return the case's batch in this package's layout."""
    arrays = case.arrays
    states = np.concatenate([arrays["states"][:, : spr_steps + 1], arrays["next_states"][:, :1]], axis=1)
    return Batch(
        states=torch.from_numpy(np.ascontiguousarray(states.transpose(1, 0, 4, 2, 3))),
        actions=torch.from_numpy(arrays["actions"][:, : spr_steps + 1].T.astype(np.int64)),
        return_n=torch.from_numpy(arrays["rewards"][:, 0].copy()),
        discount_n=torch.from_numpy(arrays["discount"][:, 0].copy()),
        done=torch.from_numpy(arrays["terminals"][:, 0].astype(bool)),
        same_episode=torch.from_numpy(arrays["same_trajectory"][:, 1 : spr_steps + 1].T.astype(np.float32)),
        weights=torch.from_numpy(arrays["weights"]),
        bootstrap_step=0,  # not stated; only sharing the bootstrap state would need it
        indices=np.arange(len(states)),
    )
