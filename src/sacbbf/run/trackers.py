"""TensorBoard events, derived from a run's records: they can be deleted and made again at any time."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping
from io import BytesIO, FileIO
from pathlib import Path
from typing import Any

from sacbbf.agents.config import flatten
from sacbbf.envs import games
from sacbbf.run.records import RECORDS, RunDirectory, read_lines
from sacbbf.run.settings import RunConfig, from_toml

SILENT = ("checkpoint.", "device", "diagnose_every", "eval.parallel", "horizon.", "log_every", "threads")  # no score's


def scalars(kind: str, line: dict[str, Any], game: str | None) -> dict[str, float]:
    """Return TensorBoard's names and values for one line of a record."""
    values = {name: value for name, value in line.items() if name != "step" and isinstance(value, int | float)}
    if kind == "metrics":
        return values
    if kind in ("speed", "diagnostics"):
        return {f"{kind}/{name}": value for name, value in values.items()}
    group = "train" if kind == "episodes" else "evaluation"
    kept = {f"{group}/{name}": values[name] for name in ("score", "length", "mean") if name in values}
    score = values.get("score", values.get("mean"))
    if game in games.GAMES and score is not None:
        kept[f"{group}/human_normalised"] = games.human_normalised(game, score)
    return kept


def deciding(config: RunConfig) -> dict[str, bool | int | float | str]:
    """Return the settings that scores depend on, by the names that flags have."""
    kept = {name: value for name, value in flatten(config).items() if not name.startswith(SILENT)}
    return {
        name.removeprefix("settings."): value if isinstance(value, bool | int | float | str) else str(value)
        for name, value in kept.items()
    }


def final_scalars(result: Mapping[str, Any]) -> dict[str, float]:
    """Return TensorBoard's names and values for a run's result; nothing where it has no score."""
    values = {name: result.get(name) for name in ("score", "human_normalised")}
    values |= {name: played["score"] for name, played in result.get("baselines", {}).items()}
    return {f"final/{name}": float(value) for name, value in values.items() if value is not None}


class TensorBoard:
    """Writes the lines of a run's records as TensorBoard scalars, into a file that it holds open.

    PyTorch's own writer opens its file by name for every event, in a thread: a process that has lost the run would
    bring a deleted file back, and a full disk would end in that thread's traceback.
    """

    def __init__(self, folder: Path, game: str | None) -> None:
        folder.mkdir(exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns():020d}.{socket.gethostname()}.{os.getpid()}"
        self._file: FileIO | None = (folder / name).open("xb", buffering=0)
        self._game = game
        self._put(file_version="brain.Event:2")

    def add(self, kind: str, line: dict[str, Any]) -> None:
        """Write one line of a record."""
        from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-untyped]

        found = scalars(kind, line, self._game).items()
        values = [Summary.Value(tag=name, simple_value=value) for name, value in found]
        self._put(step=line["step"], summary=Summary(value=values))

    def add_result(self, config: RunConfig, result: Mapping[str, Any]) -> None:
        """Write the final score, and every setting beside it, as the page HParams shows them."""
        from tensorboard.compat.proto.summary_pb2 import Summary
        from torch.utils.tensorboard.summary import hparams

        settings, found = deciding(config), final_scalars(result)
        step = int(result["steps"])
        for summary in hparams(settings, found):  # type: ignore[no-untyped-call]
            self._put(step=step, summary=summary)
        values = [Summary.Value(tag=name, simple_value=value) for name, value in found.items()]
        self._put(step=step, summary=Summary(value=values))

    def close(self) -> None:
        """Close the event file."""
        if self._file is not None:
            self._file.close()

    def _put(self, **fields: Any) -> None:
        """Write an event. A full disk ends the events, not the run: they can be made again."""
        # Slow to import, so only where it is used.
        from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[import-untyped]
        from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

        if self._file is None:
            return
        record = BytesIO()
        RecordWriter(record).write(Event(wall_time=time.time(), **fields).SerializeToString())
        with contextlib.suppress(OSError):
            if self._file.write(record.getvalue()) == record.tell():
                return
        self._file.close()
        self._file = None


def begin_again(run: RunDirectory, game: str | None) -> TensorBoard:
    """Return a new event file in the place of a run's old ones, with all that its records and its result hold."""
    if run.tensorboard.is_symlink():
        run.tensorboard.unlink()  # what it leads to is not the run's own
    for old in run.tensorboard.glob("events.out.tfevents.*"):
        old.unlink()
    board = TensorBoard(run.tensorboard, game)
    for kind in RECORDS:
        for line in read_lines(run.record(kind)):
            board.add(kind, line)
    result = run.read_result()
    if result is not None and result.get("finished"):
        board.add_result(from_toml(run.config), result)
    return board
