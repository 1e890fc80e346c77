"""A search over made-up runs that is killed by SIGKILL at a look: `python killed_tuning.py DIR LOOK`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from small_tuning import MadeUp, begun, opened, searching, small_tuning

from sacbbf.run.stop import Stop
from sacbbf.tune import search as searches

TRIALS = 5


def main(path: Path, look: int) -> None:
    """Search until the look comes."""
    searches.PAUSE = 0.0
    tuning = small_tuning()
    directory = begun(path, tuning)
    study = opened(directory, tuning)
    search, listener, _ = searching(directory, tuning, study, MadeUp(directory.search, places=2), trials=TRIALS)
    listener.on_tick = lambda number: os.kill(os.getpid(), signal.SIGKILL) if number == look else None
    search.run(Stop())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
