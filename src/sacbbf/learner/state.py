"""A learner's whole state as plain arrays and counters: networks, optimiser, generators."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sacbbf.learner.learner import Learner
from sacbbf.types import Arrays

MOMENTS = ("exp_avg", "exp_avg_sq")  # AdamW's, of each parameter


def read_learner(learner: Learner) -> tuple[Arrays, dict[str, Any]]:
    """Networks, optimiser and generators as arrays, and the counters."""
    arrays: Arrays = {}
    steps: dict[str, float] = {}
    count, moments = float(learner.descent.count), learner.descent.moments()
    for name, parameter in learner.online.named_parameters():
        arrays[f"online.{name}"] = _to_array(parameter)
        if count and parameter in moments:
            steps[name] = count
            arrays |= {
                f"{kind}.{name}": _to_array(value) for kind, value in zip(MOMENTS, moments[parameter], strict=True)
            }
    arrays |= {f"target.{name}": _to_array(value) for name, value in learner.target.named_parameters()}
    arrays |= {f"generator.{name}": value.get_state().numpy() for name, value in _generators(learner).items()}
    counters = {"updates": learner.updates, "updates_since_reset": learner.updates_since_reset, "adam_steps": steps}
    return arrays, counters


@torch.no_grad()
def write_learner(learner: Learner, arrays: Arrays, counters: dict[str, Any]) -> None:
    """Put a learner's state back; ValueError or KeyError if it is not of this learner's kind."""
    steps: dict[str, float] = counters["adam_steps"]
    updates, since_reset = counters["updates"], counters["updates_since_reset"]
    if type(updates) is not int or type(since_reset) is not int or not 0 <= since_reset <= updates:
        raise ValueError(f"{updates!r} updates, {since_reset!r} of them since a reset: cannot be")
    parameters = dict(learner.online.named_parameters())
    expected = {f"online.{name}" for name in parameters} | {f"target.{name}" for name in parameters}
    expected |= {f"{moment}.{name}" for name in steps for moment in MOMENTS}
    expected |= {f"generator.{name}" for name in _generators(learner)}
    if arrays.keys() != expected or not steps.keys() <= parameters.keys():
        raise ValueError(f"holds other arrays than this agent has: {', '.join(sorted(arrays.keys() ^ expected)[:5])}")
    counts = {float(step) for step in steps.values()}
    if len(counts) > 1:
        raise ValueError(f"AdamW's steps are {', '.join(map(str, sorted(counts)))}: must be one number")
    for side, network in (("online", learner.online), ("target", learner.target)):
        for name, parameter in network.named_parameters():
            _fill(parameter, arrays[f"{side}.{name}"], name)
    moments = learner.descent.moments()
    learner.descent.restart()
    learner.descent.count.fill_(max(counts, default=0.0))
    for name in steps:
        for kind, value in zip(MOMENTS, moments[parameters[name]], strict=True):
            _fill(value, arrays[f"{kind}.{name}"], f"{kind} of {name}")
    for name, generator in _generators(learner).items():
        set_generator(generator, arrays[f"generator.{name}"], name)
    learner.updates, learner.updates_since_reset = updates, since_reset


def set_generator(generator: torch.Generator, state: npt.NDArray[Any], name: str) -> None:
    """Put a generator's state back; ValueError if it is not one."""
    try:
        generator.set_state(torch.from_numpy(state))
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"the state of the generator of {name} is not one: {error}") from error


def learner_bytes(learner: Learner) -> int:
    """Bytes that a learner's state has at most, without generators."""
    return 4 * sum(parameter.nbytes for parameter in learner.online.parameters())


def _generators(learner: Learner) -> dict[str, torch.Generator]:
    return {"networks": learner.init_generator, "noise": learner.noise.generator}


def _to_array(tensor: torch.Tensor) -> npt.NDArray[Any]:
    return tensor.detach().cpu().contiguous().numpy()


def _fill(tensor: torch.Tensor, array: npt.NDArray[Any], name: str) -> None:
    if array.dtype != np.float32 or array.shape != tuple(tensor.shape):
        found = f"{array.dtype} of shape {array.shape}"
        raise ValueError(f"{name} is {found}, must be float32 of shape {tuple(tensor.shape)}")
    tensor.copy_(torch.from_numpy(array))
