"""Action masks, checked: no illegal action in 100,000 steps, and learning beside the same game without masks.

    python experiments/masks.py [--steps 3000] [--seeds 0 1 2] [--check 100000]

TicTacToe of examples/masked_environment.py, against chance. With masks, agents learn, play between by all ways to
choose an action, and at last as often as `--check` steps in all take; an illegal action is an error. Without them, an
illegal move ends the game as lost, or does nothing and the next is asked for. Scores are means over episodes.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import torch

from sacbbf import SACBBF, Callback
from sacbbf.envs.make import make_env
from sacbbf.policy import NetworkPolicy, Policy, uniform_policy
from sacbbf.run.baselines import find_blind
from sacbbf.run.evaluate import ROWS, Plan, evaluate, plan_of

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from masked_environment import TicTacToe

CPU = torch.device("cpu")
POINTS, EPISODES = 4, 200  # of a learning curve: evaluations, and episodes of each
TAKEN: Counter[str] = Counter()  # steps by environment, and illegal actions among them


class Strict(TicTacToe):
    """With masks; an illegal action is an error."""

    def step(self, action: int, player: int = 0) -> Any:
        """Count steps of the agent, and refuse illegal ones."""
        TAKEN["steps"] += 1 - player
        if not self.action_masks()[action]:
            raise RuntimeError(f"illegal action {action} after {TAKEN['steps']} steps")
        return super().step(action, player)


class Unmasked(gymnasium.Env[Any, Any]):
    """Without masks: what an illegal action brings is said by a subclass."""

    observation_space, action_space = TicTacToe.observation_space, TicTacToe.action_space
    illegal: ClassVar[tuple[float, bool]]  # reward, and whether the game is over

    def __init__(self) -> None:
        self.game = TicTacToe()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin a game."""
        super().reset(seed=seed)
        return self.game.reset(seed=seed)

    def step(self, action: int) -> Any:
        """Place a cross where that is legal."""
        if self.game.action_masks()[action]:
            return self.game.step(action)
        reward, over = self.illegal
        return self.game.board.flatten(), reward, over, False, {}


class Loses(Unmasked):
    """An illegal action loses the game."""

    illegal = (-1.0, True)


class Nothing(Unmasked):
    """An illegal action does nothing, and takes a step."""

    illegal = (0.0, False)


WAYS = {"masks": Strict, "illegal loses": Loses, "illegal does nothing": Nothing}
for kind in WAYS.values():
    gymnasium.register(f"{kind.__name__}-v0", kind, max_episode_steps=50)


class Curve(Callback):
    """The means of an agent's evaluations."""

    def __init__(self) -> None:
        self.means: list[float] = []

    def on_evaluation(self, agent: Any, evaluation: Any) -> None:
        """Keep the mean."""
        self.means.append(evaluation.mean)


def learn(kind: type, steps: int, seed: int) -> tuple[SACBBF, list[float]]:
    """Train an agent; its curve, the end included."""
    curve = Curve()
    agent = SACBBF(f"{kind.__name__}-v0", size="tiny", seed=seed, device="cpu", settings={"threads": 1})
    agent.learn(steps, callback=curve, eval_every=steps // POINTS, eval_episodes=EPISODES)
    return agent, curve.means


def check(agent: SACBBF, wanted: int) -> None:
    """Play by every way to choose an action until `wanted` steps have been taken in all."""

    def make() -> Any:
        return make_env("Strict-v0")

    network, count = agent.network, 0
    plan = plan_of(agent.config, 500)
    mix, _ = find_blind(make, plan, 9, lambda: None)
    ways: dict[str, tuple[Policy, Callable[[Plan], Plan]]] = {
        "drawn": (NetworkPolicy(network, CPU, ROWS), lambda plan: plan),
        "greedy": (NetworkPolicy(network, CPU, ROWS), lambda plan: replace(plan, greedy=True)),
        "epsilon": (NetworkPolicy(network, CPU, ROWS), lambda plan: replace(plan, epsilon=0.5)),
        "critic": (NetworkPolicy(network, CPU, ROWS, by_critic=True), lambda plan: plan),
        "chance": (uniform_policy(9), lambda plan: plan),
        "blind": (mix.policy(9), lambda plan: plan),
    }
    scores: dict[str, list[float]] = {way: [] for way in ways}
    while TAKEN["steps"] < wanted:
        way = list(ways)[count % len(ways)]
        policy, changed = ways[way]
        found = evaluate(policy, make, changed(replace(plan, seed=1_000 + count)))
        scores[way] += [record.score for record in found]
        count += 1
    for way, values in scores.items():
        if values:
            print(f"{way:10s} {np.mean(values):6.3f} over {len(values)} episodes")
    print(f"{TAKEN['steps']:,} training and evaluation steps with masks, no illegal action")


def main() -> None:
    """Compare, check, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--check", type=int, default=100_000)
    args = parser.parse_args()
    torch.set_num_threads(1)
    agent = None
    for way, kind in WAYS.items():
        curves = []
        for seed in args.seeds:
            trained, means = learn(kind, args.steps, seed)
            agent = agent or trained
            curves.append(means)
            print(f"{way:22s} seed {seed}", *(f"{mean:6.3f}" for mean in means), flush=True)
        print(f"{way:22s} mean  ", *(f"{mean:6.3f}" for mean in np.mean(curves, axis=0)), flush=True)
    assert agent is not None
    check(agent, args.check)


if __name__ == "__main__":
    main()
