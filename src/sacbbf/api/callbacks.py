"""What may be done while an agent learns: told of steps, episodes and evaluations, evaluating, saving."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sacbbf.api.evaluation import Evaluation
from sacbbf.errors import UsageError
from sacbbf.types import EpisodeRecord

if TYPE_CHECKING:
    from sacbbf.api.agent import Agent
    from sacbbf.envs.source import EnvLike


class Callback:
    """What may be done while an agent learns; each method that returns False ends the learning."""

    def on_step(self, agent: Agent) -> bool | None:
        """After every environment step; `agent.steps` counts them, `agent.metrics` holds the latest losses."""
        return None

    def on_episode(self, agent: Agent, episode: EpisodeRecord) -> bool | None:
        """After every training episode."""
        return None

    def on_evaluation(self, agent: Agent, evaluation: Evaluation) -> bool | None:
        """After every evaluation that `learn(eval_every=...)` makes."""
        return None


CallbackLike = Callback | Callable[["Agent"], bool | None]


class EvalCallback(Callback):
    """Evaluates every `eval_freq` steps, and saves the best agent so far as BEST_MODEL_SAVE_PATH/best_model.

    Episodes are played in `eval_env` (a name, an object or a function), by default in the agent's own. `deterministic`
    takes the most likely actions; otherwise they are drawn, as the paper does. The same episodes are played each time.
    """

    def __init__(
        self,
        eval_env: EnvLike | None = None,
        *,
        n_eval_episodes: int = 5,
        eval_freq: int = 10_000,
        best_model_save_path: str | Path | None = None,
        deterministic: bool = False,
    ) -> None:
        check_at_least("n_eval_episodes", n_eval_episodes, 1)
        check_at_least("eval_freq", eval_freq, 1)
        self.eval_env, self.episodes, self.every = eval_env, n_eval_episodes, eval_freq
        self.path = None if best_model_save_path is None else Path(best_model_save_path)
        self.deterministic = deterministic
        self.evaluations: list[tuple[int, Evaluation]] = []  # with the steps after which they were made
        self.best_mean_reward = -float("inf")

    def on_step(self, agent: Agent) -> None:
        """Evaluate when it is time."""
        if agent.steps % self.every:
            return
        found = agent.evaluate(self.episodes, greedy=self.deterministic, env=self.eval_env)
        agent.note_evaluation(found)
        self.evaluations.append((agent.steps, found))
        if found.mean > self.best_mean_reward:
            self.best_mean_reward = found.mean
            if self.path is not None:
                agent.save(self.path / "best_model")


class CheckpointCallback(Callback):
    """Saves the agent every `save_freq` steps, as SAVE_PATH/PREFIX_N_steps.

    With `save_replay_buffer` learning can go on from each exactly: replay and optimiser are saved too.
    """

    def __init__(
        self, save_freq: int, save_path: str | Path, name_prefix: str = "agent", save_replay_buffer: bool = False
    ) -> None:
        check_at_least("save_freq", save_freq, 1)
        self.every, self.path, self.prefix, self.replay = save_freq, Path(save_path), name_prefix, save_replay_buffer

    def on_step(self, agent: Agent) -> None:
        """Save when it is time."""
        if agent.steps % self.every == 0:
            agent.save(self.path / f"{self.prefix}_{agent.steps}_steps", replay=self.replay)


class Evaluating(Callback):
    """Evaluates every so many steps, and tells another callback of it."""

    def __init__(self, every: int, episodes: int, listener: Callback) -> None:
        self.every, self.episodes, self.listener = every, episodes, listener

    def on_step(self, agent: Agent) -> bool | None:
        """Evaluate when it is time."""
        if agent.steps % self.every:
            return None
        found = agent.evaluate(self.episodes)
        agent.note_evaluation(found)
        return self.listener.on_evaluation(agent, found)


class _Function(Callback):
    """A function that is called after every step."""

    def __init__(self, function: Callable[[Agent], bool | None]) -> None:
        self.function = function

    def on_step(self, agent: Agent) -> bool | None:
        return self.function(agent)


class _Each(Callback):
    """Several callbacks, one after another; each is told, and any of them can end the learning."""

    def __init__(self, callbacks: Iterable[Callback]) -> None:
        self.callbacks = list(callbacks)

    def on_step(self, agent: Agent) -> bool:
        return _none_false([each.on_step(agent) for each in self.callbacks])

    def on_episode(self, agent: Agent, episode: EpisodeRecord) -> bool:
        return _none_false([each.on_episode(agent, episode) for each in self.callbacks])

    def on_evaluation(self, agent: Agent, evaluation: Evaluation) -> bool:
        return _none_false([each.on_evaluation(agent, evaluation) for each in self.callbacks])


def one_callback(given: CallbackLike | Iterable[CallbackLike] | None) -> Callback:
    """Return one callback for a callback, a function, several of them, or none."""
    if given is None:
        return Callback()
    if isinstance(given, Callback):
        return given
    if isinstance(given, list | tuple):
        return _Each(one_callback(each) for each in given)
    if callable(given):
        return _Function(given)
    raise UsageError(
        f"callback = {given!r}: must be a sacbbf.Callback, a function that takes the agent, or a list of such"
    )


def check_at_least(name: str, value: Any, least: int) -> None:
    """Raise UsageError for a number that is too small."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise UsageError(f"{name} = {value!r}: must be a whole number of at least {least}")


def _none_false(answers: list[bool | None]) -> bool:
    return all(answer is not False for answer in answers)
