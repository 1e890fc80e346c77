"""What was there is left alone by the collector; what comes later is not."""

from __future__ import annotations

import gc
import weakref

import pytest

from sacbbf.machine.collector import spare_imports


class Node:
    """Refers to itself, so that only a search finds that nobody else does."""

    def __init__(self):
        self.itself = self


@pytest.fixture(autouse=True)
def searched():
    """Nothing is spared before a test; afterwards everything is, as in all other tests."""
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


def test_only_garbage_that_comes_later_is_found():
    early = weakref.ref(Node())
    spare_imports()
    late = weakref.ref(Node())
    gc.collect()
    assert early() is not None and late() is None


def test_it_happens_once():
    spare_imports()
    kept = [Node() for _ in range(10_000)]
    before = gc.get_freeze_count()
    spare_imports()
    assert 0 < gc.get_freeze_count() <= before and len(kept) == 10_000
