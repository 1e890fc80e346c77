"""Episodes to look at: the game's picture beside what the agent thinks of each action and of the state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt
import torch

from sacbbf.envs.base import Environment, NoPictures, Pixels
from sacbbf.envs.make import make_env
from sacbbf.envs.stack import FrameStack
from sacbbf.learner.augment import to_float
from sacbbf.learner.losses import expected_value, support
from sacbbf.networks import Network, TwinNetwork
from sacbbf.policy import Logits, NetworkPolicy, choose
from sacbbf.run.devices import resolve_device
from sacbbf.run.evaluate import ROWS, Plan, plan_of
from sacbbf.run.policy_file import load_policy
from sacbbf.run.records import RunDirectory
from sacbbf.run.settings import RunConfig
from sacbbf.seeding import episode_seed, numpy_generator
from sacbbf.types import BoolArray

HEIGHT = 480  # pixels of a picture
PANEL = 360  # pixels; width of what stands beside the game
PAPER, INK, FAINT, CHOSEN = (24, 26, 30), (235, 235, 235), (150, 157, 168), (0, 158, 115)
FONT = cv2.FONT_HERSHEY_SIMPLEX
VALUES = 120  # steps of the value's curve


@dataclass(frozen=True)
class Moment:
    """One step of an episode as it is seen and judged before the action is taken."""

    screen: Pixels | None  # None where the environment draws no pictures
    probabilities: npt.NDArray[np.float64]  # (A,)
    action: int
    value: float  # of the state under the policy, in units of learning rewards
    score: float  # so far
    step: int
    mask: BoolArray | None = None  # (A,) the legal actions, if the environment tells them
    over: bool = False  # whether the episode has ended


class Judge:
    """What a network says of a state: its policy, and the value that its Q gives that policy."""

    def __init__(self, network: Network, v_max: float, device: torch.device) -> None:
        self.network, self.v_max, self.device = network, v_max, device
        self.policy = NetworkPolicy(network, device, ROWS)

    def logits(self, state: npt.NDArray[np.generic], mask: BoolArray | None = None) -> Logits:
        """Return the policy's logits (A,) in a state, of illegal actions minus infinity."""
        found: Logits = self.policy.logits(state[None], None if mask is None else mask[None])[0]
        return found

    @torch.inference_mode()
    def values(self, state: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
        """Return Q (A,) in a state, in units of learning rewards."""
        obs = to_float(torch.from_numpy(state[None]).to(self.device))
        network = self.network
        if isinstance(network, TwinNetwork):
            q = network.q_values(obs).amin(0)[0]
        else:
            atoms = support(network.num_atoms, self.v_max, self.device)
            q = expected_value(network.q_logits(network.q_features(network.encode(obs))), atoms)[0]
        found: npt.NDArray[np.float64] = q.double().cpu().numpy() * network.unit
        return found


def softmax(logits: Logits) -> npt.NDArray[np.float64]:
    """Return the probabilities (A,) that logits (A,) stand for."""
    weights = np.exp(logits.astype(np.float64) - logits.max())
    found: npt.NDArray[np.float64] = weights / weights.sum()
    return found


def filmed(config: RunConfig) -> tuple[Environment, bool]:
    """Return a run's environment to be filmed, and whether it draws pictures; MissingExtra where it lacks a package."""
    try:
        env = make_env(config.env, settings=config.environment, render=True)
        env.reset(0)
        env.render()  # what is missing shows here at the latest
        return env, True
    except NoPictures:
        return make_env(config.env, settings=config.environment), False


def play(judge: Judge, env: Environment, plan: Plan, number: int = 0, draws: bool = True) -> Iterator[Moment]:
    """Play episode `number` of a plan, the same that an evaluation plays, and yield every moment of it.

    The last shows how it ended, with what was thought before the last action. Pictures are there if it `draws` any.
    """
    frames = FrameStack.of(env.spec, plan.stack)
    generator = numpy_generator(plan.seed, plan.phase, "actions", number)
    state = frames.begin(env.reset(episode_seed(plan.seed, plan.phase, number)))
    score, count, over = 0.0, 0, False
    while not over:
        mask = env.mask
        logits = judge.logits(state, mask)
        probabilities = softmax(logits)
        action = choose(logits, generator, plan.greedy, plan.epsilon, mask)
        value = float(probabilities @ judge.values(state))
        yield Moment(env.render() if draws else None, probabilities, action, value, score, count, mask)
        step = env.step(action)
        score, count, over = score + step.reward, count + 1, step.over
        if not over:
            state = frames.observe(step)
    yield Moment(env.render() if draws else None, probabilities, action, value, score, count, mask, over=True)


@dataclass(frozen=True)
class Wish:
    """Which episodes are wanted."""

    episode: int = 0  # number of the first; 0 is the first that an evaluation with the same seed plays
    episodes: int = 1
    seed: int | None = None  # root of its seed; None: the run's own
    greedy: bool = False
    max_steps: int = 3_000  # of each
    device: str = "auto"


class Film:
    """Episodes of a run's policy, picture by picture."""

    def __init__(
        self, run: RunDirectory, config: RunConfig, wish: Wish, on_moment: Callable[[Moment], object] = lambda one: None
    ) -> None:
        self.run, self.config, self.wish, self.on_moment = run, config, wish, on_moment
        self.ends: dict[int, Moment] = {}  # the last moment of each episode, by its number

    @property
    def rate(self) -> float:
        """Pictures a second that suit the game: an Atari step is four of sixty frames."""
        return 15.0 if self.config.stack > 1 else 10.0

    def pictures(self) -> Iterator[Pixels]:
        """Play, and draw every moment."""
        config, wish = self.config, self.wish
        device = torch.device(resolve_device(wish.device))
        plan = plan_of(config, 1, seed=wish.seed, greedy=wish.greedy)
        env, draws = filmed(config)
        try:  # the policy second: the environment's modules may register its encoder
            judge = Judge(load_policy(self.run.policy, device), config.settings.network.v_max, device)
            for number in range(wish.episode, wish.episode + wish.episodes):
                painter = Painter(config, env.spec.action_names, number)
                for moment in play(judge, env, plan, number, draws):
                    self.ends[number] = moment
                    self.on_moment(moment)
                    yield painter.draw(moment)
                    if moment.step >= wish.max_steps:
                        break
        finally:
            env.close()


class Painter:
    """Draws moments as pictures (HEIGHT, W, 3) of one size."""

    def __init__(self, config: RunConfig, action_names: tuple[str, ...], episode: int = 0) -> None:
        self.title = f"{config.env}: {config.agent}, episode {episode}"
        self.names = action_names
        self.history: list[float] = []

    def draw(self, moment: Moment) -> Pixels:
        """Return the game's screen, if there is one, and the panel; sides are even, as video formats want them."""
        self.history = [*self.history, moment.value][-VALUES:]
        if moment.screen is None:
            return self._panel(moment)
        height, width = moment.screen.shape[:2]
        wide = max(2, round(width * HEIGHT / height) // 2 * 2)
        screen = cv2.resize(moment.screen, (wide, HEIGHT), interpolation=cv2.INTER_NEAREST)
        return np.ascontiguousarray(np.concatenate([screen, self._panel(moment)], axis=1), dtype=np.uint8)

    def _panel(self, moment: Moment) -> Pixels:
        panel: Pixels = np.full((HEIGHT, PANEL, 3), PAPER, np.uint8)
        _write(panel, self.title, (12, 24), INK)
        _write(panel, f"step {moment.step:,}   score {moment.score:g}", (12, 46), INK)
        _write(panel, f"value {moment.value:.2f}", (12, 68), INK)
        self._curve(panel, top=76, height=54)
        _write(panel, "action probabilities", (12, 152), FAINT)
        row = min(24, (HEIGHT - 170) // max(1, len(self.names)))
        for number, (name, share) in enumerate(zip(self.names, moment.probabilities, strict=True)):
            top = 160 + row * number
            scale = 0.42 if row > 18 else 0.34
            if moment.mask is not None and not moment.mask[number]:
                _write(panel, name[:16], (12, top + row - 5), FAINT, scale)
                _write(panel, "illegal", (150, top + row - 5), FAINT, scale)
                continue
            colour = CHOSEN if number == moment.action else FAINT
            left, right = 150, 150 + round(share * (PANEL - 210))
            cv2.rectangle(panel, (left, top + 2), (max(left + 1, right), top + row - 3), colour, -1)
            _write(panel, name[:16], (12, top + row - 5), INK if number == moment.action else FAINT, scale)
            _write(panel, f"{share:.2f}", (PANEL - 52, top + row - 5), INK, scale)
        return panel

    def _curve(self, panel: Pixels, top: int, height: int) -> None:
        """The value over the last steps."""
        if len(self.history) < 2:
            return
        low, high = min(self.history), max(self.history)
        ys = top + height - (np.array(self.history) - low) / max(high - low, 1e-6) * height
        xs = 12 + np.arange(len(ys)) * (PANEL - 24) / (VALUES - 1)
        points = np.stack([xs, ys], axis=1).round().astype(np.int32)
        cv2.polylines(panel, [points[:, None]], False, CHOSEN, 1, cv2.LINE_AA)


def _write(panel: Pixels, text: str, at: tuple[int, int], colour: tuple[int, int, int], scale: float = 0.45) -> None:
    cv2.putText(panel, text, at, FONT, scale, colour, 1, cv2.LINE_AA)
