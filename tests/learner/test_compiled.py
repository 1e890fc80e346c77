"""Compiled updates: the same numbers but for rounding, one graph, and no more as schedules move."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import partial

import pytest
import torch
from small_agents import gradients, parameters, small_batch, small_learner

from sacbbf.agents.ladder import LearnerName
from sacbbf.errors import UsageError
from sacbbf.learner.learner import Learner
from sacbbf.run import devices
from sacbbf.types import Batch

COMPILED = {"compute": {"compile": True}}
AGENTS: list[LearnerName] = ["sac-bbf", "spr", "drq-eps", "sac-discrete"]  # a policy; noisy and greedy; scalar; twin
EXACT = {"loss": {"policy_gradient": "expected", "backup": "expected"}}


@pytest.fixture
def traced(monkeypatch) -> Iterator[dict[str, int]]:
    """Let torch.compile trace and differentiate, but generate no code; counts graphs and their breaks."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    yield torch._dynamo.utils.counters
    torch._dynamo.reset()


def pair(agent: LearnerName, changes=None) -> tuple[Learner, Learner]:
    """Two learners that differ in compilation only."""
    changes = changes or {}
    return small_learner(agent, changes), small_learner(agent, {**changes, **COMPILED})


def assert_same_update(plain: Learner, compiled: Learner, batch: Batch | None = None) -> None:
    batch = batch or small_batch(plain)
    wanted, found = plain.compute(batch, 0.1), compiled.compute(batch, 0.1)
    assert found[0].item() == pytest.approx(wanted[0].item(), rel=1e-5)
    for field in fields(wanted[1]):
        value, other = getattr(wanted[1], field.name), getattr(found[1], field.name)
        assert (value is None) == (other is None), field.name
        if value is not None:
            torch.testing.assert_close(other, value, rtol=1e-4, atol=1e-5, msg=field.name)
    wanted_grads, found_grads = gradients(plain, batch, 0.1), gradients(compiled, batch, 0.1)
    for name, value in wanted_grads.items():
        assert (value is None) == (found_grads[name] is None), name
        if value is not None:
            torch.testing.assert_close(found_grads[name], value, rtol=1e-3, atol=1e-5, msg=name)


@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_is_compiled_whole_and_computes_the_same(agent, traced):
    assert_same_update(*pair(agent))
    assert not traced["graph_break"]
    assert traced["stats"]["unique_graphs"] == 1


def test_exact_expectations_compute_the_same(traced):
    assert_same_update(*pair("sac-bbf", EXACT))
    assert not traced["graph_break"]


def test_one_graph_for_each_row_of_the_bootstrap_state_and_none_as_beta_moves_or_after_a_reset(traced):
    learner = small_learner("sac-bbf", COMPILED)  # k = 2, no augmentation: rows 3, 2, 1
    for number, step in enumerate((10, 9, 2, 1, 2, 10)):
        batch = replace(small_batch(learner, seed=number), bootstrap_step=step)
        learner.update(batch, beta=0.1 / (1 + number))
        if number == 3:
            learner.reset()
    assert traced["stats"]["unique_graphs"] == 3


@pytest.mark.skipif(shutil.which(os.environ.get("CXX", "g++")) is None, reason="no C++ compiler")
def test_generated_code_computes_the_same():
    torch._dynamo.reset()
    plain, compiled = pair("sac-bbf")
    assert_same_update(plain, compiled)
    for learner in (plain, compiled):
        learner.update(small_batch(learner, seed=1), beta=0.1)
    after = parameters(compiled.online)
    for name, value in parameters(plain.online).items():
        torch.testing.assert_close(after[name], value, rtol=1e-3, atol=1e-5, msg=name)
    torch._dynamo.reset()


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UsageError, match=r"compute\.compile = True: needs a C\+\+ compiler, and no-such-compiler"):
        devices.check_compiler("cpu")
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"compute\.compile = True: needs Triton"):
        devices.check_compiler("cuda:0")
