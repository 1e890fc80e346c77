"""What an agent tells of its learning: lines on the terminal, and TensorBoard's event files."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from statistics import fmean
from types import TracebackType
from typing import Any, Self

from sacbbf.errors import UsageError
from sacbbf.run.trackers import TensorBoard


class Log:
    """Writes and prints what happens while an agent learns; open from `begin` to the end of a `with`.

    `verbose` is 0 for nothing, 1 for evaluations and a line every so many steps, 2 for every episode too.
    """

    def __init__(self, verbose: int, folder: str | Path | None, game: str | None = None) -> None:
        if verbose not in (0, 1, 2) or isinstance(verbose, bool):
            raise UsageError(f"verbose = {verbose!r}: must be 0, 1 or 2")
        self.verbose = verbose
        self.folder = None if folder is None else Path(folder)
        self.path: Path | None = None  # where TensorBoard's files of this agent lie
        self.game = game
        self._board: TensorBoard | None = None
        self._name = ""
        self._scores: deque[float] = deque(maxlen=20)

    def check(self, name: str | None) -> None:
        """Refuse a name for TensorBoard's files where none are written."""
        if name is not None and self.folder is None:
            raise UsageError(f"tb_log_name = {name!r}: goes with tensorboard_log, which the agent was not given")

    def begin(self, default: str, name: str | None, anew: bool) -> None:
        """Open event files in FOLDER/NAME_N: a new one if `anew` or under another name, else the last one."""
        if self.folder is None:
            return
        if self.path is None or anew or name not in (None, self._name):
            self._name = name or default
            numbers = range(1, 1_000_000)
            self.path = next(path for n in numbers if not (path := self.folder / f"{self._name}_{n}").exists())
            self.path.mkdir(parents=True)
        self._board = TensorBoard(self.path, self.game)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._board is not None:
            self._board.close()
        self._board = None

    def add(self, kind: str, line: dict[str, Any]) -> None:
        """Take note of a line, as the records of a run have it: of episodes, metrics or evaluations."""
        if self._board is not None:
            self._board.add(kind, line)
        if kind == "episodes":
            self._scores.append(line["score"])
            if self.verbose == 2:
                print(f"step {line['step']:,}: episode {line['number']} scored {line['score']:g}")
        if kind == "evaluations" and self.verbose:
            print(f"step {line['step']:,}: evaluation {line['mean']:.2f} ({line['episodes']} episodes)")

    def progress(self, step: int, total: int, metrics: dict[str, float]) -> None:
        """Print how far learning has come."""
        if not self.verbose:
            return
        words = [f"step {step:,} of {total:,}"]
        words += [f"score {fmean(self._scores):.2f} (last {len(self._scores)} episodes)"] if self._scores else []
        words += [f"loss {metrics['loss/total']:.3g}"] if "loss/total" in metrics else []
        print(", ".join(words))
