"""TensorBoard events, derived from a run's records: they can be deleted and made again at any time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sacbbf import games
from sacbbf.run.records import RunDirectory, read_lines


def scalars(kind: str, line: dict[str, Any], game: str | None) -> dict[str, float]:
    """Return TensorBoard's names and values for one line of a record."""
    values = {name: value for name, value in line.items() if name != "step" and isinstance(value, int | float)}
    if kind == "metrics":
        return values
    if kind == "speed":
        return {f"speed/{name}": value for name, value in values.items()}
    group = "train" if kind == "episodes" else "evaluation"
    kept = {f"{group}/{name}": values[name] for name in ("score", "length", "mean") if name in values}
    score = values.get("score", values.get("mean"))
    if game in games.GAMES and score is not None:
        kept[f"{group}/human_normalised"] = games.human_normalised(game, score)
    return kept


class TensorBoard:
    """Writes the lines of a run's records as TensorBoard scalars."""

    def __init__(self, folder: Path, game: str | None) -> None:
        from torch.utils.tensorboard import SummaryWriter  # slow to import, so only where it is used

        self._writer = SummaryWriter(str(folder))
        self._game = game

    def add(self, kind: str, line: dict[str, Any]) -> None:
        """Write one line of a record."""
        for name, value in scalars(kind, line, self._game).items():
            self._writer.add_scalar(name, value, line["step"])

    def close(self) -> None:
        """Flush and close the event file."""
        self._writer.close()


def rebuild_tensorboard(run: RunDirectory, game: str | None) -> None:
    """Make the event files of a run again from its records."""
    for old in run.tensorboard.glob("events.out.tfevents.*"):
        old.unlink()
    board = TensorBoard(run.tensorboard, game)
    for kind in ("metrics", "episodes", "evaluations", "speed"):
        for line in read_lines(run.record(kind)):
            board.add(kind, line)
    board.close()
