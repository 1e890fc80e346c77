"""What happens in a run, to its records, to TensorBoard, and to other trackers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sacbbf.disk.lease import Lease
from sacbbf.run.records import RECORDS, JsonLines, Mark, RunDirectory, read_lines
from sacbbf.run.remote_trackers import Guarded
from sacbbf.run.trackers import begin_again


class Recorder:
    """Appends to a run's records behind the marks of a checkpoint, or from the start; what lies behind is dropped."""

    def __init__(
        self,
        lease: Lease,
        run: RunDirectory,
        game: str | None,
        marks: dict[str, Mark] | None,
        trackers: Sequence[Guarded] = (),
    ) -> None:
        marks = marks or {}
        self.trackers = trackers
        self.files = {name: JsonLines(lease, run.record(name), marks.get(name)) for name in RECORDS}
        steps = [line["step"] for line in read_lines(run.record("evaluations"))]
        self.last_evaluation: int | None = steps[-1] if steps else None
        self.board = begin_again(run, game)
        lease.check()  # what is open now was not a later owner's

    def add(self, kind: str, line: dict[str, Any]) -> None:
        """Append a line to a record."""
        self.files[kind].append(**line)
        self.board.add(kind, line)
        for tracker in self.trackers:
            tracker.add(kind, line)
        if kind == "evaluations":
            self.last_evaluation = line["step"]

    def sync(self) -> dict[str, Mark]:
        """Flush all records to disk and return how far each has come."""
        return {name: file.sync() for name, file in self.files.items()}

    def close(self) -> None:
        """Close every file."""
        for file in self.files.values():
            file.close()
        self.board.close()
        for tracker in self.trackers:
            tracker.close()
