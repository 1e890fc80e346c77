"""An environment as Gymnasium has them, whose observations are the states that an agent of this package sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from sacbbf.envs.base import EnvError, Environment, EnvSpec
from sacbbf.envs.make import EnvSettings, make_env
from sacbbf.envs.raw import raw_side
from sacbbf.envs.stack import FrameStack, state_shape


def state_space(spec: EnvSpec, stack: int) -> gymnasium.spaces.Box:
    """Return the space of states: stacked frames (stack * C, H, W) or (D,); booleans as uint8 of 0 and 1."""
    shape = state_shape(spec.frame_shape, stack)
    kind = np.dtype(np.uint8) if spec.frame_dtype == np.bool_ else spec.frame_dtype
    low, high = {"b": (0, 1), "u": (0, 255)}.get(spec.frame_dtype.kind, (-np.inf, np.inf))
    return gymnasium.spaces.Box(low, high, shape, kind.type)


class StateEnv(gymnasium.Env[npt.NDArray[Any], int]):
    """Whole games with unclipped rewards; observations are stacked frames (stack * C, H, W), or vectors (D,).

    Actions are those of the raw environment, in its own numbers. Grids of booleans are shown as uint8 of 0 and 1, which
    more libraries know. `info["life_lost"]` says that a life was lost, which does not end the episode, and
    `info["action_mask"]` which actions are legal, where some are not.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own form

    def __init__(
        self, env: str | Environment, *, stack: int | None = None, settings: EnvSettings | None = None
    ) -> None:
        """Show an environment, by name or as `make_env` has made it; `settings` are for one that goes by name."""
        self.env = make_env(env, settings=settings or EnvSettings()) if isinstance(env, str) else env
        if settings is not None and self.env is env:
            raise EnvError("settings: must be left out where an environment is given that is made already")
        spec = self.env.spec
        self.frames = FrameStack.of(spec, stack)
        self.observation_space = state_space(spec, spec.stack if stack is None else stack)
        raw = raw_side(self.env)
        actions: gymnasium.spaces.Space[Any] = gymnasium.spaces.Discrete(spec.num_actions)
        self.action_space = actions if raw is None else raw.action_space
        self._to_number: Callable[[Any], int] = int if raw is None else raw.to_number

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[Any], dict[str, Any]]:
        """Begin an episode; without a seed it is drawn from the last one given."""
        super().reset(seed=seed)
        number = seed if seed is not None else int(self.np_random.integers(2**31 - 1))
        return self._shown(self.frames.begin(self.env.reset(number))), self._legal()

    def step(self, action: int) -> tuple[npt.NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Take an action of the action space, which is the raw environment's own."""
        step = self.env.step(self._to_number(action))
        state = self.frames.observe(step)
        info = {"life_lost": step.life_lost, **({} if step.over else self._legal())}
        return self._shown(state), step.reward, step.terminated, step.truncated, info

    def close(self) -> None:
        """Give the environment back."""
        self.env.close()

    def _legal(self) -> dict[str, Any]:
        return {} if self.env.mask is None else {"action_mask": self.env.mask}

    def _shown(self, state: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return state.astype(self.observation_space.dtype, copy=False)
