"""Check the learner against numbers computed by the authors' code: three updates on a reference case.

The case's networks go through the same learner that trains, and everything the case states is compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from sacbbf.agents.config import Kernels
from sacbbf.learner.learner import Learner
from sacbbf.learner.losses import select
from sacbbf.learner.terms import Terms
from sacbbf.networks.layers import to_maps
from sacbbf.run.checks import Check
from sacbbf.run.reference_case import Case, build_learner, case_batch, load_case, to_flax


@dataclass(frozen=True)
class Tolerance:
    """Largest deviation that is float noise: |got - want| <= atol + rtol * |want|, for every entry."""

    rtol: float
    atol: float

    def __str__(self) -> str:
        parts = [f"{self.rtol:g} rel" if self.rtol else "", f"{self.atol:g} abs" if self.atol else ""]
        return " + ".join(part for part in parts if part) or "equal"


FORWARD = Tolerance(rtol=1e-4, atol=1e-5)
GRADIENT_NORM = Tolerance(rtol=1e-4, atol=0.0)
GRADIENT_ENTRY = Tolerance(rtol=1e-4, atol=1e-5)
EXACT = Tolerance(rtol=0.0, atol=0.0)
# After one and after three updates: norms, entries of the target network, entries of the online network.
AFTER: dict[int, dict[str, Tolerance]] = {
    1: {
        "online_norm": Tolerance(1e-6, 0.0),
        "target_norm": Tolerance(1e-6, 0.0),
        "target_head": Tolerance(0.0, 1e-7),
        "online_head": Tolerance(0.0, 1e-6),
    },
    3: {
        "online_norm": Tolerance(1e-4, 0.0),
        "target_norm": Tolerance(1e-4, 0.0),
        "target_head": Tolerance(0.0, 1e-6),
        "online_head": Tolerance(0.0, 2e-5),
    },
}


def compare(quantity: str, pairs: Iterable[tuple[str, Any, Any]], tolerance: Tolerance) -> Check:
    """Compare (label, got, want) triples under one tolerance; the row names the worst label."""
    worst, worst_excess, max_abs, max_rel, ok = "", -math.inf, 0.0, 0.0, True
    for label, got, want in pairs:
        got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
        if got.shape != want.shape:
            return Check(quantity, math.inf, math.inf, str(tolerance), False, f"{label} {got.shape} != {want.shape}")
        deviation = np.abs(got - want)
        excess = float(np.max(deviation - tolerance.atol - tolerance.rtol * np.abs(want), initial=-math.inf))
        ok = ok and excess <= 0 and bool(np.isfinite(got).all())
        max_abs = max(max_abs, float(np.max(deviation, initial=0.0)))
        max_rel = max(max_rel, float(np.max(deviation / np.maximum(np.abs(want), 1e-12), initial=0.0)))
        if excess > worst_excess:
            worst, worst_excess = label, excess
    return Check(quantity, max_abs, max_rel, str(tolerance), ok, worst)


def _branches_last(values: torch.Tensor | None) -> torch.Tensor:
    """(V, k, B, ...) in the reference's order (B, k, V, ...)."""
    return cast(torch.Tensor, values).transpose(0, 2)


def _cosine(terms: Terms) -> torch.Tensor:
    prediction, target = _branches_last(terms.spr_prediction), _branches_last(terms.spr_target)
    return torch.cosine_similarity(prediction, target, dim=-1)


def _first_entries(values: torch.Tensor | None) -> torch.Tensor:
    return _branches_last(values)[..., :8]


def _target_divergence(terms: Terms) -> torch.Tensor:
    """Mean Kullback-Leibler divergence of the online distribution from its target."""
    return (terms.td + torch.xlogy(terms.target, terms.target).sum(-1)).mean()[None]


def _advantage(terms: Terms) -> torch.Tensor:
    baseline = (torch.softmax(cast(torch.Tensor, terms.policy_logits), -1) * terms.q_values).sum(-1)
    return select(terms.q_values, cast(torch.Tensor, terms.policy_action)) - baseline


