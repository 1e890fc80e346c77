"""The outcome of a run as one JSON file: score, per-episode returns, versions, machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from sacbbf import __version__
from sacbbf.envs import games
from sacbbf.machine import processor
from sacbbf.machine.source import commit_of
from sacbbf.run.evaluate import summarise
from sacbbf.types import EpisodeRecord

PACKAGES = ("torch", "numpy", "gymnasium", "ale-py", "opencv-python-headless", "MinAtar")


def versions() -> dict[str, str]:
    """Return the versions that decide what a run computes."""
    found = {"sacbbf": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    commit = commit_of(Path(__file__).resolve())
    return found | ({"commit": commit} if commit else {})


def machine(device: str) -> dict[str, Any]:
    """Return what the run was computed on."""
    facts = {
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": processor.name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": device,
    }
    if device.startswith("cuda"):
        facts["gpu"] = torch.cuda.get_device_name(device)
    return facts


def score_fields(records: Sequence[EpisodeRecord], game: str | None) -> dict[str, Any]:
    """Return the score of an evaluation in the words of `result.json`."""
    scores = [record.score for record in records]
    summary = summarise(scores)
    low, high = summary.interval
    normalised = games.human_normalised(game, summary.mean) if game in games.GAMES else None
    return {
        "score": summary.mean,
        "standard_error": summary.standard_error,
        "interval_95": [low, high],
        "median": summary.median,
        "human_normalised": normalised,
        "episodes": summary.episodes,
        "returns": scores,
        "lengths": [record.length for record in records],
    }


def episode_line(record: EpisodeRecord, step: int) -> dict[str, Any]:
    """Return an episode as a line of `episodes.jsonl`; `step` is the environment step it ended with."""
    return {"step": step, **asdict(record)}
