"""What `attack.py` attacks with: ways to damage files, strange contents, hostile names, and a grammar of commands."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

Change = Callable[[Path], None]
EVIL = "MARK"  # what a module leaves that was imported
SHADOWS = ("tomli_w", "torch", "evil", "numpy", "rich", "tyro", "gymnasium", "safetensors", "matplotlib", "cv2")

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
READ_BY = {
    "run": ("evaluate", "play", "export", "report", "page", "diff", "watch", "init", "finished"),
    "stopped": ("resume",),
    "hub": ("shared",),
    "sweep": ("status", "swept", "seen"),
}
RUN_FILES = ("config.toml", "result.json", "policy.safetensors", "episodes.jsonl", "metrics.jsonl",
             "evaluations.jsonl", "speed.jsonl", "diagnostics.jsonl", "curve.png", "video.mp4")  # fmt: skip
CELL = "runs/random/MinAtar-Breakout-v1/seed0"


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


# --- damage -----------------------------------------------------------------------------------------------------


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
FLIPS = {  # noticed wherever there is a checksum
    f"flipped at {share:.0%}": rewritten(
        lambda content, share=share: (  # type: ignore[misc]
            content[: (at := int(share * (len(content) - 1)))] + bytes([content[at] ^ 1]) + content[at + 1 :]
            if content
            else content
        )
    )
    for share in (0.1, 0.5, 0.95)
}


def damaged() -> Iterator[tuple[str, str, tuple[str, ...], Change]]:
    """Each file in each way for each command that reads it: name, reader, command, change."""
    for place, readers in READ_BY.items():
        for label, pick in _files(place):
            ways = DAMAGES | FLIPS if place == "stopped" else DAMAGES
            for how, damage in ways.items():
                for reader in readers:
                    yield f"{place}/{label} {how}", reader, READERS[reader], _at(pick, damage)
    for how, damage in DAMAGES.items():
        yield f"scores.csv {how}", "scores", READERS["scores"], _at(lambda made: made / "scores.csv", damage)
    for how in ("a pipe", "huge", "nested", "a list", "a folder"):
        change = _at(lambda made: made / "sweep/sweep.json", DAMAGES[how])
        yield f"sweep/sweep.json {how}", "sweep", READERS["sweep"], change


def _at(pick: Callable[[Path], Path], damage: Change) -> Change:
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
        yield pattern, lambda made, pattern=pattern: _newest(made / place, pattern)  # type: ignore[misc]


def _newest(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern), default=folder / pattern)


# --- strange contents ---------------------------------------------------------------------------------------------

LETTERS = ("[/b]", "[red]x", "\x1b]0;x\x07", "a\nb", "<script>alert(1)</script>", "$\\bad$", "\\input{x}", "=1+1",
           "x" * 9999,
           "‮x", "../../x", "%s", "|")  # fmt: skip
VALUES = (None, True, -1, 0, 1e308, float("nan"), 10**30, "x", "", [], {}, [[]], {"x": 1}, *LETTERS)


def strange() -> Iterator[tuple[str, tuple[str, ...], Change]]:
    """Contents of other kinds, sizes and letters, for the commands that read them."""
    for name in ("score", "standard_error", "interval_95", "episodes", "finished", "steps", "baselines", "returns",
                 "human_normalised", "env", "updates", "mix", "stopped_by"):  # fmt: skip
        for value in VALUES:
            change = _json("run/result.json", (name,), value)
            for reader in ("export", "report", "page", "diff", "watch", "finished"):
                yield f"result.json {name} = {_short(value)}", READERS[reader], change
    for place in (("envs",), ("seeds",), ("variants", 0, "settings"), ("variants", 0, "label"), ("note",), ("steps",),
                  ("size",), ("settings",), ("envs", 0)):  # fmt: skip
        for value in VALUES:
            change = _json("sweep/sweep.json", ("spec", *place), value)
            for reader in ("status", "swept", "seen"):
                yield f"sweep.json {place} = {_short(value)}", READERS[reader], change
    for old, new in _configurations():
        for reader in ("evaluate", "play", "export", "report", "page", "diff", "watch", "finished"):
            yield f"config.toml {new[:60]}", READERS[reader], _text("run/config.toml", old, new)
        yield f"config.toml {new[:60]}", READERS["resume"], _text("stopped/config.toml", old, new)
    for line in (
        "1",
        "null",
        '{"step": null, "score": 1}',
        '{"step": 1e400, "score": "x"}',
        "[" * 100_000,
        '{"step": []}',
    ):
        for record in ("episodes", "evaluations", "metrics", "speed"):
            for reader in ("report", "page", "watch"):
                change = _append(f"run/{record}.jsonl", line)
                yield f"{record}.jsonl with {line[:40]}", READERS[reader], change
    for text in LETTERS:
        rows = f"agent,game,seed,score\n{json.dumps(text)},{json.dumps(text + 'g')},0,1\nb,Pong,0,-3\n"
        for flag in ("--html", "--latex", "--csv", "--markdown", "--plots"):
            change = _write("strange.csv", rows)
            yield f"CSV with {_short(text)}", ("report", "strange.csv", flag, "out"), change
        yield f"CSV with {_short(text)}", ("report", "strange.csv"), _write("strange.csv", rows)


def _configurations() -> Iterator[tuple[str, str]]:
    """What stands in a configuration, and what is put there."""
    for text in LETTERS:
        yield 'env = "MinAtar/Breakout-v1"', f"env = {json.dumps(text)}"
        yield "wrappers = []", f"wrappers = [{json.dumps(text)}]"
        yield "kwargs = []", f"kwargs = [{json.dumps('x=' + text)}]"
    for value in ("0", "-1", "1000000000000", "1e300", "nan", "'x'", "[]", "{}"):
        for name in ("steps", "seed", "stack", "threads"):
            yield rf"(?m)^{name} = \d+", f"{name} = {value}"
        for name in ("hidden_dim", "width_scale", "capacity", "batch_size", "num_atoms", "episodes", "parallel"):
            yield rf"(?m)^{name} = [\d.]+", f"{name} = {value}"
    yield "steps = 150", "steps = 150\nsteps = 3"
    yield "steps = 150", "unknown = 3\nsteps = 150"


def _short(value: object) -> str:
    return ascii(value)[:40]


def _json(name: str, place: tuple[str | int, ...], value: object) -> Change:
    def change(made: Path) -> None:
        found = inner = json.loads((made / name).read_text())
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = value
        (made / name).write_text(json.dumps(found))

    return change


def _text(name: str, old: str, new: str) -> Change:
    pattern = old if old.startswith("(?m)") else re.escape(old)
    return lambda made: (made / name).write_text(re.sub(pattern, lambda _: new, (made / name).read_text())) and None


def _append(name: str, line: str) -> Change:
    return lambda made: (made / name).write_text((made / name).read_text() + line + "\n") and None


def _write(name: str, text: str) -> Change:
    return lambda made: (made / name).write_text(text) and None


# --- modules --------------------------------------------------------------------------------------------------------


def hostile() -> Iterator[tuple[str, tuple[str, ...], Change]]:
    """Configurations that name a module which lies in the working directory, in the run, or both."""
    named = (
        ('env = "MinAtar/Breakout-v1"', 'env = "evil:X-v0"'),
        ('env = "MinAtar/Breakout-v1"', 'env = "run.evil:X-v0"'),
        ("imports = []", 'imports = ["evil"]'),
        ("wrappers = []", 'wrappers = ["evil:X"]'),
    )
    for old, new in named:
        for reader in ("evaluate", "play", "export", "report", "page", "diff", "watch", "init", "finished"):
            yield new, READERS[reader], _plant("run/config.toml", old, new)
        yield new, READERS["resume"], _plant("stopped/config.toml", old, new)
    old, new = '"MinAtar/Breakout-v1"', '"evil:X-v0"'
    for reader in ("status", "sweep", "swept", "seen"):
        yield f"sweep of {new}", READERS[reader], _plant("sweep/sweep.json", old, new)


def _plant(name: str, old: str, new: str) -> Change:
    def change(made: Path) -> None:
        _text(name, old, new)(made)
        for folder in (made, made / "run", made / "stopped", made / "sweep"):
            (folder / "evil.py").write_text(f"open({str(made / EVIL)!r}, 'w').close()\n")

    return change


# --- the grammar of commands --------------------------------------------------------------------------------------

PATHS = ("run", "hub", "sweep", "stopped", ".", "..", "nowhere", "scores.csv", "run/config.toml", "", "-", "/dev/null",
         "/proc/self/mem", "x" * 5000, "a\x1b[31m", "\udcff", "[/b]", "~", "run/../run",
         "run/policy.safetensors")  # fmt: skip
NUMBERS = ("-1", "0", "1", "2", "1.5", "nan", "inf", "-inf", "1e400", "", "x", "[]", "٣", "0x10", "+1", "1_0", " 1")
TEXTS = (
    "",
    "x",
    "--",
    "=",
    "cpu",
    "auto",
    "sac-bbf",
    "[/b]",
    "\x1b[0m",
    "x" * 3000,
    "a;b",
    "a,b",
    "None",
    "true",
    "\udcff",
)
FLAGS: dict[str, tuple[str, ...]] = {
    "train": ("--seed", "--stack", "--eval.every", "--eval.episodes", "--log-every", "--replay-ratio", "--resize",
              "--network.hidden-dim", "--network.encoder", "--schedule.n-start", "--replay.batch-size", "--loss.v-max",
              "--optimiser.learning-rate", "--wrapper", "--import", "--env-kwargs", "--config", "--init", "--agent",
              "--size", "--device", "--threads", "--environment.sticky", "--quiet", "--trust", "--tracker"),
    "resume": ("--device", "--threads", "--steps", "--tracker", "--quiet", "--trust"),
    "evaluate": ("--seed", "--greedy", "--critic", "--device", "--json", "--trust"),
    "list": ("--diff",),
    "diff": (),
    "report": ("--html", "--markdown", "--csv", "--latex", "--plots", "--agent-name", "--skip-bad", "--unfinished",
               "--seed", "--published"),
    "sweep": ("--games", "--agents", "--seeds", "--vary", "--set", "--size", "--device", "--status", "--compile",
              "--retries", "--trust"),
    "reproduce": ("--scale", "--games", "--agents", "--seeds", "--set", "--out", "--device"),
    "play": ("--out", "--episode", "--seed", "--fps", "--greedy", "--device", "--trust"),
    "export": ("--hub", "--trust"),
    "watch": ("--host",),
    "verify": ("--case", "--replay"),
}  # fmt: skip
ENVS = (
    "MinAtar/Breakout-v1",
    "CartPole-v1",
    "Pong",
    "nosuch",
    "nosuch:X-v0",
    "custom:X",
    "ALE/Pong-v5",
    "",
    "a:b:c",
    "[/b]",
)
# What keeps a command that is understood short.
SHORT = {
    "train": ("--steps", "20", "--size", "tiny", "--max-hours", "0.0005", "--environment.max-steps", "9",
              "--schedule.warmup", "9", "--eval.episodes", "1", "--eval.no-baselines", "--network.hidden-dim", "8"),
    "resume": ("--max-hours", "0.0005"),
    "evaluate": ("--episodes", "1", "--parallel", "1"),
    "play": ("--max-steps", "3"),
    "report": ("--reps", "100"),
    "sweep": ("--dry-run",),
    "reproduce": ("--dry-run", "nonsense"),
    "watch": ("--port", "99999"),
    "verify": ("--case", "nowhere"),
}  # fmt: skip


def fuzzed(draw: random.Random) -> Iterator[str]:
    """Draw a command line."""
    command = draw.choice(list(FLAGS))
    yield command
    yield from SHORT.get(command, ())
    for _ in range(draw.choice((1, 1, 1, 2, 0))):
        yield draw.choice(ENVS if command == "train" else PATHS)
    for _ in range(draw.randint(0, 3)):
        if FLAGS[command]:
            flag, value = draw.choice(FLAGS[command]), draw.choice(draw.choice((NUMBERS, TEXTS, PATHS)))
            yield from [f"{flag}={value}"] if draw.random() < 0.2 else [flag, value]
    if draw.random() < 0.05:
        yield draw.choice(("--help", "-h", "--nosuch", "--", "@x"))


# --- the page -------------------------------------------------------------------------------------------------------


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
