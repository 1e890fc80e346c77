"""Agents and sizes by name: the published agents, and how they are scaled down."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from sacbbf.agents.config import REFERENCE_STEPS, AgentConfig
from sacbbf.agents.ladder import RUNGS, Changes, LearnerName, change, published
from sacbbf.errors import UsageError

AgentName = Literal[LearnerName, "random", "blind"]
SizeName = Literal["paper", "laptop", "tiny", "tiny-paper"]
Kind = Literal["image", "grid", "vector"]

SHORTEST_WARMUP = 64  # steps; a first batch needs some windows to choose from

BASELINES: dict[AgentName, str] = {
    "random": "baseline: every action equally likely",
    "blind": "baseline: the best constant action or two-action mix, whatever the screen shows",
}
_LEARNERS: dict[AgentName, str] = {name: rung.summary for name, rung in RUNGS.items()}
AGENTS = _LEARNERS | BASELINES


@dataclass(frozen=True)
class Size:
    """How large the networks are and how fast they learn, by kind of observation."""

    summary: str
    encoders: dict[Kind, str]
    steps: int  # environment steps of a run unless set otherwise
    threads: int  # CPU threads for PyTorch; 0: as many as PyTorch likes
    changes: Changes = field(default_factory=dict)
    by_kind: dict[Kind, Changes] = field(default_factory=dict)
    tuned: dict[tuple[Kind, AgentName], Changes] = field(default_factory=dict)  # of single agents; docs/results.md


def merged(changes: Changes, others: Changes) -> Changes:
    """Return both; where both set one setting, it is the others'."""
    return {part: changes.get(part, {}) | others.get(part, {}) for part in changes | others}


_TINY_PAPER = Size(
    summary="networks as small as tiny's, with every part of the paper's agent, for what the paper claims",
    encoders={"image": "centred-nature", "grid": "grid", "vector": "mlp"},
    steps=20_000,
    threads=1,
    changes={
        "network": {"width_scale": 1.0, "hidden_dim": 128},
        "optimiser": {"learning_rate": 3e-4},
        # Resets at 20, 40 and 60% of the steps, as the paper's at replay ratio 2; these games are short.
        "schedule": {
            "replay_ratio": 1,
            "gamma_end": 0.99,
            "beta_start": 0.07,
            "beta_final_updates": 20_000,
            "reset_every": 20_000,
        },
    },
    by_kind={
        "image": {"network": {"width_scale": 0.5}},
        # Their rewards have no usual size, as those of MinAtar and of clipped Atari have.
        "vector": {"loss": {"returns": "scaled"}, "schedule": {"reset_every": 40_000}},
    },
    tuned={
        ("grid", "sac-bbf"): {
            "optimiser": {"learning_rate": 1e-3},
            "schedule": {"beta_start": 0.05, "gamma_end": 0.997, "reset_every": 40_000},
        },
        ("grid", "bbf"): {"optimiser": {"learning_rate": 1e-3}, "schedule": {"reset_every": 40_000}},
        ("grid", "sac-discrete"): {"optimiser": {"learning_rate": 1e-3}, "loss": {"target_entropy": 0.3}},
    },
)

# Small observations need no representation to be learned: what self-prediction costs is spent on a second update a
# step. Counts of updates are twice tiny-paper's, so that they last as many steps. How it was chosen is written down in
# results/tiny-defaults.md.
_TINY: Changes = {
    "loss": {"spr_weight": 0.0},
    "schedule": {
        "replay_ratio": 2,
        "cycle": 20_000,
        "reset_every": 80_000,
        "beta_final_updates": 40_000,
        "temperature": "target",
    },
}

