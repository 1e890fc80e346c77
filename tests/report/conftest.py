"""Runs and pages that several files of tests look at; made once, not to be written to."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import write_sweep

from sacbbf.cli import run


@pytest.fixture(scope="session")
def sweep(tmp_path_factory) -> Path:
    """Two agents on the 26 games, two runs each, and runs in MinAtar and CartPole."""
    return write_sweep(tmp_path_factory.mktemp("sweep") / "runs", seeds=2)


@pytest.fixture(scope="session")
def page_file(sweep) -> Path:
    """The page on the sweep."""
    out = sweep.parent / "report.html"
    assert run(["report", str(sweep), "--html", str(out), "--reps", "100"]) == 0
    return out


@pytest.fixture(scope="session")
def published_file(tmp_path_factory) -> Path:
    """The page on published data alone."""
    out = tmp_path_factory.mktemp("published") / "published.html"
    assert run(["report", "--published", "--html", str(out), "--reps", "100"]) == 0
    return out
