"""A tuning's folder: how it is made, the commands that read it, and what is done to each of its files."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from attacks.changes import Change, in_json
from attacks.contents import KINDS, short
from attacks.damage import DAMAGES, at, flipped, newest

if TYPE_CHECKING:
    from sacbbf.sweep.directory import SweepDirectory
    from sacbbf.sweep.outcome import Outcome
    from sacbbf.sweep.spec import Cell

TUNE = (
    "tune", "CartPole-v1", "--trials", "2", "--seeds", "1", "--fresh-seeds", "2", "--size", "tiny", "--steps", "150",
    "--workers", "1", "--device", "cpu", "--retries", "0", "--only", "--space", "schedule.n_end=1,3",
    "--space", "optimiser.learning_rate=1e-4:1e-2:log",
    "--set", "network.hidden_dim=8", "--set", "network.num_atoms=5", "--set", "loss.spr_steps=2",
    "--set", "schedule.warmup=64", "--set", "schedule.n_start=4", "--set", "replay.batch_size=4",
    "--set", "eval.episodes=2", "--set", "environment.max_steps=30", "--quiet", "--out", "tune",
)  # fmt: skip
TUNE_READERS: dict[str, tuple[str, ...]] = {
    "tuned": TUNE,
    "tuning": (*TUNE, "--hours", "9"),  # goes on: everything is read, and nothing is left to train
    "trials": ("sweep", "tune/search", "--status"),
    "tried": ("report", "tune", "--csv", "out.csv"),
    "looked at": ("watch", "tune"),
    "best": ("train", "--config", "tune/best.toml", "--steps", "20", "--schedule.warmup", "9", "--eval.episodes", "1",
             "--out", "new"),
}  # fmt: skip
TRIED, COMPARED = "search/runs/default/CartPole-v1/seed100", "comparison/runs/trial-001/CartPole-v1/seed200"
TUNE_FILES: dict[str, tuple[str, ...]] = {
    "tuning.json": ("tuned", "tuning"),
    "summary.json": ("tuned", "tuning"),
    "best.toml": ("tuned", "tuning", "best"),
    "tuning.html": ("tuning",),
    "study.db": ("tuning",),
    "study.db-journal": ("tuning",),  # SQLite's, beside the file
    "study.db-wal": ("tuning",),
    "study.db-shm": ("tuning",),
    "clock.json": ("tuning",),
    "state.*/lease.json": ("tuning",),
    "search/sweep.json": ("tuning", "trials", "looked at"),
    "comparison/sweep.json": ("tuning", "looked at"),
    **dict.fromkeys((f"{TRIED}/config.toml", f"{TRIED}/result.json"), ("tuning", "trials", "tried", "looked at")),
    **dict.fromkeys((f"{TRIED}/speed.jsonl", f"{TRIED}/evaluations.jsonl"), ("tuning", "trials", "tried", "looked at")),
    **dict.fromkeys((f"{COMPARED}/config.toml", f"{COMPARED}/result.json"), ("tuning", "tried")),
}
LOWEST = -1.0  # below every score of CartPole


class Here:
    """Works on cells in the process that asks: one of their own would have to import everything anew.

    The default's score among the trials is the lowest, so that there is always a best trial to compare it with.
    """

    queues = False

    def __init__(self, directory: SweepDirectory, *_: object) -> None:
        self.directory = directory
        self._ended: list[tuple[Cell, Outcome]] = []

    def free(self) -> bool:
        return not self._ended

    def start(self, cell: Cell) -> None:
        from sacbbf.errors import UsageError
        from sacbbf.sweep.outcome import Outcome
        from sacbbf.sweep.work import work_on

        try:
            outcome = work_on(self.directory.path, cell.name)
        except (UsageError, OSError) as error:
            outcome = Outcome("failed", str(error))
        if outcome.kind == "finished" and self.directory.path.name == "search" and cell.variant.name == "default":
            in_json("result.json", ("score",), LOWEST)(self.directory.run(cell).path)
        self._ended.append((cell, outcome))

    def ended(self) -> list[tuple[Cell, Outcome]]:
        over, self._ended = self._ended, []
        return over

    def stop(self, cell: Cell | None = None) -> None:
        """Nothing is ever at work when this is called."""

    def close(self) -> None:
        """Nothing is left."""


def work_here() -> None:
    """Let tunings of this process, and of those that are forked from it, work without processes and pauses."""
    from sacbbf.sweep import drive
    from sacbbf.tune import carry_out, search

    carry_out.make_executor = Here  # type: ignore[assignment]
    drive.PAUSE = search.PAUSE = 0.0


def leave_a_lease(path: Path) -> None:
    """Leave what a tuning holds that was interrupted."""
    from sacbbf.disk.lease import Lease

    with Lease.acquire(path):
        pass


def tune_answer(reader: str, words: str, folder: Path) -> set[str]:
    """Return the parts of what a command found that no damage may change."""
    if reader == "tuned":
        return {line for line in words.splitlines() if line.startswith(("  default: ", "  trial ", "  difference: "))}
    if reader == "tuning":
        summary = json.loads((folder / "tune/summary.json").read_text())
        parts = [(one["number"], one["settings"], one["score"]) for one in summary["trials"]]
        return {str(part) for part in (*parts, summary["comparison"], summary["verdict"])}
    if reader == "tried" and "left out" not in words:
        return set((folder / "out.csv").read_text().splitlines())
    return set()


def tunings() -> Iterator[tuple[str, str, tuple[str, ...], Change]]:
    """Each file of a tuning in each way for each command that reads it: name, reader, command, change."""
    for pattern, readers in TUNE_FILES.items():
        for how, damage in DAMAGES.items():
            for reader in readers:
                change = at(lambda made, pattern=pattern: newest(made / "tune", pattern), damage)  # type: ignore[misc]
                yield f"tune/{pattern} {how}", reader, TUNE_READERS[reader], change
    # What is well-formed is believed: only the way in which these end counts.
    for part in range(1, 40):
        flip = at(lambda made: made / "tune/study.db", flipped(part / 40))
        yield f"tune/study.db flipped at {part / 40:.0%}", "", TUNE_READERS["tuning"], flip
    for words in STATEMENTS:
        yield f"study.db after {words}", "", TUNE_READERS["tuning"], _sql(words)
    for name, place, reader in _places():
        for value in KINDS:
            change = in_json(f"tune/{name}", place, value)
            yield f"{name} {place} = {short(value)}", "", TUNE_READERS[reader], change


def _places() -> Iterator[tuple[str, tuple[str | int, ...], str]]:
    """What stands in a file: its name, where in it, and who reads it."""
    for name in ("env", "agent", "size", "steps", "space", "seeds", "fresh_seeds", "settings", "device"):
        yield "tuning.json", ("tuning", name), "tuning"
    for axis in (0, 1):
        for entry in ("name", "values", "low"):
            yield "tuning.json", ("tuning", "space", axis, entry), "tuning"
    for place in (("budget",), ("budget", "trials")):
        yield "summary.json", place, "tuned"
    yield "clock.json", ("seconds",), "tuning"
    for part in ("search", "comparison"):
        yield f"{part}/sweep.json", ("spec", "variants", 0, "settings"), "tuning"
        yield f"{part}/sweep.json", ("spec", "variants", 1, "label"), "tuning"
    for name in ("score", "steps", "wall_seconds", "updates", "finished"):
        yield f"{TRIED}/result.json", (name,), "tuning"
    yield f"{COMPARED}/result.json", ("score",), "tuning"


TABLES = ("alembic_version", "studies", "study_directions", "trials", "trial_params", "trial_values",
          "trial_intermediate_values", "trial_user_attributes", "version_info")  # fmt: skip
OTHER = '{"name": "CategoricalDistribution", "attributes": {"choices": ["evil:X"]}}'
COLUMNS = ("trials SET number", "trials SET state", "trials SET datetime_start", "trial_values SET value",
           "trial_values SET value_type", "trial_params SET param_name", "trial_params SET param_value",
           "trial_params SET distribution_json", "trial_intermediate_values SET step",
           "trial_intermediate_values SET intermediate_value", "study_directions SET direction",
           "studies SET study_name", "version_info SET schema_version",
           "alembic_version SET version_num")  # fmt: skip
ENTRIES = ("NULL", "-1", "99", "1e999", "'x'", "'FAIL'", "'RUNNING'", "x'00ff'", "'[]'", "''")
STATEMENTS = (
    *(f"DROP TABLE {table}" for table in TABLES),
    *(f"DELETE FROM {table}" for table in TABLES),
    *(f"UPDATE {column} = {entry}" for column in COLUMNS for entry in ENTRIES),
    f"UPDATE trial_params SET param_name = 'environment.wrappers', param_value = 0, distribution_json = '{OTHER}'",
    f"UPDATE trial_params SET param_value = 0, distribution_json = '{OTHER}'",
    "INSERT INTO trial_user_attributes (trial_id, key, value_json) VALUES (2, 'why', '{')",
)


def _sql(words: str) -> Change:
    def change(made: Path) -> None:
        connection = sqlite3.connect(made / "tune/study.db")
        with contextlib.closing(connection), contextlib.suppress(sqlite3.IntegrityError):  # then it stays as it was
            connection.executescript(f"PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; {words};")

    return change
