"""What a run plays beside its training: evaluations, and the baselines that its score is compared with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sacbbf.disk import faults
from sacbbf.envs.source import EnvSource
from sacbbf.policy import Logits, Policy, uniform_policy
from sacbbf.run.baselines import FINALISTS, candidates, find_blind
from sacbbf.run.display import Display
from sacbbf.run.evaluate import Plan, evaluate, plan_of, summarise
from sacbbf.run.result import score_fields
from sacbbf.run.settings import RunConfig
from sacbbf.run.stop import Stop
from sacbbf.types import BoolArray, EpisodeRecord, Frame


@dataclass(frozen=True)
class Interruptible:
    """A policy that plays no further once an interrupt has come: an episode may be long."""

    policy: Policy
    stop: Stop

    def logits(self, states: Frame, masks: BoolArray | None = None) -> Logits:
        """Return the policy's logits (N, A), or raise KeyboardInterrupt."""
        if self.stop.interrupted:
            raise KeyboardInterrupt
        return self.policy.logits(states, masks)


@dataclass(frozen=True)
class Progress:
    """What a run has to show before its evaluation."""

    policy: Policy
    facts: dict[str, Any]
    plan: Plan  # of the evaluation


@dataclass(frozen=True)
class Scoring:
    """Plays a run's evaluations and baselines, in environments and with generators of their own."""

    config: RunConfig
    source: EnvSource
    display: Display
    stop: Stop

    def interval(self, policy: Policy, step: int) -> dict[str, Any]:
        """Evaluate in the middle of training, and return the line for the records."""
        plan = plan_of(self.config, self.config.eval.every_episodes, phase="interval")
        records = evaluate(
            policy, self.source.make_for_play, plan, lambda record: faults.reach("interval evaluation: episode")
        )
        summary = summarise([record.score for record in records])
        return {"step": step, **summary.line()}

    def final(self, progress: Progress, name: str = "evaluating") -> list[EpisodeRecord]:
        """Return the run's final evaluation; none after an interrupt, which asked for an end and not for more play."""
        if self.stop.interrupted:
            return []
        self.display.begin(name, progress.plan.episodes)
        scores: list[float] = []

        def note(record: EpisodeRecord) -> None:
            faults.reach("evaluation: episode")
            scores.append(record.score)
            self.display.advance(f"mean score {sum(scores) / len(scores):.2f}")

        try:
            return evaluate(progress.policy, self.source.make_for_play, progress.plan, note)
        except KeyboardInterrupt:
            return []

    def baseline(self, agent: str) -> Progress:
        """Return chance, or the best blind mix after a search for it; chance too if the search is interrupted."""
        spec = self.source.spec
        # A baseline's draws are all there is to it.
        plan = replace(plan_of(self.config, self.config.eval.episodes), greedy=False, epsilon=0.0)
        policy = Interruptible(uniform_policy(spec.num_actions), self.stop)
        chance = Progress(policy, {"steps": 0, "updates": 0}, plan)
        if agent == "random":
            return chance
        self.display.begin("searching the best blind mix", len(candidates(spec.num_actions)) + 3 * FINALISTS)
        try:
            mix, steps = find_blind(self.source.make_for_play, plan, spec.num_actions, self._advance)
        except KeyboardInterrupt:
            return chance
        facts = {"steps": steps, "updates": 0, "mix": mix.describe(spec.action_names)}
        return Progress(Interruptible(mix.policy(spec.num_actions), self.stop), facts, plan)

    def compare(self) -> dict[str, Any]:
        """Return the scores of chance and blind play on the run's own evaluation episodes."""
        found: dict[str, Any] = {}
        for agent in ("random", "blind"):
            progress = self.baseline(agent)
            records = self.final(progress, f"evaluating {agent} play")
            if not records:
                return found
            fields = score_fields(records, self.source.spec.game)
            kept = {name: fields[name] for name in ("score", "standard_error", "interval_95", "episodes")}
            found[agent] = kept | {name: progress.facts[name] for name in ("mix",) if name in progress.facts}
        return found

    def _advance(self) -> None:
        self.display.advance()
        if self.stop.interrupted:
            raise KeyboardInterrupt
