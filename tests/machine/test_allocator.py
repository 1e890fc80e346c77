"""Asking the C library to keep freed allocator."""

from __future__ import annotations

import platform

import pytest

from sacbbf.machine import allocator


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="there is nothing to ask elsewhere")
def test_glibc_agrees_to_keep_freed_pages():
    assert allocator.keep_freed_pages() is True


def test_a_library_without_mallopt_is_left_alone(monkeypatch):
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda name: object())
    assert allocator.keep_freed_pages() is False


def test_a_refusal_is_reported(monkeypatch):
    class Library:
        @staticmethod
        def mallopt(option, value):
            return 0

    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda name: Library)
    assert allocator.keep_freed_pages() is False
