"""Commands that read files, what no damage may change in their answers, and a client of the page."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote

# Commands that read files, by a name: the command, in a folder that holds all that was made.
READERS: dict[str, tuple[str, ...]] = {
    "evaluate": ("evaluate", "run", "--episodes", "2"),
    "play": ("play", "run", "--max-steps", "3", "--out", "film.mp4"),
    "export": ("export", "run", "--hub", "out"),
    "report": ("report", "run", "--csv", "out.csv"),
    "page": ("report", "run", "--html", "out.html"),
    "diff": ("diff", "run", "run"),
    "watch": ("watch", "run"),
    "init": ("train", "MinAtar/Breakout-v1", "--init", "run", "--steps", "20", "--eval.episodes", "1",
             "--environment.max-steps", "9", "--schedule.warmup", "9", "--replay.batch-size", "2", "--quiet",
             "--out", "new"),
    "finished": ("resume", "run"),
    "resume": ("resume", "stopped", "--quiet"),
    "shared": ("evaluate", "hub", "--episodes", "2"),
    "status": ("sweep", "sweep", "--status"),
    "sweep": ("sweep", "sweep", "--quiet", "--retries", "0", "--workers", "1"),
    "swept": ("report", "sweep", "--csv", "out.csv"),
    "seen": ("watch", "sweep"),
    "scores": ("report", "scores.csv", "--csv", "out.csv"),
}  # fmt: skip


def answer(reader: str, words: str, folder: Path) -> set[str]:
    """Return the parts of what a command found that no damage may change."""
    if reader in ("evaluate", "shared"):
        return {line for line in words.splitlines() if line.startswith(("returns ", "mean "))}
    if reader == "play":
        return {line for line in words.splitlines() if line.startswith("score ")}
    if reader == "diff":
        rows = (" ".join(line.split()) for line in words.splitlines() if re.search(r"│ (score|median|steps) ", line))
        return {row for row in rows if "│ - │ - │" not in row}  # which says that there is no result
    if reader == "export":
        names = ("config.toml", "policy.safetensors", "result.json")
        return {hashlib.sha256((folder / "out" / name).read_bytes()).hexdigest() for name in names
                if (folder / "out" / name).exists()}  # fmt: skip
    if reader in ("report", "swept") and "left out" not in words:
        return set((folder / "out.csv").read_text().splitlines())
    if reader == "resume":
        names = ("episodes.jsonl", "metrics.jsonl", "evaluations.jsonl", "policy.safetensors")
        return {hashlib.sha256((folder / "stopped" / name).read_bytes()).hexdigest() for name in names}
    return set()


def watch(top: Path) -> int:
    """Serve a directory, ask for all that the page asks for and for what it must not get; returns an exit code."""
    from sacbbf.watch.server import Server

    with Server(top.resolve(), "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        address = server.address.rstrip("/")
        try:
            overview = _ask(f"{address}/api/overview")
            names = [run["path"] for run in json.loads(overview)["runs"]] if overview.startswith(b"{") else []
            for name in names[:3]:
                _ask(f"{address}/api/run?path={quote(name)}")
                for file in ("video.mp4", "curve.png", "../scores.csv", "config.toml"):
                    _ask(f"{address}/file?path={quote(name)}&name={quote(file)}")
            return 0
        finally:
            server.shutdown()


def _ask(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=20) as answered:
            return bytes(answered.read())
    except urllib.error.HTTPError as error:
        return error.read()
