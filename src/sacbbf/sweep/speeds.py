"""Speeds of updates as they were measured on this machine, kept in the user's cache with their time and the load."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from sacbbf import __version__
from sacbbf.disk.files import write_atomically
from sacbbf.machine import processor
from sacbbf.run.settings import RunConfig
from sacbbf.sweep.spec import environment_spec


@dataclass(frozen=True)
class Speed:
    """What an update and a forward pass of one kind take, and what they move."""

    update: float  # seconds
    act: float  # seconds
    parameters: int
    row: int  # bytes of one step in the replay
    at: float  # seconds since 1970
    load: float  # processes that were running then, over a minute


def kind_of(config: RunConfig) -> str:
    """Return the name of all runs whose updates cost the same on this machine.

    Of settings, those of networks and losses decide what an update costs; the number of actions hardly matters.
    """
    spec, settings = environment_spec(config.env, config.environment), config.settings
    parts = (
        config.agent,
        asdict(settings.network),
        settings.loss.spr_weight > 0,
        settings.replay.batch_size,
        (spec.frame_shape, spec.frame_dtype.name, config.stack),
        (config.device, config.threads, processor.name(), os.cpu_count()),
        (__version__, metadata.version("torch")),
    )
    return f"{config.agent} {hashlib.sha256(repr(parts).encode()).hexdigest()[:24]}"


def load() -> float:
    """Return how many processes have been running or waiting, over the last minute."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:  # not told on this system
        return 0.0


def cache_file() -> Path:
    """Return where speeds are kept."""
    top = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(top) / "sacbbf" / "speeds.json"


class SpeedStore:
    """A file of speeds by kind; one that cannot be read holds none, and one that cannot be written keeps none."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_file()

    def read(self) -> dict[str, Speed]:
        """Return the speeds that are kept."""
        try:
            found = json.loads(self.path.read_bytes())
            return {kind: Speed(**values) for kind, values in found.items() if values["at"] <= time.time()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return {}

    def add(self, speeds: Mapping[str, Speed]) -> None:
        """Keep speeds beside those that are there."""
        kept = self.read() | dict(speeds)
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, json.dumps({kind: asdict(one) for kind, one in kept.items()}).encode())
