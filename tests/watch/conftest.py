"""A directory with runs to look at, and the server that shows it."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
from pathlib import Path

import pytest

from sacbbf.watch.server import Server

MARKUP = "<script>alert(1)"  # a run may be called what a directory can be called


@pytest.fixture
def top(finished_run, tmp_path):
    """Three whole runs, one of them of another's name in a folder and with a score of its own, and a broken one."""
    top = tmp_path / "runs"
    for name in ("pole", "again/pole", MARKUP, "broken"):
        shutil.copytree(finished_run.path, top / name)
    (top / "broken/config.toml").write_text("env = = 3")
    result = json.loads((top / "again/pole/result.json").read_text())
    (top / "again/pole/result.json").write_text(json.dumps(result | {"score": 77.5}))
    (top / "pole/video.mp4").write_bytes(b"moving pictures")
    return top


def add_episodes(run: Path, count: int, score: float) -> int:
    """Append episodes behind the last of a run; returns the last one's step."""
    path = run / "episodes.jsonl"
    step = json.loads(path.read_text().splitlines()[-1])["step"]
    with path.open("a") as file:
        for _ in range(count):
            step += 10
            file.write(json.dumps({"step": step, "score": score}) + "\n")
    return step


@pytest.fixture
def grow():
    """Function that appends episodes to a run."""
    return add_episodes


@pytest.fixture
def serve():
    """Function that serves a directory until the test is over; returns the address."""
    with contextlib.ExitStack() as stack:

        def begin(top: Path, host: str = "127.0.0.1") -> str:
            server = stack.enter_context(Server(top, host, 0))
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_address[1]}"

        yield begin