SIZES: dict[SizeName, Size] = {
    "paper": Size(
        summary="the paper to the letter: Impala x4, 2048 units, replay ratio 2; wants a GPU",
        encoders={"image": "impala", "grid": "grid", "vector": "mlp"},
        steps=100_000,
        threads=0,
    ),
    "laptop": Size(
        summary="84x84 games on a CPU: Nature CNN with smaller last layers, 256 units, replay ratio 1",
        encoders={"image": "centred-nature", "grid": "grid", "vector": "mlp"},
        steps=20_000,
        threads=0,
        changes={
            "network": {"width_scale": 1.0, "hidden_dim": 256},
            "optimiser": {"learning_rate": 1e-3},
            # Ten thousand updates are few for values to spread: n and gamma take as many as the paper's to their ends.
            "schedule": {"replay_ratio": 1, "cycle": 50_000, "beta_start": 0.05, "beta_final_updates": 20_000},
            "compute": {"share_bootstrap": True},
        },
    ),
    "tiny": replace(
        _TINY_PAPER,
        summary="grids (MinAtar) and vectors (CartPole) in minutes on one core",
        tuned=_TINY_PAPER.tuned
        | {
            ("grid", "sac-bbf"): merged(_TINY_PAPER.tuned["grid", "sac-bbf"], _TINY),
            ("vector", "sac-bbf"): _TINY,
        },
    ),
    "tiny-paper": _TINY_PAPER,
}


def preset(
    size: SizeName, kind: Kind, steps: int, replay_ratio: int | None = None, agent: AgentName = "sac-bbf"
) -> AgentConfig:
    """Return an agent at a size, for a kind of observation and a budget of environment steps."""
    if size not in SIZES:
        raise UsageError(f"size = {size!r}: must be one of {', '.join(SIZES)}")
    config = published("sac-bbf" if agent in BASELINES else agent)  # type: ignore[arg-type]
    chosen = SIZES[size]
    if size != "paper" or kind != "image":
        config = change(config, {"network": {"encoder": chosen.encoders[kind]}})
    config = change(config, {"loss": {"augment": config.loss.augment and kind == "image"}})
    for changes in (chosen.changes, chosen.by_kind.get(kind, {})):
        config = change(config, fitting(changes, config))
    config = change(config, chosen.tuned.get((kind, agent), {}))
    if replay_ratio is not None:
        config = change(config, {"schedule": {"replay_ratio": replay_ratio}})
    config = for_budget(config, steps)
    return change(config, {"schedule": {"warmup": max(config.schedule.warmup, SHORTEST_WARMUP)}})


def for_budget(config: AgentConfig, total_steps: int) -> AgentConfig:
    """Scale an agent that is meant for 100,000 steps to another budget: its counts of steps and of updates."""
    scale = total_steps / REFERENCE_STEPS
    schedule = replace(
        config.schedule,
        warmup=round(config.schedule.warmup * scale),
        cycle=round(config.schedule.cycle * scale),
        # Upwards: an interval rounded down would leave room for one more reset near the end.
        reset_every=-(-config.schedule.reset_every * total_steps // REFERENCE_STEPS),
        beta_final_updates=round(config.schedule.beta_final_updates * scale),
    )
    acting = replace(config.acting, epsilon_decay=round(config.acting.epsilon_decay * scale))
    every = config.optimiser.target_every  # a target that follows each update does so whatever the budget
    optimiser = replace(config.optimiser, target_every=max(1, round(every * scale)) if every > 1 else 1)
    return replace(config, schedule=schedule, acting=acting, optimiser=optimiser)


def fitting(changes: Changes, config: AgentConfig) -> Changes:
    """Return those changes of a size that concern an agent: resets and annealing only where it has them."""
    schedule = config.schedule
    foreign = {name for name in ("beta_start", "beta_final_updates") if schedule.beta_start == 0}
    foreign |= {"reset_every"} if schedule.reset_every == 0 else set()
    foreign |= {"gamma_end", "cycle"} if schedule.gamma_end == schedule.gamma_start else set()
    return {
        part: {name: value for name, value in settings.items() if name not in foreign}
        for part, settings in changes.items()
    }
