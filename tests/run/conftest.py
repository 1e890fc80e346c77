"""The run without a stop that all others are compared with, and runs that waste no time."""

from __future__ import annotations

import functools
import shutil
from importlib import metadata

import pytest
from resuming import outcome, short_config, stop_at, train_telling

from sacbbf.disk.lease import Lease

version = functools.cache(metadata.version)


def _hurry(patch):
    """Draw no learning curves, wait for no disk, look versions up once: together as long as a short training."""
    patch.setattr("sacbbf.run.train.draw_curve", lambda *args: b"picture")
    patch.setattr("os.fsync", lambda descriptor: None)
    patch.setattr(metadata, "version", version)


@pytest.fixture
def hurried(monkeypatch):
    """Runs take no longer than they must."""
    _hurry(monkeypatch)


@pytest.fixture
def impatient(monkeypatch):
    """A run is taken from a process that shows no life for two seconds; on a full disk none can be seen."""
    monkeypatch.setattr(Lease, "acquire", functools.partial(Lease.acquire, patience=2.0, beat_every=0.2))


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """Outcome of short_config without a stop."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        _hurry(patch)
        train_telling(short_config(), out)
    return outcome(out)


@pytest.fixture(scope="session")
def stopped_run(tmp_path_factory):
    """Directory of short_config stopped after step 97, with checkpoints of steps 84 and 97. Not to be written to."""
    out = tmp_path_factory.mktemp("runs") / "stopped"
    with pytest.MonkeyPatch.context() as patch:
        _hurry(patch)
        stop_at(97, short_config(), out)
    return out


@pytest.fixture
def copied(stopped_run, tmp_path):
    """A copy of the stopped run."""
    return shutil.copytree(stopped_run, tmp_path / "copied")
