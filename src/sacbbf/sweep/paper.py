"""The paper's tables, and two of ours, as sweeps: games, agents, settings and seeds, at the paper's scale or below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from sacbbf.agents.presets import SIZES, Kind, SizeName, preset
from sacbbf.envs import games
from sacbbf.sweep.spec import Spec, Variant, paper_subset, parse_games

TableName = Literal["main", "variance-reduction", "annealing", "rr-scaling", "expectations", "behaviour"]
ScaleName = Literal["paper", "laptop", "minatar"]


@dataclass(frozen=True)
class Scale:
    """How large a reproduction is."""

    size: SizeName
    kind: Kind
    seeds: int
    ratio: float  # replay ratios are the paper's times this
    games: str | None = None  # instead of the paper's
    words: str = ""  # what sets it apart from the paper, whatever the steps

    def note(self, steps: int) -> str:
        """Return what a reader of its results, of runs of so many steps, must know."""
        fewer = ", fewer steps" if steps < SIZES["paper"].steps else ""
        return f"Scaled down: {self.words}{fewer}. These are not the paper's conditions." if self.words else ""

    def replay_ratio(self, paper: int) -> int:
        """Return the replay ratio that stands for one of the paper's."""
        return max(1, round(self.ratio * paper))


SCALES: dict[ScaleName, Scale] = {
    "paper": Scale("paper", "image", 10, 1.0),
    "laptop": Scale("laptop", "image", 3, 0.5, words="the laptop size, half the replay ratio"),
    "minatar": Scale("tiny-paper", "grid", 5, 0.5, "minatar", "MinAtar's games, tiny networks, half the replay ratio"),
}


def _main(scale: Scale) -> list[Variant]:
    columns = [("sr-spr", 16), ("bbf", 8), ("bbf", 2), ("sac-bbf", 2)]
    return [Variant("sac-discrete", label="SAC-Discrete"), *(_ratio(agent, ratio, scale) for agent, ratio in columns)]


def _variance_reduction(scale: Scale) -> list[Variant]:
    without = Variant("sac-bbf", {"loss.variance_reduction": False}, "SAC-BBF-without-variance-reduction")
    variants = [without, Variant("sac-bbf", label="SAC-BBF")]
    if scale.words:  # the paper's main table has BBF; below its scale nothing else does
        variants.append(Variant("bbf", label="BBF"))
    return variants


def _annealing(scale: Scale) -> list[Variant]:
    start = preset(scale.size, scale.kind, SIZES[scale.size].steps).schedule.beta_start
    constant = {"schedule.beta_end": start}
    return [
        Variant("sac-bbf", {**constant, "eval.greedy": True}, "SAC-BBF-constant-beta-greedy"),
        Variant("sac-bbf", constant, "SAC-BBF-constant-beta-sampled"),
        Variant("sac-bbf", label="SAC-BBF"),
    ]


def _rr_scaling(scale: Scale) -> list[Variant]:
    columns = [("bbf", 2), ("bbf", 8), ("sac-bbf", 2), ("sac-bbf", 4)]
    if scale.words:  # below the paper's scale it can be afforded too
        columns.append(("sac-bbf", 8))
    return [_ratio(agent, ratio, scale) for agent, ratio in columns]


def _expectations(scale: Scale) -> list[Variant]:
    gradient, backup = {"loss.policy_gradient": "expected"}, {"loss.backup": "expected"}
    return [
        Variant("sac-bbf", label="SAC-BBF"),
        Variant("sac-bbf", gradient, "SAC-BBF-expected-gradient"),
        Variant("sac-bbf", backup, "SAC-BBF-expected-backup"),
        Variant("sac-bbf", {**gradient, **backup}, "SAC-BBF-expected-both"),
    ]


def _behaviour(scale: Scale) -> list[Variant]:
    return [Variant("sac-bbf", label="SAC-BBF"), Variant("sac-bbf", {"behaviour": "released"}, "SAC-BBF-released")]


def _ratio(agent: str, paper: int, scale: Scale) -> Variant:
    ratio = scale.replay_ratio(paper)
    return Variant(agent, {"replay_ratio": ratio}, f"{agent.upper()}-RR{ratio}")


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper, or one beyond it: what it compares, on which games."""

    variants: Callable[[Scale], list[Variant]]
    subset: int | None  # seed of the draw of five games; None: all 26


TABLES: dict[TableName, PaperTable] = {
    "main": PaperTable(_main, None),
    "variance-reduction": PaperTable(_variance_reduction, 3),
    "annealing": PaperTable(_annealing, 2),
    "rr-scaling": PaperTable(_rr_scaling, 1),
    "expectations": PaperTable(_expectations, 3),  # beyond the paper, on the games of its variance reduction
    "behaviour": PaperTable(_behaviour, 3),
}


def table_spec(table: TableName, scale_name: ScaleName = "paper") -> Spec:
    """Return a table as a sweep."""
    scale, wanted = SCALES[scale_name], TABLES[table]
    if scale.games is not None:
        envs = parse_games(scale.games)
    else:
        envs = games.GAMES if wanted.subset is None else paper_subset(wanted.subset)
    return Spec(
        envs=envs,
        variants=tuple(wanted.variants(scale)),
        seeds=tuple(range(scale.seeds)),
        size=scale.size,
        steps=SIZES[scale.size].steps,
        settings={"eval.episodes": 100},
        note=scale.note(SIZES[scale.size].steps),
    )


def note_on(spec: Spec, table: TableName, scale_name: ScaleName) -> str:
    """Return what a reader must know of a sweep that stands for a table: its scale, and what differs from the paper.

    What is the scale's own way, or the paper's, is no difference.
    """
    known = (table_spec(table, scale_name), table_spec(table))
    parts: dict[str, Callable[[Spec], object]] = {
        "games": lambda one: set(one.envs),
        "seeds": lambda one: set(one.seeds),
        "steps": lambda one: one.steps,
        "precision": lambda one: one.settings.get("compute.precision", "auto"),
    }
    other = [name for name, part in parts.items() if part(spec) not in map(part, known)]
    words = f"Other {', '.join(other)} than the paper's." if other else ""
    return f"{SCALES[scale_name].note(spec.steps)} {words}".strip()
