"""Weights & Biases and MLflow beside TensorBoard: what is recorded goes there too, online or off.

They are observers. A run does not depend on them: one that fails is given up with a warning, and training goes on.
"""

from __future__ import annotations

import hashlib
import importlib
import netrc
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from sacbbf.agents.config import flatten
from sacbbf.errors import UsageError
from sacbbf.run.records import RunDirectory
from sacbbf.run.settings import RunConfig
from sacbbf.run.trackers import scalars

TrackerName = Literal["wandb", "mlflow"]
PROJECT = "sacbbf"


class Tracker(Protocol):
    """Is told of every line of a run's records."""

    @property
    def where(self) -> str:
        """Where it writes what it is told, in words."""
        ...

    def add(self, kind: str, line: dict[str, Any]) -> None:
        """Take one line of a record."""
        ...

    def close(self) -> None:
        """Send what is left."""
        ...


def run_id(run: RunDirectory) -> str:
    """Return a name that belongs to a run directory: whoever takes the run up goes on under it."""
    return hashlib.sha256(str(run.path.resolve()).encode()).hexdigest()[:16]


class WandB:
    """Weights & Biases; without a login, or with WANDB_MODE=offline, into RUN/wandb for `wandb sync`."""

    def __init__(self, run: RunDirectory, config: RunConfig, game: str | None) -> None:
        import wandb

        self._game, self._folder = game, run.path / "wandb"
        self._mode = os.environ.get("WANDB_MODE") or ("online" if _has_login() else "offline")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=run.path.name,
            id=run_id(run),
            resume="allow",
            dir=str(run.path),
            config={name: value for name, value in flatten(config).items() if value is not None},
            mode=cast(Any, self._mode),  # wandb says which there are
            settings=wandb.Settings(silent=True),
        )

    @property
    def where(self) -> str:
        """The run's page, or the folder that waits to be sent."""
        if self._mode == "disabled":
            return "nowhere, as WANDB_MODE is disabled"
        if self._mode == "online":
            return str(self._run.url)
        return f"{self._folder}, offline; `wandb sync` sends it"

    def add(self, kind: str, line: dict[str, Any]) -> None:
        """Log the scalars of a line, with their own step: records of different kinds come interleaved."""
        self._run.log({**scalars(kind, line, self._game), "step": line["step"]})

    def close(self) -> None:
        """End the run there."""
        self._run.finish()


def _has_login() -> bool:
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return "api.wandb.ai" in netrc.netrc().hosts
    except (OSError, netrc.NetrcParseError):
        return False


class MLflow:
    """MLflow; without MLFLOW_TRACKING_URI into ./mlruns."""

    def __init__(self, run: RunDirectory, config: RunConfig, game: str | None) -> None:
        import mlflow

        address = os.environ.get("MLFLOW_TRACKING_URI")
        if not address:
            address = Path("mlruns").resolve().as_uri()
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow 3 wants to be asked
        self._game, self._mlflow, self.where = game, mlflow, address
        self._client = mlflow.MlflowClient(address)
        found = self._client.get_experiment_by_name(PROJECT)
        experiment = found.experiment_id if found is not None else self._client.create_experiment(PROJECT)
        mark = run_id(run)
        old = self._client.search_runs([experiment], filter_string=f"tags.sacbbf_run = '{mark}'")
        if old:
            self._id = old[0].info.run_id
            self._client.set_terminated(self._id, "RUNNING")
        else:
            made = self._client.create_run(experiment, tags={"sacbbf_run": mark}, run_name=run.path.name)
            self._id = made.info.run_id
            for name, value in flatten(config).items():
                self._client.log_param(self._id, name, value)

    def add(self, kind: str, line: dict[str, Any]) -> None:
        """Log the scalars of a line."""
        now = int(1000 * time.time())
        entity = self._mlflow.entities.Metric
        metrics = [entity(name, value, now, line["step"]) for name, value in scalars(kind, line, self._game).items()]
        self._client.log_batch(self._id, metrics)

    def close(self) -> None:
        """End the run there."""
        self._client.set_terminated(self._id)


class Guarded:
    """A tracker that may fail: the first error ends it, not the run."""

    def __init__(self, name: str, make: Callable[[], Tracker], warn: Callable[[str], object]) -> None:
        self.name, self.warn = name, warn
        self.tracker: Tracker | None = None
        self._try(lambda: setattr(self, "tracker", make()))

    def announce(self, say: Callable[[str], object]) -> None:
        """Say where it writes."""
        tracker = self.tracker
        if tracker is not None:
            self._try(lambda: say(f"{self.name} writes to {tracker.where}"))

    def add(self, kind: str, line: dict[str, Any]) -> None:
        """Take one line of a record."""
        tracker = self.tracker
        if tracker is not None:
            self._try(lambda: tracker.add(kind, line))

    def close(self) -> None:
        """Send what is left."""
        tracker = self.tracker
        if tracker is not None:
            self._try(tracker.close)

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as error:
            self.tracker = None
            self.warn(f"warning: {self.name} is not told any further: {type(error).__name__}: {error}")


KINDS: dict[TrackerName, Callable[[RunDirectory, RunConfig, str | None], Tracker]] = {"wandb": WandB, "mlflow": MLflow}


def check_trackers(names: Sequence[TrackerName]) -> None:
    """Raise UsageError if a tracker is not installed."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise UsageError(f"tracker = {name!r}: is not installed: pip install 'sacbbf[{name}]'") from error


def make_trackers(
    names: Sequence[TrackerName],
    run: RunDirectory,
    config: RunConfig,
    game: str | None,
    warn: Callable[[str], object],
) -> list[Guarded]:
    """Return the trackers of these names, each once; one that cannot start warns and stays silent."""
    return [Guarded(name, lambda name=name: KINDS[name](run, config, game), warn) for name in dict.fromkeys(names)]  # type: ignore[misc]
