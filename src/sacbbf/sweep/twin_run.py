"""The run of a cell whose twin is trained: a copy of the twin's, with an evaluation of its own."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from sacbbf.run.curve import draw_curve
from sacbbf.run.display import Display
from sacbbf.run.evaluate import plan_of
from sacbbf.run.evaluate_run import evaluate_run
from sacbbf.run.records import RunDirectory, write_json
from sacbbf.run.result import score_fields
from sacbbf.run.settings import RunConfig, to_toml
from sacbbf.run.trackers import begin_again
from sacbbf.sweep.copy import copied_run
from sacbbf.sweep.spec import LEVELS


def evaluate_twin(twin: RunDirectory, config: RunConfig, path: Path, console: Console) -> None:
    """Make the run of a configuration from a finished twin's: its records and policy, with an evaluation of its own.

    The scores are those that the run would have had if it had been trained itself. The folder `path` appears when all
    of it is there.
    """
    with copied_run(twin.path, path) as copy:
        run = RunDirectory(copy)
        with Display(console, None) as display:
            plan = plan_of(config, config.eval.episodes)
            records, game = evaluate_run(run, config, plan, config.device, display)
        trained_by = "/".join(twin.path.parts[-LEVELS:])
        result = {**(run.read_result() or {}), **score_fields(records, game), "trained_by": trained_by}
        run.config.write_text(to_toml(config))
        title = f"{config.env}: {config.agent}, {config.size}, seed {config.seed}"
        run.curve.write_bytes(draw_curve(run, title, game, result))
        write_json(run.result, result)
        begin_again(run, game).close()
