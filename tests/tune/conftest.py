"""What all tests of tunings share: no waiting between looks, none for the disk. Without Optuna there are none."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("optuna") else ["test_*.py"]


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    """Made-up runs need no time, and tests survive no power cut: what is not flushed survives a killed process."""
    from sacbbf.sweep import drive
    from sacbbf.tune import search

    monkeypatch.setattr(search, "PAUSE", 0.0)
    monkeypatch.setattr(drive, "PAUSE", 0.0)
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@pytest.fixture(autouse=True, scope="session")
def unflushed():
    """Optuna's storage is not flushed either."""
    from sqlalchemy import Engine, event

    @event.listens_for(Engine, "connect")
    def without_flushing(connection, record):
        connection.execute("PRAGMA synchronous = OFF")

    yield
    event.remove(Engine, "connect", without_flushing)
