"""How PyTorch computes during a run: as its configuration says, and as before when it is over."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from sacbbf.machine.denormals import denormals_are_flushed
from sacbbf.run.settings import RunConfig
from sacbbf.run.torch_setup import torch_set_up
from sacbbf.run.train import _Run
from toys import change, run_quietly, toy_config


def facts():
    """Threads, precision of matrix products, whether convolutions may use TF32, whether denormals are flushed."""
    precision = torch.get_float32_matmul_precision()
    return torch.get_num_threads(), precision, torch.backends.cudnn.allow_tf32, denormals_are_flushed()


def config_with(threads: int, precision: str = "float32") -> RunConfig:
    config = toy_config("Identity", 20, threads=threads)
    return replace(config, settings=change(config.settings, {"compute": {"precision": precision}}))


@pytest.fixture(autouse=True)
def before():
    """What PyTorch was set to, other than any run of these tests; put back at the end."""
    found = facts()
    torch.set_num_threads(3)
    torch.set_float32_matmul_precision("medium")
    yield facts()
    torch.set_num_threads(found[0])
    torch.set_float32_matmul_precision(found[1])
    torch.backends.cudnn.allow_tf32 = found[2]


@pytest.mark.parametrize(
    ("threads", "precision", "expected"),
    [
        (2, "float32", (2, "highest", False, True)),
        (0, "float32", (3, "highest", False, True)),
        (1, "tf32", (1, "high", True, True)),
        (1, "bf16", (1, "high", True, True)),
        (1, "auto", (1, "highest", False, True)),  # on the CPU
    ],
)
def test_a_configuration_holds_meanwhile(threads, precision, expected, before):
    with torch_set_up(config_with(threads, precision)):
        assert facts() == expected
    assert facts() == before


def test_on_cuda_auto_is_tf32_as_jax_has_it_there(before):
    with torch_set_up(replace(config_with(1, "auto"), device="cuda:0")):
        assert facts() == (1, "high", True, True)
    assert facts() == before


def test_what_was_before_comes_back_after_an_error(before):
    with pytest.raises(ZeroDivisionError), torch_set_up(config_with(2)):
        _ = 1 / 0
    assert facts() == before


def test_a_run_computes_so_and_leaves_no_trace(before, hurried, tmp_path, monkeypatch):
    seen, carry_out = [], _Run.carry_out
    monkeypatch.setattr(_Run, "carry_out", lambda self: (seen.append(facts()), carry_out(self))[1])
    run_quietly(config_with(2), tmp_path / "run")
    assert seen == [(2, "highest", False, True)]
    assert facts() == before
