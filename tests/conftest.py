"""Registers the toy environments by name, makes the finished runs that many tests look at, starts a browser, arms
crash points."""

from __future__ import annotations

import gc
import sys

import pytest

import parts
from browsing import start_browser
from sacbbf.disk import faults
from sacbbf.run.records import RunDirectory
from toys import run_quietly, toy_config

# Files of the longest tests, which start many processes or compile.
LONG = ("test_sweep_local.py", "test_sweep_ray.py", "test_compiled.py", "test_one_writer.py", "test_train_failures.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests: at the end there are short ones left, which the workers can share."""
    items.sort(key=lambda item: item.path.name not in LONG)


def pytest_collection_finish() -> None:
    """Modules and tests are there to the end: they need not be searched for garbage over and over."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory) -> RunDirectory:
    """A short run on Identity with evaluations at steps 50, 100 and 150. Not to be written to."""
    out = tmp_path_factory.mktemp("runs") / "finished"
    run_quietly(toy_config("Identity", 200, every=50), out)
    return RunDirectory(out)


@pytest.fixture(scope="session")
def drawn_run(tmp_path_factory) -> RunDirectory:
    """A short run on a toy that has pictures. Not to be written to."""
    out = tmp_path_factory.mktemp("runs") / "drawn"
    run_quietly(toy_config("Drawn", 80), out)
    return RunDirectory(out)


@pytest.fixture
def working_directory(tmp_path, monkeypatch):
    """An empty directory that commands are given in; some add it to the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", sys.path.copy())
    return tmp_path


@pytest.fixture(scope="module")
def browser():
    """A browser for the tests of pages."""
    yield from start_browser()


@pytest.fixture
def armed():
    """Function that arms a crash point of this process: point, count, action."""
    yield faults.arm
    faults.disarm()


@pytest.fixture
def own_parts():
    """The parts of one's own are registered."""
    with parts.registered():
        yield
