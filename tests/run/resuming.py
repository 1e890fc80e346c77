"""Short runs that are stopped, killed or damaged and taken up again, and all that must come out the same."""

from __future__ import annotations

import importlib.util
import io
import os
import signal
import sys
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sacbbf.disk import faults
from sacbbf.disk.lease import state_folder
from sacbbf.errors import RunFailed
from sacbbf.run.checkpoint import Manifest, encode, load, manifest_name, read_manifest, read_manifests
from sacbbf.run.loop import Training
from sacbbf.run.records import RunDirectory, read_lines
from sacbbf.run.settings import CheckpointConfig, RunConfig
from sacbbf.run.train import train
from toys import toy_config

STEPS, WARMUP, CAPACITY = 100, 64, 64  # the ring wraps around
CHECKPOINTS = CheckpointConfig(every=28, keep=True)


class Killed(BaseException):
    """The end of a process, as far as it can be had within one."""


def short_config(toy="Identity", checkpoint=CHECKPOINTS, **fields) -> RunConfig:
    """A run with checkpoints at steps 28, 56 and 84, evaluations at 30, 60 and 90, resets at 33 and 66.

    Episodes have 10 steps, and so have the intervals between records.
    """
    changes = {
        "network": {"hidden_dim": 8, "num_atoms": 5},
        "loss": {"spr_steps": 2},
        "schedule": {"warmup": WARMUP, "n_start": 4, "reset_every": 33},
        "replay": {"batch_size": 4, "capacity": CAPACITY},
    }
    of_eval = {"every": 30, "every_episodes": 2, "episodes": 3, "parallel": 1}
    return toy_config(
        toy, STEPS, changes, **{"stack": 2, "log_every": 10, "checkpoint": checkpoint, **of_eval, **fields}
    )


def train_telling(config, out, max_hours=None):
    """Train; the result, and what was said on the way."""
    said = io.StringIO()
    return train(config, out, console=Console(file=said, soft_wrap=True), max_hours=max_hours), said.getvalue()


def fail_telling(config, out):
    """Train in vain; the reason, and what was said on the way."""
    said = io.StringIO()
    with pytest.raises(RunFailed) as caught:
        train(config, out, console=Console(file=said, soft_wrap=True))
    return str(caught.value), said.getvalue()


def signal_at(point, count, number=signal.SIGTERM):
    """Send a signal to this process when a crash point is reached."""
    faults.arm(point, count, lambda: os.kill(os.getpid(), number))


def kill_at(point, count=1):
    """Raise Killed when a crash point is reached."""

    def kill():
        raise Killed

    faults.arm(point, count, kill)


def stop_at(step, config, out):
    """Train until after a step of the run; returns as train_telling."""
    warming = step <= WARMUP
    signal_at("training: warm-up step" if warming else "training: step", step if warming else step - WARMUP)
    try:
        return train_telling(config, out)
    finally:
        faults.disarm()


def load_script(name) -> ModuleType:
    """A script of this project, as a module."""
    path = Path(__file__).parents[2] / "scripts" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


crash_test = load_script("crash_test")


def outcome(out) -> dict[str, object]:
    """All of a finished run that must not depend on stops: records, policy, scores, and what checkpoints hold."""
    found = {}
    for name, value in crash_test.contents(out).items():
        kind, _, step = name.rpartition(" ")
        overwritten = kind.startswith("replay ") and int(step) < STEPS - CAPACITY  # how many are left depends on stops
        if name != "config.toml" and not overwritten:
            found[name] = value
    found["speed"] = [line["step"] for line in read_lines(RunDirectory(out).record("speed"))]
    return found


def differing(found, expected) -> list[str]:
    """Names in which two outcomes differ."""
    return [name for name in found | expected if not crash_test._equal(found.get(name), expected.get(name))]


def manifests(out) -> list[Manifest]:
    """All readable manifests of a run, oldest first."""
    return list(read_manifests(state_folder(out)))


def newest(out) -> Manifest:
    """The manifest of the newest checkpoint."""
    return manifests(out)[-1]


def read_as_newest(out, manifest) -> None:
    """Put a manifest in place of the newest one and bring a training back from it, as a run that is taken up does."""
    path = state_folder(out) / manifest_name(newest(out).step)
    path.write_bytes(encode(manifest))
    load(path.parent, read_manifest(path), lambda: Training(short_config())).training.close()


def load_checkpoint(out, config) -> Training:
    """The training that the newest checkpoint holds."""
    return load(state_folder(out), newest(out), lambda: Training(config)).training


def snapshot(out) -> dict[str, tuple[int, bytes]]:
    """Every file and folder of a run: when it was written, and what it holds."""
    return {
        str(path.relative_to(out)): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in [out, *out.rglob("*")]
    }


def kept_files(out) -> dict[str, bytes]:
    """What a run holds, whoever holds the run."""
    found = {}
    for name, (_, content) in snapshot(out).items():
        folder, _, rest = name.partition("/")
        found[rest if folder.startswith("state.") else name] = content
    return {name: content for name, content in found.items() if content and name != "lease.json"}


def flip(path, position) -> None:
    """Change one bit of a byte."""
    content = bytearray(path.read_bytes())
    content[position] ^= 16
    path.write_bytes(content)


def read_events(folder) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard shows of a run."""
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
