"""How far an agent is to learn, and by which configuration: at first, further on, and from weights alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sacbbf.agents.presets import AgentName
from sacbbf.api.callbacks import check_at_least
from sacbbf.envs.base import EnvSpec
from sacbbf.envs.make import EnvSettings
from sacbbf.envs.source import EnvLike, EnvSource, source_of
from sacbbf.errors import UsageError
from sacbbf.run.fitting import check_fit
from sacbbf.run.more_steps import extended, fine_tuning, new_cycle, rescaled
from sacbbf.run.settings import RunConfig, Value, check_run, configure


def configure_for(
    env: EnvLike, given: Mapping[str, Value], agent: AgentName, seed: int, device: str
) -> tuple[RunConfig, EnvSource]:
    """Return the configuration of an agent on an environment, and where that comes from."""
    sources: list[EnvSource] = []

    def look(name: str, settings: EnvSettings) -> EnvSpec:
        sources.append(source_of(env, settings))
        return sources[0].spec

    config, spec = configure("", given, agent=agent, seed=seed, device=device, known=look)
    check_run(config)
    check_fit(config, spec)
    return config, sources[0]


@dataclass
class Plans:
    """An agent's configuration, and what it was described by as long as no steps were announced."""

    config: RunConfig
    given: Mapping[str, Value] | None = None  # settings by name; None for an agent that was loaded
    sha256: str = ""  # of the policy file that it starts from, if it does

    @classmethod
    def of(
        cls, env: EnvLike, given: Mapping[str, Value], agent: AgentName, seed: int, device: str
    ) -> tuple[Plans, EnvSource]:
        """Return the plans of a new agent, and where its environment comes from."""
        config, source = configure_for(env, given, agent, seed, device)
        return cls(config, given), source

    def more(self, steps: int | None, done: int, spec: EnvSpec, anew: bool) -> int:
        """Plan for more steps after the `done` ones, and return how many there are to be in all.

        `anew` begins another cycle of schedules; else those of the first number stay, at their ends beyond it.
        """
        if steps is not None:
            check_at_least("total_timesteps", steps, 1)
            steps = int(steps)
        config = self.config
        if done == 0:
            config = self._announced(steps, spec)
        elif anew:
            config = new_cycle(config, done, steps or config.schedule_steps, spec.kind)
        elif steps is None and done >= config.steps:
            raise UsageError(
                f"total_timesteps: the {config.steps:,} steps that were announced are done; say how many more"
            )
        target = config.steps if steps is None else done + steps
        if target > config.steps:
            config = extended(config, target)
        check_run(config)
        self.config = config
        return target

    def tuned(self, steps: int | None, spec: EnvSpec) -> RunConfig:
        """Return the configuration of an agent that starts from weights alone, for `steps` or as many as it had."""
        config = fine_tuning(self.config, steps or self.config.schedule_steps, spec.kind)
        return replace(config, initial_policy=self.sha256)

    def _announced(self, steps: int | None, spec: EnvSpec) -> RunConfig:
        """Return the configuration of an agent that has learned nothing, for the steps that are announced."""
        if self.sha256:
            return self.tuned(steps, spec)
        if steps is None or (self.given is not None and "steps" in self.given):
            return self.config
        if self.given is None:
            return rescaled(self.config, spec.kind, steps)[0]
        seed, device, agent = self.config.seed, self.config.device, self.config.agent
        given = {**self.given, "steps": steps}
        found, _ = configure(self.config.env, given, agent=agent, seed=seed, device=device, known=lambda *_: spec)
        return found


def same_spaces(spec: EnvSpec, other: EnvSpec) -> None:
    """Raise UsageError unless another environment shows the same frames and has as many actions."""
    for name, words in (("frame_shape", "frames of shape"), ("frame_dtype", "frames of"), ("num_actions", "actions:")):
        here, there = getattr(spec, name), getattr(other, name)
        if here != there:
            raise UsageError(f"env = {other.id}: {words} {there}; must be {here}, as in {spec.id}")


def describe(config: RunConfig, source: EnvSource, steps: int) -> str:
    """Return what tells an agent from others, for people."""
    return (
        f"{config.env!r}, size={config.size!r}, seed={config.seed}, device={config.device!r}: {steps:,} of "
        f"{config.steps:,} steps learned; {source.description}"
    )
