"""An environment as Gymnasium has them, whose observations are the states that an agent of this package sees."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from sacbbf.envs.make import EnvSettings, make_env
from sacbbf.envs.stack import FrameStack, state_shape


class StateEnv(gymnasium.Env[npt.NDArray[Any], int]):
    """Whole games with unclipped rewards; observations are stacked frames (stack * C, H, W), or vectors (D,).

    Grids of booleans are shown as uint8 of 0 and 1, which more libraries know. `info["life_lost"]` says that a life
    was lost, which does not end the episode, and `info["action_mask"]` which actions are legal, where some are not.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own form

    def __init__(self, env: str, *, stack: int | None = None, settings: EnvSettings | None = None) -> None:
        self.env = make_env(env, settings=settings or EnvSettings())
        spec = self.env.spec
        self.frames = FrameStack.of(spec, stack)
        shape = state_shape(spec.frame_shape, spec.stack if stack is None else stack)
        kind = np.dtype(np.uint8) if spec.frame_dtype == np.bool_ else spec.frame_dtype
        low, high = {"b": (0, 1), "u": (0, 255)}.get(spec.frame_dtype.kind, (-np.inf, np.inf))
        self.observation_space = gymnasium.spaces.Box(low, high, shape, kind.type)
        self.action_space = gymnasium.spaces.Discrete(spec.num_actions)  # type: ignore[assignment]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[Any], dict[str, Any]]:
        """Begin an episode; without a seed it is drawn from the last one given."""
        super().reset(seed=seed)
        number = seed if seed is not None else int(self.np_random.integers(2**31 - 1))
        return self._shown(self.frames.begin(self.env.reset(number))), self._legal()

    def step(self, action: int) -> tuple[npt.NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Take an action."""
        step = self.env.step(int(action))
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
