"""Whole runs from Python: a run directory with checkpoints, records, score and policy, as `sacbbf train` writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from sacbbf.agents.presets import AgentName
from sacbbf.api.planning import configure_for
from sacbbf.envs.source import EnvLike
from sacbbf.errors import UsageError
from sacbbf.run.fitting import check_fit
from sacbbf.run.more_steps import like_its_start
from sacbbf.run.records import default_directory
from sacbbf.run.remote_trackers import TrackerName
from sacbbf.run.settings import Value, check_run, from_toml, lay_over
from sacbbf.run.train import train as carry_out
from sacbbf.run.zoo import find_run


def train(
    env: EnvLike,
    *,
    agent: AgentName | None = None,
    size: str | None = None,
    steps: int | None = None,
    seed: int = 0,
    device: str = "auto",
    settings: Mapping[str, Value] | None = None,
    out: str | Path | None = None,
    init: str | Path | None = None,
    max_hours: float | None = None,
    trackers: Sequence[TrackerName] = (),
    verbose: int = 1,
) -> dict[str, Any]:
    """Train an agent with a run directory, evaluate it, and return what the run's `result.json` holds.

    `env` is a name, a function that makes a gymnasium.Env, or an object that can be copied; `size` and `settings` are
    as for `Agent`, `steps` is the run's length, `agent` a name of one (sac-bbf), random or blind included. It goes into
    the directory `out`, by default runs/ENV-AGENT-SIZE-seedN; called again with the same words and `out`, a run
    that was stopped or killed goes on. It starts from the weights of the run or saved agent in `init`, whose networks
    and size it takes over, without resets unless the settings have them. It ends early after `max_hours`. `trackers`
    ("wandb", "mlflow") are told too. `verbose` is 0 for silence, 1 for progress.
    """
    if verbose not in (0, 1) or isinstance(verbose, bool):
        raise UsageError(f"verbose = {verbose!r}: must be 0 or 1")
    given = dict(settings or {})
    start = None if init is None else from_toml(find_run(Path(init)).config)
    words = {"size": size if size is not None or start is None else start.size, "steps": steps}
    given |= {name: value for name, value in words.items() if value is not None}
    chosen = agent or ("sac-bbf" if start is None else start.agent)
    config, source = configure_for(env, given, chosen, seed, device)
    if start is not None:
        config = lay_over(like_its_start(config, start), given)
        check_run(config)
        check_fit(config, source.spec)
    path = Path(out) if out is not None else default_directory(config.env, config.agent, config.size, config.seed)
    return carry_out(
        config,
        path,
        console=Console(quiet=not verbose, soft_wrap=True),
        max_hours=max_hours,
        trackers=trackers,
        init=None if init is None else Path(init),
        source=source,
    )