# What a case may expect of the first update, under the names that its file uses.
QUANTITIES: dict[str, Callable[[Terms], Any]] = {
    "online_latent_sum": lambda terms: terms.latent.flatten(1).sum(1),
    "online_latent_channel_mean": lambda terms: terms.latent.mean((2, 3)),
    "q_values": lambda terms: terms.q_values,
    "q_logits": lambda terms: terms.q_logits,
    "policy_logits": lambda terms: terms.policy_logits,
    "spr_cosine": _cosine,
    "spr_prediction_head": lambda terms: _first_entries(terms.spr_prediction),
    "spr_target_head": lambda terms: _first_entries(terms.spr_target),
    "next_policy_logits": lambda terms: terms.next_policy_logits,
    "next_action": lambda terms: terms.next_action,
    "target_distribution": lambda terms: terms.target,
    "target_value": lambda terms: terms.target,
    "td_loss": lambda terms: terms.td,
    "spr_loss": lambda terms: terms.spr,
    "policy_action": lambda terms: terms.policy_action,
    "policy_advantage": _advantage,
    "policy_entropy": lambda terms: terms.entropy,
    "policy_loss": lambda terms: terms.policy,
    "aux_DQNLoss": lambda terms: terms.td.mean()[None],
    "aux_SPRLoss": lambda terms: terms.spr.mean()[None],
    "aux_TD_Error": _target_divergence,
    "aux_ent": lambda terms: terms.entropy.mean()[None],
    "aux_TotalLoss": lambda terms: (terms.total - (terms.weights * terms.policy).mean())[None],
    "total_loss": lambda terms: terms.total,
}


def check_forward(case: Case, terms: Terms) -> list[Check]:
    """Compare every expected forward quantity of the first update."""
    checks = []
    for key in sorted(name for name in case.arrays if name.startswith("expect_")):
        name, want = key.removeprefix("expect_"), case.arrays[key]
        if name not in QUANTITIES:
            checks.append(Check(name, math.nan, math.nan, "", False, "this version does not compute it"))
            continue
        got = QUANTITIES[name](terms).numpy()
        tolerance = EXACT if name.endswith("_action") else FORWARD
        checks.append(compare(name, [(name, got, want)], tolerance))
    return checks


def check_gradients(learner: Learner, expected: dict[str, dict[str, Any]]) -> list[Check]:
    """Compare the gradients that the last update left behind, where the case has any."""
    wanted = {name: values for name, values in expected.items() if "grad_norm" in values}
    grads = {
        name: to_flax(value.grad).astype(np.float64) for name, value in _flax_named(learner.online) if name in wanted
    }
    norms = [(name, np.linalg.norm(grads[name]), values["grad_norm"]) for name, values in wanted.items()]
    heads = [
        (name, grads[name].ravel()[: len(values["grad_head"])], values["grad_head"]) for name, values in wanted.items()
    ]
    if not wanted:
        return []
    return [compare("gradient norms", norms, GRADIENT_NORM), compare("gradient entries", heads, GRADIENT_ENTRY)]


def check_parameters(learner: Learner, expected: dict[str, dict[str, Any]], updates: int) -> list[Check]:
    """Compare norms and first entries of both networks after `updates` updates."""
    parameters = {
        "online": {name: to_flax(value) for name, value in _flax_named(learner.online)},
        "target": {name: to_flax(value) for name, value in _flax_named(learner.target)},
    }
    checks = []
    for key, tolerance in AFTER[updates].items():
        network, what = key.split("_")
        pairs = []
        for name, values in expected.items():
            flat = parameters[network][name].astype(np.float64).ravel()
            pairs.append((name, np.linalg.norm(flat) if what == "norm" else flat[: len(values[key])], values[key]))
        label = "norms" if what == "norm" else "entries"
        checks.append(compare(f"after {updates}: {network} {label}", pairs, tolerance))
    return checks


def _flax_named(network: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    """Parameters under the names of the reference: `weight` is called `kernel` there."""
    return [(name.replace("weight", "kernel"), value) for name, value in network.named_parameters()]


def verify_case(prefix: Path, kernels: Kernels = "auto") -> list[Check]:
    """Run a case's three updates through the learner and compare everything the case states."""
    case = load_case(prefix)
    learner = build_learner(case, kernels)
    batch = case_batch(case, learner.spr_steps)
    beta = case.meta.get("beta", 0.0)
    first = learner.update(batch, beta)
    pictures = to_maps(first.terms.latent, learner.online.encoder.out_shape)
    checks = check_forward(case, replace(first.terms, latent=pictures))
    checks += check_gradients(learner, case.meta["after_one_update"])
    checks += check_parameters(learner, case.meta["after_one_update"], 1)
    totals = [first, learner.update(batch, beta), learner.update(batch, beta)]
    checks += check_parameters(learner, case.meta["after_three_updates"], 3)
    if "total_loss_of_three_updates" in case.meta:
        got = [float(update.terms.total) for update in totals]
        want = case.meta["total_loss_of_three_updates"]
        checks.append(compare("total loss of three updates", [("", got, want)], FORWARD))
    return checks
