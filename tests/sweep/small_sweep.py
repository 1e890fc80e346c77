"""Sweeps of cells that take a second, and what two of them must have in common."""

from __future__ import annotations

import json
import time
from dataclasses import replace

from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.spec import Spec, Variant

STEPS = 150
SETTINGS = {
    "network.hidden_dim": 8,
    "network.num_atoms": 5,
    "network.width_scale": 0.25,
    "loss.spr_steps": 2,
    "schedule.warmup": 64,
    "schedule.n_start": 4,
    "replay.batch_size": 4,
    "eval.episodes": 2,
    "eval.baselines": False,
    "checkpoint.every": 20,
    "log_every": 10,
}
COMPARED = ("config.toml", "policy.safetensors", "episodes.jsonl", "metrics.jsonl")
CARTPOLE = "CartPole-v1"


def small_spec(seeds=1, **fields) -> Spec:
    """Cells of CartPole with small networks and a checkpoint every 20 of 150 steps."""
    spec = Spec((CARTPOLE,), (Variant("sac-bbf"),), tuple(range(seeds)), "tiny", STEPS, SETTINGS, 1, "cpu")
    return replace(spec, **fields)


def words_of(spec) -> list[str]:
    """The flags that make a sweep."""
    settings = [word for name, value in spec.settings.items() for word in ("--set", f"{name}={str(value).lower()}")]
    seeds = ",".join([*map(str, spec.seeds), str(spec.seeds[-1])])
    plain = ["--size", spec.size, "--steps", str(spec.steps), "--threads", str(spec.threads), "--device", spec.device]
    return ["--games", ",".join(spec.envs), "--seeds", seeds, *plain, *settings]


def begun(path, spec) -> SweepDirectory:
    """A sweep that was stored and not run."""
    directory = SweepDirectory(path.absolute())
    directory.begin(spec)
    return directory


def outcome(directory, cell) -> dict[str, object]:
    """All of a finished cell that must not depend on stops, or on who ran it."""
    run = directory.run(cell)
    found: dict[str, object] = {name: (run.path / name).read_bytes() for name in COMPARED}
    result = json.loads(run.result.read_bytes())
    assert result["finished"]
    return found | {name: result[name] for name in ("score", "returns", "steps", "updates")}


def assert_alike(directory, undisturbed, cells) -> None:
    """All cells came out as those of the sweep that nothing disturbed."""
    for cell in cells:
        assert outcome(directory, cell) == outcome(undisturbed, cell), cell.name


def put_result(directory, cell, **values) -> None:
    """Store a result, as if the cell had run."""
    run = directory.run(cell)
    run.path.mkdir(parents=True, exist_ok=True)
    run.result.write_text(json.dumps({"finished": True, "steps": STEPS, "score": 1.5, **values}))


def wait_for(condition, seconds=120.0):
    """Wait until something is so; returns it."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it has not come to pass"
        time.sleep(0.02)
    return found


def snapshot(path) -> dict[str, tuple[int, bytes]]:
    """Every file and folder below a path: when it was written, and what it holds."""
    return {
        str(found.relative_to(path)): (found.stat().st_mtime_ns, found.read_bytes() if found.is_file() else b"")
        for found in [path, *path.rglob("*")]
    }
