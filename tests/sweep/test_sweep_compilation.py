"""Which cells of a sweep are compiled: those with enough updates, where there is a compiler, unless a flag decides."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_sweep import begun, small_spec

from sacbbf.commands import sweep as command
from sacbbf.errors import UsageError
from sacbbf.sweep.check import check
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.spec import WORTH_COMPILING, Variant, configuration, from_json, to_json
from sacbbf.sweep.workers import Workers

WARMUP = 64


def compiled(**fields) -> bool:
    spec = replace(small_spec(compile=True), **fields)
    return configuration(spec, spec.cells()[0]).settings.compute.compile


@pytest.mark.parametrize(("missing", "expected"), [(0, True), (1, False)])
def test_a_cell_is_compiled_if_it_has_enough_updates(missing, expected):
    steps = WORTH_COMPILING // 2 + WARMUP - missing  # two updates a step
    assert compiled(steps=steps) is expected
    assert not compiled(steps=steps, compile=False)


def test_updates_are_counted_with_their_replay_ratio():
    spec = small_spec(variants=(Variant("sac-bbf", {"replay_ratio": 4}), Variant("random")), steps=WARMUP + 100)
    learner, player = (configuration(spec, cell) for cell in spec.cells())
    assert learner.updates == 400 and player.updates == 0


@pytest.mark.parametrize("value", [True, False])
def test_a_setting_decides_for_all_cells(value):
    settings = {**small_spec().settings, "compute.compile": value}
    assert compiled(settings=settings, compile=not value, steps=1_000_000) is value


@pytest.mark.parametrize(
    ("flag", "compiler", "expected"),
    [("auto", True, True), ("auto", False, False), ("on", False, True), ("off", True, False)],
)
def test_the_flag_decides_and_auto_asks_the_machine(flag, compiler, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "can_compile", lambda device: compiler)
    directory = SweepDirectory(tmp_path / "sweep")
    assert command.with_compilation(small_spec(), directory, Workers(compile=flag)).compile is expected


def test_a_sweep_that_goes_on_stays_as_it_began(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "can_compile", lambda device: False)
    directory = begun(tmp_path / "sweep", small_spec(compile=True))
    assert command.with_compilation(small_spec(), directory, Workers()).compile is True


def test_it_is_stored_and_earlier_sweeps_did_not_compile():
    plain = to_json(small_spec(compile=True))
    assert from_json(plain).compile is True
    del plain["compile"]
    assert from_json(plain).compile is False


def test_compiling_without_a_compiler_is_refused_before_anything_runs(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UsageError, match=r"compute\.compile = True: needs a C\+\+ compiler"):
        check(small_spec(compile=True, steps=WORTH_COMPILING + WARMUP))
