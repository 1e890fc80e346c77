"""A learner's whole state as plain arrays and counters: networks, optimiser, generators."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sacbbf.learner.learner import Learner
from sacbbf.types import Arrays


def read_learner(learner: Learner) -> tuple[Arrays, dict[str, Any]]:
    """Networks, optimiser and generators as arrays, and the counters."""
    arrays: Arrays = {}
    for side, network in (("online", learner.online), ("target", learner.target)):
        arrays |= {f"{side}.{name}": _to_array(value) for name, value in network.state_dict().items()}
    arrays["log_beta"] = _to_array(learner.temperature.log_beta)
    kept: dict[str, list[str]] = {}  # what the optimiser keeps of each parameter
    numbers: dict[str, dict[str, Any]] = {}  # what of it is no tensor
    for name, parameter in learner.online.named_parameters():
        state = learner.optimiser.state.get(parameter, {})
        tensors = {key: value for key, value in state.items() if isinstance(value, torch.Tensor)}
        arrays |= {f"optimiser.{key}.{name}": _to_array(value) for key, value in tensors.items()}
        if state:
            kept[name] = sorted(tensors)
            numbers[name] = {key: value for key, value in state.items() if key not in tensors}
    arrays |= {f"generator.{name}": value.get_state().numpy() for name, value in _generators(learner).items()}
    counters = {
        "updates": learner.updates,
        "updates_since_reset": learner.updates_since_reset,
        "returns": learner.returns.read(),
        "optimiser": kept,
        "optimiser_numbers": {name: found for name, found in numbers.items() if found},
        "optimiser_groups": [_numbers(group) for group in learner.optimiser.param_groups],
    }
    return arrays, counters


@torch.no_grad()
def write_learner(learner: Learner, arrays: Arrays, counters: dict[str, Any]) -> None:
    """Put a learner's state back; ValueError or KeyError if it is not of this learner's kind."""
    kept: dict[str, list[str]] = counters["optimiser"]
    groups: list[dict[str, float]] = counters["optimiser_groups"]
    if [saved.keys() for saved in groups] != [_numbers(group).keys() for group in learner.optimiser.param_groups]:
        raise ValueError("holds other numbers than this optimiser has")
    updates, since_reset = counters["updates"], counters["updates_since_reset"]
    if type(updates) is not int or type(since_reset) is not int or not 0 <= since_reset <= updates:
        raise ValueError(f"{updates!r} updates, {since_reset!r} of them since a reset: cannot be")
    parameters = dict(learner.online.named_parameters())
    sides = {"online": learner.online.state_dict(), "target": learner.target.state_dict()}
    expected = {f"{side}.{name}" for side, tensors in sides.items() for name in tensors}
    expected |= {f"optimiser.{key}.{name}" for name, keys in kept.items() for key in keys}
    expected |= {"log_beta"} | {f"generator.{name}" for name in _generators(learner)}
    if arrays.keys() != expected or not kept.keys() <= parameters.keys():
        raise ValueError(f"holds other arrays than this agent has: {', '.join(sorted(arrays.keys() ^ expected)[:5])}")
    states = {
        parameters[name]: {
            key: _like(parameters[name], arrays[f"optimiser.{key}.{name}"], f"{key} of {name}") for key in keys
        }
        | counters["optimiser_numbers"].get(name, {})
        for name, keys in kept.items()
    }
    for side, tensors in sides.items():
        for name, tensor in tensors.items():
            _fill(tensor, arrays[f"{side}.{name}"], name)
    _fill(learner.temperature.log_beta, arrays["log_beta"], "log_beta")
    learner.optimiser.state.clear()
    learner.optimiser.state.update(states)  # type: ignore[arg-type]
    for group, saved in zip(learner.optimiser.param_groups, groups, strict=True):
        group.update(saved)
    for name, generator in _generators(learner).items():
        set_generator(generator, arrays[f"generator.{name}"], name)
    learner.updates, learner.updates_since_reset = updates, since_reset
    learner.returns.write(counters["returns"])


def set_generator(generator: torch.Generator, state: npt.NDArray[Any], name: str) -> None:
    """Put a generator's state back; ValueError if it is not one."""
    try:
        generator.set_state(torch.from_numpy(state))
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"the state of the generator of {name} is not one: {error}") from error


def learner_bytes(learner: Learner) -> int:
    """Bytes that a learner's state has at most with AdamW, without generators."""
    buffers = sum(buffer.nbytes for buffer in learner.online.buffers())
    networks = sum(4 * parameter.nbytes + 4 for parameter in learner.online.parameters()) + 2 * buffers
    return networks + learner.temperature.log_beta.nbytes


def _generators(learner: Learner) -> dict[str, torch.Generator]:
    return {"networks": learner.init_generator, "noise": learner.noise.generator}


def _to_array(tensor: torch.Tensor) -> npt.NDArray[Any]:
    return tensor.detach().cpu().contiguous().numpy()


def _numbers(group: dict[str, Any]) -> dict[str, float]:
    """What an optimiser may count or change in a group of parameters, such as its learning rate."""
    return {key: value for key, value in group.items() if type(value) in (int, float)}


def _fill(tensor: torch.Tensor, array: npt.NDArray[Any], name: str) -> None:
    expected = str(tensor.dtype).removeprefix("torch.")
    if array.dtype.name != expected or array.shape != tuple(tensor.shape):
        found = f"{array.dtype} of shape {array.shape}"
        raise ValueError(f"{name} is {found}, must be {expected} of shape {tuple(tensor.shape)}")
    tensor.copy_(torch.from_numpy(array))


def _like(parameter: torch.Tensor, array: npt.NDArray[Any], name: str) -> torch.Tensor:
    """An array of the optimiser as a tensor: like the parameter, a factor of such (Adafactor), or a single number."""
    if array.shape == tuple(parameter.shape) and array.dtype == np.float32:
        return torch.empty_like(parameter, requires_grad=False).copy_(torch.from_numpy(array))
    factor = array.ndim == parameter.dim() and all(
        have in (1, side) for have, side in zip(array.shape, parameter.shape, strict=True)
    )
    if factor and array.dtype == np.float32:
        return torch.from_numpy(array.copy()).to(parameter.device)
    if array.shape == () and array.dtype.kind in "fiub":
        return torch.from_numpy(array.copy()).to(parameter.device)
    found = f"{array.dtype} of shape {array.shape}"
    raise ValueError(f"{name} is {found}, must be float32 of shape {tuple(parameter.shape)} or a single number")
