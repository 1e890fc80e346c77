"""An agent as an object: it learns, plays, is evaluated, is saved and comes back."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Never, Self

import gymnasium
import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console

from sacbbf.agents.presets import AgentName
from sacbbf.api.callbacks import Callback, CallbackLike, Evaluating, check_at_least, one_callback
from sacbbf.api.evaluation import Evaluation
from sacbbf.api.keeping import Kept, read_agent, stored_config, write_agent
from sacbbf.api.logs import Log
from sacbbf.api.observing import Observing
from sacbbf.api.planning import Plans, describe, same_spaces
from sacbbf.envs.source import EnvLike, EnvSource, source_of
from sacbbf.envs.states import StateEnv, state_space
from sacbbf.errors import UsageError
from sacbbf.networks import Network
from sacbbf.policy import NetworkPolicy, choose_each, masks_for
from sacbbf.run.display import Display
from sacbbf.run.evaluate import ROWS, evaluate, plan_of
from sacbbf.run.loop import Training
from sacbbf.run.result import episode_line
from sacbbf.run.settings import RunConfig, Value, refuse_arguments
from sacbbf.run.stop import Stop, ending_cleanly
from sacbbf.run.torch_setup import torch_set_up
from sacbbf.run.zoo import find_run
from sacbbf.seeding import numpy_generator

ARGUMENTS = ("env", "size", "seed", "device", "settings", "verbose", "tensorboard_log")  # of a new agent


class Agent:
    """An agent on one environment. Its subclasses are the published ones."""

    name: ClassVar[AgentName]
    source: EnvSource
    """Where its environments come from; `agent.source.description` says what evaluation plays on."""

    def __init__(
        self,
        env: EnvLike,
        *more: Never,
        size: str | None = None,
        seed: int = 0,
        device: str = "auto",
        settings: Mapping[str, Value] | None = None,
        verbose: int = 0,
        tensorboard_log: str | Path | None = None,
        **unknown: Never,
    ) -> None:
        """Describe an agent; no network is built before it learns or plays.

        `env` is a name (an Atari game: Pong, one of MinAtar's, a Gymnasium id), a gymnasium.Env with all its wrappers,
        or a function that makes one. An object is trained itself; evaluation plays on a copy of it, wrappers and all,
        where Gymnasium can make one, else on the object between episodes: `repr(agent)` says which.

        `size` is paper, laptop or tiny, by default the one that fits. `settings` go by the names that flags of
        `sacbbf train` have: {"replay_ratio": 2, "loss.variance_reduction": False}; "steps" announces the steps in all
        that schedules stretch over. `verbose` is 0, 1 or 2; `tensorboard_log` is a folder for TensorBoard's files.
        Other arguments are refused.
        """
        refuse_arguments(type(self).__name__, ARGUMENTS, (env, *more), unknown)
        given = {**(settings or {}), **({"size": size} if size is not None else {})}
        log = Log(verbose, tensorboard_log)
        plans, source = Plans.of(env, given, self.name, seed, device)
        self._begin(plans, source, log)

    def _begin(
        self, plans: Plans, source: EnvSource, log: Log, training: Training | None = None, loaded: Network | None = None
    ) -> None:
        self._plans, self.source, self._log = plans, source, log
        self._training, self._loaded, self._loaded_masked = training, loaded, False
        self._log.game = source.spec.game
        self.metrics: dict[str, float] = {}
        self._observing = Observing(source.spec, self.config.stack, source.raw)
        self._generator = numpy_generator(self.config.seed, "predict")
        if log.verbose:
            print(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({describe(self.config, self.source, self.steps)})"

    @property
    def config(self) -> RunConfig:
        """All its settings; `agent.config.settings` are those of learner and networks."""
        return self._plans.config

    # --- learning -----------------------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Environment steps that it has learned from, in all calls of `learn`."""
        return 0 if self._training is None else self._training.step

    @property
    def num_timesteps(self) -> int:
        """Environment steps since its schedules began: those of the last `learn(..., reset_num_timesteps=True)` on."""
        return max(0, self.steps - self.config.horizon.start)

    def learn(
        self,
        total_timesteps: int | None = None,
        callback: CallbackLike | Iterable[CallbackLike] | None = None,
        *,
        reset_num_timesteps: bool = False,
        tb_log_name: str | None = None,
        progress_bar: bool = False,
        eval_every: int = 0,
        eval_episodes: int | None = None,
    ) -> Self:
        """Learn from `total_timesteps` MORE environment steps, and return the agent.

        The first call announces the number that schedules (n, gamma, beta, epsilon, resets) stretch over, unless the
        setting "steps" has announced it; without a number it is the size's, and later what is left of it. Steps beyond
        it go on with the schedules' end values. With `reset_num_timesteps` schedules begin anew, over the steps of this
        call, resets included; networks, optimiser and replay stay, and `steps` counts on.

        `callback` is a Callback, a function that is called after each step, or a list of such; one that returns False
        ends the learning, and a further call goes on. `eval_episodes` (10) episodes are played every `eval_every`
        steps. An environment that was handed in as an object is given back: the episode in progress counts as cut
        off. Ctrl-C ends the step in progress before it is raised: the agent stays whole, and learning can go on.
        """
        check_at_least("eval_every", eval_every, 0)
        check_at_least("eval_episodes", 10 if eval_episodes is None else eval_episodes, 1)
        if eval_episodes is not None and not eval_every:
            raise UsageError(f"eval_episodes = {eval_episodes}: goes with eval_every, which says how often")
        listener = one_callback(callback)
        if eval_every:
            listener = one_callback([listener, Evaluating(eval_every, eval_episodes or 10, listener)])
        self._log.check(tb_log_name)
        target = self._plan(total_timesteps, reset_num_timesteps)
        training = self._built()
        self._log.begin(self.name, tb_log_name, reset_num_timesteps)
        stop, display = Stop(), Display(Console(quiet=not progress_bar), self.source.spec.game)
        with self._log, display, torch_set_up(self.config), ending_cleanly(stop, [signal.SIGINT]):
            display.begin("learning", target, training.step)
            going = True
            try:
                while going and training.step < target and not stop.interrupted:
                    going = self._advance(training, target, listener, display)
            finally:
                if self.source.given is not None:
                    training.cut_off()
        if stop.interrupted:
            raise KeyboardInterrupt
        return self

    def _plan(self, steps: int | None, anew: bool) -> int:
        """Make the plans for more steps, and return how many there are in all."""
        before = self.config
        target = self._plans.more(steps, self.steps, self.source.spec, anew)
        if self._training is None or self.config == before:
            return target
        if self._training.step == 0 and self._plans.given is not None:  # it has only played: it is built anew
            self._training.close()
            self._training = None
        else:
            self._training.replan(self.config)
        return target

    def _built(self) -> Training:
        """Return the training, built at its first use."""
        if self._training is None:
            if self._plans.sha256:
                self._plans.config = self._plans.tuned(None, self.source.spec)
            with torch_set_up(self.config):
                self._training = Training(self.config, make=self.source.make, initial=self._loaded)
            if self.source.given is not None:
                self._training.cut_off()
        return self._training

    def _advance(self, training: Training, target: int, listener: Callback, display: Display) -> bool:
        """Do one step and tell of it; returns whether to go on."""
        measure = (training.step + 1) % self.config.log_every == 0
        outcome = training.advance(measure)
        self.metrics = outcome.metrics or self.metrics
        if outcome.metrics:
            self._log.add("metrics", {"step": training.step, **outcome.metrics})
        if outcome.episode is not None:
            display.episode(outcome.episode.score)
            self._log.add("episodes", episode_line(outcome.episode, training.step))
        if measure:
            self._log.progress(training.step, target, self.metrics)
        going = listener.on_step(self) is not False
        if outcome.episode is not None:
            going &= listener.on_episode(self, outcome.episode) is not False
        display.advance()
        return going

    def note_evaluation(self, found: Evaluation) -> None:
        """Tell TensorBoard and, if `verbose`, the terminal of an evaluation, as one's own callback may make it."""
        self._log.add("evaluations", {"step": self.steps, **found.summary.line()})

    def log(self, **values: float) -> None:
        """Tell TensorBoard of numbers of one's own, from a callback while the agent learns."""
        self._log.add("metrics", {"step": self.steps, **values})

    def set_env(self, env: EnvLike) -> None:
        """Go on in another environment of the same frames and actions; the episode in progress is cut off.

        Networks, optimiser and replay stay.
        """
        source = source_of(env, self.config.environment)
        same_spaces(self.source.spec, source.spec)
        config = replace(self.config, env=source.name)
        if self._training is not None:
            self._training.set_env(source.make(), config)
        self._plans.config = config
        self.source, self._observing = source, Observing(source.spec, config.stack, source.raw)

    # --- playing ------------------------------------------------------------------------------------------------

    @property
    def network(self) -> Network:
        """The network that acts; one that has learned nothing is freshly drawn."""
        if self._training is None and self._loaded is not None:
            return self._loaded
        return self._built().learner.actor

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """What its environment shows; of an Atari game, the states of `make_env`."""
        raw = self.source.raw
        return state_space(self.source.spec, self.config.stack) if raw is None else raw.observation_space

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """The actions that its environment takes and `predict` returns."""
        raw = self.source.raw
        return gymnasium.spaces.Discrete(self.source.spec.num_actions) if raw is None else raw.action_space

    def predict(
        self,
        observation: npt.ArrayLike,
        state: Any = None,
        episode_start: npt.ArrayLike | None = None,
        deterministic: bool = False,
        action_masks: npt.ArrayLike | None = None,
    ) -> tuple[npt.NDArray[Any], Any]:
        """Return actions of the environment for one observation or a batch of them, and the next `state`.

        Observations are the environment's own, or states as `make_env` of this agent shows them; where both have one
        shape and dtype, they are taken for states. An agent that sees several frames at a time needs those before a raw
        one: say `episode_start` (one for each) at an episode's first, and hand in the `state` that came back with each
        further one. `state` passes through otherwise. Actions are drawn from the policy, or the most likely ones if
        `deterministic`. `action_masks` (A,), or (N, A) for a batch, are true for the legal actions; they must be given
        where the environment has illegal ones. This is what Stable-Baselines3's `evaluate_policy` calls.
        """
        seen = self._observing.read(observation, state, episode_start)
        masks = masks_for(len(seen.states), self.source.spec.num_actions, action_masks, self.masked)
        with torch_set_up(self.config):
            logits = self._policy().logits(seen.states, masks)
        epsilon = 0.0 if deterministic else self.config.settings.acting.epsilon_eval
        numbers = choose_each(logits, self._generator, deterministic, epsilon, masks)
        to_action = int if self.source.raw is None else self.source.raw.to_action
        actions = np.array([to_action(int(number)) for number in numbers])
        return (actions if seen.batched else np.asarray(actions[0])), seen.memory

    @property
    def masked(self) -> bool:
        """Whether its environment has illegal actions, and tells the legal ones with every state."""
        if self._training is None and self._loaded is not None:
            return self._loaded_masked
        return self._built().mask is not None

    def _policy(self) -> NetworkPolicy:
        return NetworkPolicy(self.network, torch.device(self.config.device), ROWS)

    def make_env(self) -> StateEnv:
        """Return this agent's environment as Gymnasium has them, showing the states that the agent sees."""
        self._give_way(self.source)
        return StateEnv(self.source.make_for_play(), stack=self.config.stack)

    def evaluate(
        self, episodes: int = 100, *, greedy: bool = False, seed: int | None = None, env: EnvLike | None = None
    ) -> Evaluation:
        """Play whole episodes, in its environment or in `env`, and return their scores.

        Learning is not disturbed, except where `source.shared` says that there is one environment only: then the
        training episode in progress is cut off.
        """
        if seed is not None and seed < 0:
            raise UsageError(f"seed = {seed}: must be at least 0")
        source = self.source if env is None else source_of(env, self.config.environment)
        same_spaces(self.source.spec, source.spec)
        parallel = source.parallel(self.config.eval.parallel)
        plan = plan_of(self.config, episodes, seed=seed, greedy=greedy, parallel=parallel)
        policy = self._policy()
        self._give_way(source)
        with torch_set_up(self.config):
            return Evaluation.of(tuple(record.score for record in evaluate(policy, source.make_for_play, plan)))

    def _give_way(self, source: EnvSource) -> None:
        """Leave the episode in progress if the object of training itself is looked at or played by others."""
        mine = source.given is not None and source.given is self.source.given
        if self._training is not None and mine and (source.shared or source is not self.source):
            self._training.cut_off()

    # --- keeping ------------------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, replay: bool = False) -> Path:
        """Write configuration and policy into a folder, which `load` and `sacbbf evaluate` take.

        With `replay` everything that learning needs to go on exactly is written too: replay, all networks, optimiser,
        generators, and the episode in progress. Then `sacbbf resume` takes the folder as well.
        """
        training = self._built() if replay else None
        return write_agent(Path(path), self.config, self.source, self.network, self.masked, training)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        env: EnvLike | None = None,
        device: str = "auto",
        replay: bool = True,
        trust: bool = False,
        verbose: int = 0,
        tensorboard_log: str | Path | None = None,
    ) -> Self:
        """Return the agent that was saved in a folder, or that a run directory or `zoo:NAME` holds.

        Nothing in it is executed.

        What was kept for learning is taken up, and `learn` goes on exactly as if there had been no stop. Without it, or
        if not `replay`, the networks that act are all there is: `learn` then fine-tunes them, with a new optimiser and
        replay, and without resets, which would draw them anew. `env` is another environment of the same frames and
        actions, or that of the agent where it goes by no name; the episode in progress is repeated in its own alone.
        Modules that the folder names are imported if they are installed or imported already, or with `trust`.
        """
        folder = find_run(Path(path)).path
        stored = stored_config(folder)
        kinds: list[type[Self]] = cls.__subclasses__() if cls is Agent else [cls]
        kind = next((kind for kind in kinds if kind.name == stored.agent), None)
        if kind is None:
            names = ", ".join(kind.name for kind in kinds)
            raise UsageError(f"{path} holds the agent {stored.agent!r}: must be {names}")
        log = Log(verbose, tensorboard_log)
        agent = kind.__new__(kind)
        agent._take(read_agent(folder, stored, env, device, replay, trust), log)
        return agent

    def _take(self, kept: Kept, log: Log) -> None:
        self._begin(Plans(kept.config, sha256=kept.sha256), kept.source, log, kept.training, kept.network)
        self._loaded_masked = kept.masked
