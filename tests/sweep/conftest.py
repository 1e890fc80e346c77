"""The sweep that nothing disturbs, which all others are compared with."""

from __future__ import annotations

import pytest
from rich.console import Console
from small_sweep import begun, small_spec

from sacbbf.sweep.work import run_cell

SEEDS = 4


@pytest.fixture(autouse=True)
def speed_cache(tmp_path_factory, monkeypatch):
    """The file in which speeds are kept: one of the test's own."""
    top = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(top))
    return top / "sacbbf" / "speeds.json"


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """Directory of a sweep of small cells, run one after the other by this process. Not to be written to."""
    spec = small_spec(SEEDS)
    directory = begun(tmp_path_factory.mktemp("sweeps") / "undisturbed", spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sacbbf.run.train.draw_curve", lambda *args: b"picture")
        patch.setattr("os.fsync", lambda descriptor: None)
        for cell in spec.cells():
            ended = run_cell(directory, spec, cell, Console(quiet=True))
            assert ended.kind == "finished", ended.why
    return directory
