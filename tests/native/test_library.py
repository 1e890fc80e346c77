"""Compiling, keeping and doing without: where the C functions come from."""

from __future__ import annotations

import os
import shutil

import pytest

from sacbbf.native import library as native

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, native.COMPILERS)) or os.uname().sysname != "Linux", reason="no C compiler, or not Linux"
)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache folder of the test's own, and nothing loaded yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    native.library.cache_clear()
    yield tmp_path / "cache"
    native.library.cache_clear()


def no_compiler(monkeypatch):
    monkeypatch.setattr(native.shutil, "which", lambda name: None)


@needs_compiler
def test_what_was_compiled_is_kept_and_then_needs_no_compiler(own_cache, monkeypatch):
    assert native.library() is not None
    assert [path.name for path in (own_cache / "sacbbf").iterdir()] == [native.place().name]
    native.library.cache_clear()
    no_compiler(monkeypatch)
    assert native.library() is not None


@needs_compiler
def test_a_damaged_result_is_compiled_again(own_cache):
    native.place().parent.mkdir(parents=True)
    native.place().write_bytes(b"not a library")
    assert native.library() is not None
    assert native.place().stat().st_size > 1000


def test_without_a_compiler_there_is_none(own_cache, monkeypatch):
    no_compiler(monkeypatch)
    assert native.library() is None
    assert not own_cache.exists()


@pytest.mark.parametrize("complaint", ["exit 1", "exec sleep 60"])
def test_a_compiler_that_fails_or_hangs_is_none(own_cache, monkeypatch, tmp_path, complaint):
    failing = tmp_path / "failing"
    failing.write_text(f"#!/bin/sh\n{complaint}\n")
    failing.chmod(0o755)
    monkeypatch.setattr(native, "COMPILERS", (str(failing),))
    monkeypatch.setattr(native, "SECONDS", 0.5)
    assert native.library() is None


def test_who_wants_none_gets_none(own_cache, monkeypatch):
    monkeypatch.setenv("SACBBF_NATIVE", "0")
    assert native.library() is None


def test_other_systems_do_without(own_cache, monkeypatch):
    monkeypatch.setattr(native.sys, "platform", "darwin")
    assert native.library() is None


@needs_compiler
def test_a_cache_that_cannot_be_written_changes_nothing(own_cache, monkeypatch):
    own_cache.write_text("a file where the folder should be")
    assert native.library() is not None
    assert own_cache.read_text() == "a file where the folder should be"


@needs_compiler
def test_a_user_without_a_home_compiles_each_time(own_cache, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(native.Path, "home", homeless)
    assert native.place() is None
    assert native.library() is not None


def test_another_processor_has_a_result_of_its_own(own_cache, monkeypatch):
    here = native.place()
    monkeypatch.setattr(native.processor, "features", lambda: "fpu")
    assert native.place() != here
