"""A search that was killed by SIGKILL goes on: nothing that was finished is lost, nothing at work is forgotten."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from killed_tuning import TRIALS
from small_tuning import MadeUp, begun, opened, searching, small_tuning

from sacbbf.run.stop import Stop

SCRIPT = Path(__file__).with_name("killed_tuning.py")
SOURCE = Path(__file__).parents[2] / "src"


def test_a_killed_search_goes_on_when_it_is_started_again(tmp_path):
    path = tmp_path / "tune"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    killed = subprocess.run([sys.executable, str(SCRIPT), str(path), "14"], env=environment, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    tuning = small_tuning()
    directory = begun(path, tuning)
    study = opened(directory, tuning)
    before = study.trials()
    assert [trial.state for trial in before] == ["finished", "finished", "at work", "at work"]
    executor = MadeUp(directory.search, places=2)
    search, listener, _ = searching(directory, tuning, study, executor, trials=TRIALS)
    search.run(Stop())
    after = study.trials()
    assert listener.begun == [2, 3, 4] and len(after) == TRIALS
    assert after[:2] == before[:2]
    assert [trial.settings for trial in after[2:4]] == [trial.settings for trial in before[2:]]
    assert "at work" not in {trial.state for trial in after}
    assert not {"default", "trial-001"} & {cell.variant.name for cell in executor.started}
