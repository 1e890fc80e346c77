"""Whose modules are imported: those that are installed, that the user named, or that are trusted; nobody else's."""

from __future__ import annotations

import sys

import pytest

from sacbbf.envs.make import EnvSettings
from sacbbf.envs.trust import Untrusted, admit, is_installed, modules_of, search_working_directory


@pytest.fixture
def place(working_directory):
    """A working directory and a run in it, both with a module that must not be imported."""
    for folder in (working_directory, working_directory / "run"):
        folder.mkdir(exist_ok=True)
        (folder / "evil.py").write_text("raise SystemExit('imported')\n")
    yield working_directory
    sys.modules.pop("evil", None)


def test_all_that_names_a_module_is_found():
    settings = EnvSettings(wrappers=("a.b:One", "c:Two"), imports=("d.e",))
    found = dict(modules_of("my.own:Game-v0", settings))
    assert found == {
        "my.own": "env = 'my.own:Game-v0'",
        "a.b": "environment.wrappers = 'a.b:One'",
        "c": "environment.wrappers = 'c:Two'",
        "d.e": "environment.imports = 'd.e'",
    }
    assert not list(modules_of("CartPole-v1", EnvSettings()))
    assert not list(modules_of("custom:TimeLimit(Spy(x:y))", EnvSettings()))


@pytest.mark.parametrize("module", ["gymnasium", "xml.dom.minidom", "sacbbf.envs.make", "zipimport", "pytest", "math"])
def test_what_is_installed_is_known_without_importing_it(module, place):
    before = set(sys.modules)
    assert is_installed(module, place / "run")
    assert set(sys.modules) == before


@pytest.mark.parametrize("searched", [None, ".", "run", ".."])
def test_modules_of_the_working_directory_and_of_the_run_are_not_installed(searched, place, monkeypatch):
    """However they would be found."""
    (place.parent / place.name / "run/__init__.py").write_text("raise SystemExit('imported')\n")
    if searched:
        monkeypatch.syspath_prepend(str((place / searched).resolve()))
    for module in ("evil", "run.evil", "nowhere", "gymnasium.nowhere", f"{place.name}.evil", f"{place.name}.run.evil"):
        assert not is_installed(module, place / "run"), module
    assert "evil" not in sys.modules and "run" not in sys.modules


def test_a_place_on_the_path_elsewhere_counts_as_installed(place, tmp_path_factory, monkeypatch):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "kind.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(elsewhere))
    assert is_installed("kind", place / "run") and "kind" not in sys.modules


def test_a_package_under_development_counts_as_installed_unless_pythonpath_leads_there(place, monkeypatch):
    """As an editable installation has it: a folder below the working directory is searched."""
    (place / "src").mkdir()
    (place / "src/mine.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(place / "src"))
    assert is_installed("mine", place / "run")
    assert not is_installed("mine", place / "src")  # the run itself
    monkeypatch.setenv("PYTHONPATH", f"/nowhere:{place / 'src'}")
    assert not is_installed("mine", place / "run")


def test_a_module_that_was_imported_before_may_be_named(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "evil", sys)
    assert is_installed("evil", place / "run")


@pytest.mark.parametrize(
    ("env", "settings", "words"),
    [
        ("evil:X-v0", EnvSettings(), "env = 'evil:X-v0'"),
        ("CartPole-v1", EnvSettings(wrappers=("evil:X",)), "environment.wrappers = 'evil:X'"),
        ("CartPole-v1", EnvSettings(imports=("evil",)), "environment.imports = 'evil'"),
    ],
)
def test_the_refusal_names_file_setting_module_and_flag(env, settings, words, place):
    path = place / "run/config.toml"
    with pytest.raises(Untrusted) as caught:
        admit(env, settings, path)
    assert str(caught.value) == (
        f"{path}: {words} would run the code of the module evil, which is not installed. If you know and trust it, "
        "add --trust: it is then looked for in the working directory too"
    )
    assert str(place) not in sys.path


def test_what_was_typed_or_is_trusted_is_looked_for_in_the_working_directory_last(place):
    path = place / "run/config.toml"
    before = sys.path.copy()
    admit("evil:X-v0", EnvSettings(), path, typed={"evil"})
    admit("evil:X-v0", EnvSettings(imports=("other",)), path, trust=True)
    search_working_directory()
    assert sys.path == [*before, str(place)]
    with pytest.raises(Untrusted, match="the module evil"):  # what another word brought there is nobody's still
        admit("evil:X-v0", EnvSettings(), path)
    assert "evil" not in sys.modules


def test_names_without_modules_change_nothing(place):
    before = sys.path.copy()
    admit("CartPole-v1", EnvSettings(), place / "run/config.toml")
    assert sys.path == before
