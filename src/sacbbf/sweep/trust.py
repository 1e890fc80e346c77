"""Whose modules a sweep names: the user's on the command line, or those of a manifest that may be a stranger's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sacbbf.envs.make import EnvSettings
from sacbbf.envs.trust import admit, modules_of
from sacbbf.run.settings import Settings, environment_of
from sacbbf.sweep.spec import Spec, Variant


def environments(
    envs: Sequence[str], variants: Sequence[Variant], settings: Settings
) -> Iterator[tuple[str, EnvSettings]]:
    """Each environment of a sweep with the settings that its variants give it."""
    for variant in variants:
        environment = environment_of({**settings, **variant.settings})
        yield from ((env, environment) for env in envs)


def names_modules(envs: Sequence[str], variants: Sequence[Variant], settings: Settings) -> bool:
    """Whether a sweep names a module to import."""
    return any(any(modules_of(*one)) for one in environments(envs, variants, settings))


def admit_sweep(spec: Spec, manifest: Path, trust: bool) -> None:
    """Raise Untrusted for a module that a stored sweep names and that is not installed, unless it is trusted."""
    for env, environment in environments(spec.envs, spec.variants, spec.settings):
        admit(env, environment, manifest, trust=trust)
