"""Whose code may run: modules that a user names on the command line, or that are installed, or that a user trusts.

A configuration that was read from a folder is a stranger's until shown otherwise. The modules that it names are looked
for without importing any. The working directory, where a stranger's folder may have been unpacked, is not searched
for modules unless the user names one on this very command line or trusts what is there; even then it comes last.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING

from sacbbf.errors import UsageError

if TYPE_CHECKING:
    from sacbbf.envs.make import EnvSettings

CUSTOM = "custom:"  # begins the names of environments that were handed in and cannot be found by name


class Untrusted(UsageError):  # noqa: N818 - what the module is, not whose error it is
    """A module that a configuration names is not installed, and nobody has said that it is to be trusted."""


def modules_of(env: str, settings: EnvSettings) -> Iterator[tuple[str, str]]:
    """Each module that an environment's name and settings name, with the setting that does so, in words."""
    module, _, _ = env.rpartition(":")
    if module and not env.startswith(CUSTOM):
        yield module, f"env = {env!r}"
    for text in settings.wrappers:
        yield text.rpartition(":")[0], f"environment.wrappers = {text!r}"
    for text in settings.imports:
        yield text, f"environment.imports = {text!r}"


def admit(
    env: str,
    settings: EnvSettings,
    source: Path,
    *,
    typed: Collection[str] = (),
    trust: bool = False,
    remedy: str = "--trust",
) -> None:
    """Raise Untrusted for a module that `source`, a file, names and that is not installed; nothing is imported.

    Those that were `typed` on the command line are the user's own, and with `trust` all are. Then the working directory
    is searched for modules too, behind all other places.
    """
    if not trust:
        for module, setting in modules_of(env, settings):
            if module not in typed and not is_installed(module, source.parent):
                raise Untrusted(
                    f"{source}: {setting} would run the code of the module {module}, which is not installed. If you "
                    f"know and trust it, add {remedy}: it is then looked for in the working directory too"
                )
    if trust or typed:
        search_working_directory()


def search_working_directory() -> None:
    """Let modules be found in the working directory, if they are found nowhere else."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


def is_installed(module: str, folder: Path) -> bool:
    """Whether a module would be found outside of the working directory and `folder`, or was imported before.

    What something installed inside of them, as a virtual environment or a package under development, counts as well.
    """
    if module in sys.modules:
        return True
    places = _places(module)
    guarded = [Path.cwd(), folder.resolve()]
    return bool(places) and not any(_lies_loosely(place, guard) for place in places for guard in guarded)


def _places(module: str) -> list[Path]:
    """Where a module would be imported from, the packages that it is in included; empty if it is nowhere."""
    places: list[Path] = []
    path: Sequence[str] | None = None
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = _find(name, path)
        if spec is None:
            return []
        if spec.has_location and spec.origin:
            places.append(Path(os.path.realpath(spec.origin)))
        path = list(spec.submodule_search_locations or ())
        places += [Path(os.path.realpath(one)) for one in path]
    return places or [Path(sys.prefix)]  # built in


def _find(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """Return what Python would import under a name, without doing so."""
    if name in sys.modules and (known := sys.modules[name].__spec__) is not None:
        return known
    for finder in sys.meta_path:
        if hasattr(finder, "find_spec") and (found := finder.find_spec(name, path, None)) is not None:
            return found
    return None


def _lies_loosely(place: Path, guard: Path) -> bool:
    """Whether a place inside a guarded folder is found for no better reason than that the folder is searched."""
    if not place.is_relative_to(guard):
        return False
    searched = [one for one in map(_real, sys.path) if place.is_relative_to(one)]
    if not searched:
        return False  # an installed finder knows it
    own = {_real(one) for one in os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    nearest = max(searched, key=lambda one: len(one.parts))
    return nearest in own or nearest == guard or not nearest.is_relative_to(guard)


def _real(entry: str) -> Path:
    return Path(os.path.realpath(entry))
