"""What all tests of tunings share: no waiting between looks, none for the disk."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, event

from sacbbf.sweep import drive
from sacbbf.tune import search


@event.listens_for(Engine, "connect")
def without_flushing(connection, record):
    """Tests survive no power cut; a file that is not flushed survives a killed process all the same."""
    connection.execute("PRAGMA synchronous = OFF")


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    """Made-up runs need no time."""
    monkeypatch.setattr(search, "PAUSE", 0.0)
    monkeypatch.setattr(drive, "PAUSE", 0.0)
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
