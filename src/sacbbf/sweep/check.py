"""Whether a sweep can be run: every kind of cell is looked at before the first begins."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

from sacbbf.errors import UsageError
from sacbbf.run.fitting import check_fit
from sacbbf.run.settings import check_run
from sacbbf.sweep.spec import Cell, Spec, check_count, configuration, environment_spec


def check(spec: Spec, here: bool = True) -> None:
    """Raise UsageError for a sweep that could not be run; every kind of cell is looked at, seeds are alike.

    Its device may be one that only other machines have; so may its threads, unless it is to run `here`.
    """
    check_count(spec)
    names = [cell.name for cell in spec.cells()]
    if not names:
        raise UsageError("a sweep needs at least one game, one agent and one seed")
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise UsageError(f"the sweep has the cell {twice} twice")
    for env, variant in itertools.product(spec.envs, spec.variants):
        cell = Cell(variant, env, spec.seeds[0])
        try:
            config = replace(configuration(replace(spec, device="cpu"), cell), device=spec.device)
            check_run(config if here else replace(config, threads=min(config.threads, 1)))
            check_fit(config, environment_spec(env, config.environment))
        except UsageError as error:
            raise UsageError(f"{variant.name} on {env}: {error}") from error
