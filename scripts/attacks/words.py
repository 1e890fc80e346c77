"""Command lines drawn from a grammar of commands, flags and values."""

from __future__ import annotations

import random
from collections.abc import Iterator

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
