"""The trained policies that come with this package: `zoo:NAME` wherever a run is read."""

from __future__ import annotations

import difflib
from importlib import resources
from pathlib import Path

from sacbbf.errors import UsageError
from sacbbf.run.records import RunDirectory

PREFIX = "zoo:"
FOLDER = Path(str(resources.files("sacbbf"))) / "data" / "zoo"


def names() -> list[str]:
    """Return the names of the policies, without the prefix."""
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir()) if FOLDER.is_dir() else []


def find_run(path: Path) -> RunDirectory:
    """Return the run in a directory, or the policy that `zoo:NAME` names; UsageError where there is none."""
    name = zoo_name(path)
    if name is None:
        return RunDirectory(path).require()
    known = {one.casefold(): one for one in names()}
    if name.casefold() in known:
        return RunDirectory(FOLDER / known[name.casefold()]).require()
    near = difflib.get_close_matches(name.casefold(), known, n=1, cutoff=0.5)
    meant = f"did you mean {PREFIX}{known[near[0]]}?" if near else f"it holds {', '.join(known.values())}"
    raise UsageError(f"{path}: the zoo has no {name!r}; {meant}")


def zoo_name(path: Path) -> str | None:
    """Return NAME of `zoo:NAME`; None for a path."""
    return str(path).removeprefix(PREFIX) if str(path).startswith(PREFIX) else None
