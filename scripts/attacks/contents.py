"""Strange contents: values of other kinds, sizes and letters than they should be."""

from __future__ import annotations

import json
from collections.abc import Iterator

from attacks.changes import Change, appended, in_json, in_text, written
from attacks.readers import READERS

LETTERS = ("[/b]", "[red]x", "\x1b]0;x\x07", "a\nb", "<script>alert(1)</script>", "$\\bad$", "\\input{x}", "=1+1",
           "x" * 9999,
           "‮x", "../../x", "%s", "|")  # fmt: skip
KINDS = (None, True, -1, 0, 1e308, float("nan"), 10**30, 10**400, "x", "", [], {}, [[]], {"x": 1})
VALUES = (*KINDS, *LETTERS)


def strange() -> Iterator[tuple[str, tuple[str, ...], Change]]:
    """Contents of other kinds, sizes and letters, for the commands that read them."""
    for name in ("score", "standard_error", "interval_95", "episodes", "finished", "steps", "baselines", "returns",
                 "human_normalised", "env", "updates", "mix", "stopped_by"):  # fmt: skip
        for value in VALUES:
            change = in_json("run/result.json", (name,), value)
            for reader in ("export", "report", "page", "diff", "watch", "finished"):
                yield f"result.json {name} = {short(value)}", READERS[reader], change
    for place in (("envs",), ("seeds",), ("variants", 0, "settings"), ("variants", 0, "label"), ("note",), ("steps",),
                  ("size",), ("settings",), ("envs", 0)):  # fmt: skip
        for value in VALUES:
            change = in_json("sweep/sweep.json", ("spec", *place), value)
            for reader in ("status", "swept", "seen"):
                yield f"sweep.json {place} = {short(value)}", READERS[reader], change
    for old, new in _configurations():
        for reader in ("evaluate", "play", "export", "report", "page", "diff", "watch", "finished"):
            yield f"config.toml {new[:60]}", READERS[reader], in_text("run/config.toml", old, new)
        yield f"config.toml {new[:60]}", READERS["resume"], in_text("stopped/config.toml", old, new)
    for line in (
        "1",
        "null",
        '{"step": null, "score": 1}',
        '{"step": 1e400, "score": "x"}',
        "[" * 100_000,
        '{"step": []}',
        '{"step": 7, "score": 1' + "0" * 400 + "}",
    ):
        for record in ("episodes", "evaluations", "metrics", "speed"):
            for reader in ("report", "page", "watch"):
                change = appended(f"run/{record}.jsonl", line)
                yield f"{record}.jsonl with {line[:40]}", READERS[reader], change
    for text in LETTERS:
        rows = f"agent,game,seed,score\n{json.dumps(text)},{json.dumps(text + 'g')},0,1\nb,Pong,0,-3\n"
        for flag in ("--html", "--latex", "--csv", "--markdown", "--plots"):
            change = written("strange.csv", rows)
            yield f"CSV with {short(text)}", ("report", "strange.csv", flag, "out"), change
        yield f"CSV with {short(text)}", ("report", "strange.csv"), written("strange.csv", rows)


def _configurations() -> Iterator[tuple[str, str]]:
    """What stands in a configuration, and what is put there."""
    for text in LETTERS:
        yield 'env = "MinAtar/Breakout-v1"', f"env = {json.dumps(text)}"
        yield "wrappers = []", f"wrappers = [{json.dumps(text)}]"
        yield "kwargs = []", f"kwargs = [{json.dumps('x=' + text)}]"
    for value in ("0", "-1", "1000000000000", "1e300", "nan", "'x'", "[]", "{}", "0x" + "f" * 9999, "9" * 9999):
        for name in ("steps", "seed", "stack", "threads"):
            yield rf"(?m)^{name} = \d+", f"{name} = {value}"
        for name in ("hidden_dim", "width_scale", "capacity", "batch_size", "num_atoms", "episodes", "parallel"):
            yield rf"(?m)^{name} = [\d.]+", f"{name} = {value}"
    yield "steps = 150", "steps = 150\nsteps = 3"
    yield "steps = 150", "unknown = 3\nsteps = 150"


def short(value: object) -> str:
    """Return a value in few letters."""
    return ascii(value)[:40]
