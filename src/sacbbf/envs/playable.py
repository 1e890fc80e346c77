"""Which environments can be played on this machine, found out by making each."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field

from sacbbf.envs.base import EnvError, MissingExtra
from sacbbf.envs.make import known_environments, make_env


@dataclass(frozen=True)
class Playable:
    """Names of environments by group, and those that lack a package by what must be installed for them."""

    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    lacking: dict[str, tuple[str, ...]] = field(default_factory=dict)


def playable() -> Playable:
    """Return the environments that can be played here; others, as those with continuous actions, are left out.

    Gymnasium's are made one by one. Games of Atari come with ale-py; of MinAtar's, one stands for all.
    """
    names: dict[str, tuple[str, ...]] = {}
    lacking: dict[str, tuple[str, ...]] = {}
    for group, known in known_environments().items():
        if group.startswith("Atari"):
            names[group] = known
            continue
        needs = {name: _needs(name) for name in (known[:1] if group == "MinAtar" else known)}
        if group == "MinAtar":
            needs = dict.fromkeys(known, needs[known[0]])
        names[group] = tuple(name for name, need in needs.items() if need == "")
        for name, need in needs.items():
            if need:
                lacking[need] = (*lacking.get(need, ()), name)
    return Playable(names, lacking)


def _needs(name: str) -> str | None:
    """What an environment needs to be played here: empty for nothing more, None if nothing would help."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of versions that are out of date
            make_env(name).close()
    except MissingExtra as error:
        text = str(error)
        found = re.search(r"([\w-]+\[[\w-]+\])|No module named .([\w.-]+[\w]).", text)
        return next(filter(None, found.groups())) if found else None
    except EnvError:
        return None
    except Exception:  # whatever an environment does when it is made without its arguments
        return None
    return ""
