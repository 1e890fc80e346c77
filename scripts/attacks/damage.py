"""Ways to damage a file, and each file with each way for each command that reads it."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from attacks.changes import Change
from attacks.readers import READERS

READ_BY = {
    "run": ("evaluate", "play", "export", "report", "page", "diff", "watch", "init", "finished"),
    "stopped": ("resume",),
    "hub": ("shared",),
    "sweep": ("status", "swept", "seen"),
}
RUN_FILES = ("config.toml", "result.json", "policy.safetensors", "episodes.jsonl", "metrics.jsonl",
             "evaluations.jsonl", "speed.jsonl", "diagnostics.jsonl", "curve.png", "video.mp4")  # fmt: skip
CELL = "runs/random/MinAtar-Breakout-v1/seed0"


def rewritten(change: Callable[[bytes], bytes]) -> Change:
    """Return a damage that changes a file's content."""
    return lambda path: path.write_bytes(change(path.read_bytes() if path.is_file() else b"x" * 100)) and None


def replaced(make: Callable[[Path], object]) -> Change:
    """Return a damage that puts something else in a file's place."""

    def change(path: Path) -> None:
        path.unlink(missing_ok=True)
        make(path)

    return change


def sparse(size: int) -> Change:
    """Return a damage that lets a file claim a size."""

    def change(path: Path) -> None:
        with path.open("ab") as file:
            file.truncate(size)

    return change


def bind(path: Path) -> None:
    """Put a socket in a file's place."""
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(path.parent)  # names of sockets must be short
        server.bind(path.name)
        os.chdir(here)


def link_out(path: Path) -> None:
    """Put a link to another folder's file in a file's place: what it leads to is whole."""
    outside = path.parent.parent / f"outside-{path.name}"
    outside.write_bytes(path.read_bytes() if path.is_file() else b"")
    path.unlink(missing_ok=True)
    path.symlink_to(outside)


DAMAGES: dict[str, Change] = {
    "deleted": lambda path: path.unlink(missing_ok=True),
    "emptied": rewritten(lambda content: b""),
    "halved": rewritten(lambda content: content[: len(content) // 2]),
    "cut at its end": rewritten(lambda content: content[:-3]),
    "of other bytes": rewritten(lambda content: random.Random(1).randbytes(len(content))),
    "of zeros": rewritten(lambda content: bytes(len(content))),
    "nested": rewritten(lambda content: b"[" * 200_000),
    "a list": rewritten(lambda content: b"[1, 2]\n"),
    "longer by zeros": sparse(200 << 20),
    "huge": sparse(1 << 40),
    "a pipe": replaced(os.mkfifo),
    "a folder": replaced(Path.mkdir),
    "a device": replaced(lambda path: path.symlink_to("/dev/zero")),
    "a link out": link_out,
    "a link to itself": replaced(lambda path: path.symlink_to(path.name)),
    "a socket": replaced(bind),
}


def flipped(share: float) -> Change:
    """Return a damage that flips a bit at a share of a file's length."""

    def flip(content: bytes) -> bytes:
        place = int(share * (len(content) - 1))
        return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :] if content else content

    return rewritten(flip)


# Noticed wherever there is a checksum.
FLIPS = {f"flipped at {share:.0%}": flipped(share) for share in (0.1, 0.5, 0.95)}


def damaged() -> Iterator[tuple[str, str, tuple[str, ...], Change]]:
    """Each file in each way for each command that reads it: name, reader, command, change."""
    for place, readers in READ_BY.items():
        for label, pick in _files(place):
            ways = DAMAGES | FLIPS if place == "stopped" else DAMAGES
            for how, damage in ways.items():
                for reader in readers:
                    yield f"{place}/{label} {how}", reader, READERS[reader], at(pick, damage)
    for how, damage in DAMAGES.items():
        yield f"scores.csv {how}", "scores", READERS["scores"], at(lambda made: made / "scores.csv", damage)
    for how in ("a pipe", "huge", "nested", "a list", "a folder"):
        change = at(lambda made: made / "sweep/sweep.json", DAMAGES[how])
        yield f"sweep/sweep.json {how}", "sweep", READERS["sweep"], change


def at(pick: Callable[[Path], Path], damage: Change) -> Change:
    """Return a damage of the file that `pick` finds, as a change to all that was made."""
    return lambda made: damage(pick(made))


def _files(place: str) -> Iterator[tuple[str, Callable[[Path], Path]]]:
    """Names of files in a place, each with what finds it."""
    if place == "stopped":
        patterns = ("config.toml", "episodes.jsonl", "metrics.jsonl", "speed.jsonl", "state.*/lease.json",
                    "state.*/step-*.json", "state.*/*-learner-*", "state.*/*-progress-*", "state.*/*.zz")  # fmt: skip
    elif place == "hub":
        patterns = ("config.toml", "policy.safetensors", "result.json")
    elif place == "sweep":
        patterns = ("sweep.json", *(f"{CELL}/{name}" for name in ("config.toml", "result.json", "speed.jsonl")))
    else:
        patterns = RUN_FILES
    for pattern in patterns:
        yield pattern, lambda made, pattern=pattern: newest(made / place, pattern)  # type: ignore[misc]


def newest(folder: Path, pattern: str) -> Path:
    """Return the last file of a pattern; where there is none, its name."""
    return max(folder.glob(pattern), default=folder / pattern)
