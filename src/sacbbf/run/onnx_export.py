"""A trained policy as ONNX: it takes the states that `make_env` gives, and says in its metadata what it is of."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from sacbbf import __version__
from sacbbf.disk.files import write_atomically
from sacbbf.envs.base import EnvSpec
from sacbbf.envs.stack import state_shape
from sacbbf.envs.states import state_space
from sacbbf.errors import UsageError
from sacbbf.learner.augment import to_float
from sacbbf.networks import Network
from sacbbf.policy import act
from sacbbf.run.policy_file import load_policy, read_layout
from sacbbf.run.records import RunDirectory
from sacbbf.run.settings import RunConfig, read_spec


class Acting(nn.Module):
    """From states as an environment shows them to the ratings of actions: all that acting needs."""

    def __init__(self, network: Network, boolean: bool = False) -> None:
        super().__init__()
        self.network = network
        self.boolean = boolean  # frames of booleans, which `make_env` shows as 0 and 1

    def forward(self, states: torch.Tensor, masks: torch.Tensor | None = None) -> torch.Tensor:
        """Map states (N, stack * C, H, W) or (N, D) to logits (N, A), or to Q up to scale without a policy.

        With masks (N, A) of the legal actions, those of all others are minus infinity.
        """
        rated = act(self.network, to_float(states != 0 if self.boolean else states))
        return rated if masks is None else rated.masked_fill(~masks, -torch.inf)


def write_onnx(run: RunDirectory, config: RunConfig, path: Path) -> None:
    """Write the policy of a run with this configuration as ONNX."""
    spec = read_spec(config.env, config.environment)
    network = load_policy(run.policy, torch.device("cpu"))
    dtype = torch.from_numpy(np.zeros(1, state_space(spec, config.stack).dtype)).dtype
    acting = Acting(network, boolean=spec.frame_dtype.kind == "b")
    masked = read_layout(run.policy).masked
    facts = metadata(config, spec, run.read_result())
    write_atomically(path, onnx_bytes(acting, state_shape(spec.frame_shape, config.stack), dtype, masked, facts))


def metadata(config: RunConfig, spec: EnvSpec, result: Mapping[str, Any] | None) -> dict[str, str]:
    """Return what a model says of itself: texts by name, lists as JSON."""
    facts = {
        "env": config.env,
        "agent": config.agent,
        "size": config.size,
        "seed": str(config.seed),
        "steps": str(config.steps),
        "actions": json.dumps(spec.action_names),
        "stack": str(config.stack),
        "sacbbf": __version__,
    }
    if result is not None and result.get("score") is not None:
        facts["score"] = str(result["score"])
    return facts


def onnx_bytes(
    acting: Acting,
    obs_shape: tuple[int, ...],
    dtype: torch.dtype,
    masked: bool = False,
    facts: Mapping[str, str] | None = None,
) -> bytes:
    """Return a network's acting part as ONNX: `states` (batch, ...) in, `logits` or `q` (batch, A) out.

    If `masked`, the legal actions go in as well: `masks` (batch, A), booleans. The `facts` become its metadata.
    """
    try:
        import onnx
        import onnxscript  # noqa: F401 - what PyTorch's exporter needs
    except ImportError as error:
        raise UsageError(f"ONNX needs onnx and onnxscript: pip install 'sacbbf[onnx]' ({error})") from error
    network = acting.network
    inputs = {"states": torch.zeros((2, *obs_shape), dtype=dtype)}
    if masked:
        inputs["masks"] = torch.ones((2, network.num_actions), dtype=torch.bool)
    with _quiet():
        program = torch.onnx.export(
            acting.eval(),
            tuple(inputs.values()),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("batch", min=1)},) * len(inputs),
            input_names=list(inputs),
            output_names=["q" if network.policy_head is None else "logits"],
            verbose=False,
        )
    if program is None:
        raise UsageError("PyTorch could not export this network")
    model = program.model_proto
    onnx.helper.set_model_props(model, dict(facts or {}))
    content = io.BytesIO()
    onnx.save(model, content)
    return content.getvalue()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's talk about packages that are not needed to itself."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
