"""The state an agent sees: its last few frames, as acting, evaluation and the replay all stack them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sacbbf.envs.base import EnvSpec, check_at_least
from sacbbf.types import Frame, Step


def state_shape(frame_shape: tuple[int, ...], stack: int) -> tuple[int, ...]:
    """The shape (stack * C, ...) of a state of `stack` frames (C, ...)."""
    return (stack * frame_shape[0], *frame_shape[1:])


class FrameStack:
    """The last `stack` frames along the first axis, oldest first, zeros before the start or a lost life."""

    def __init__(self, frame_shape: tuple[int, ...], frame_dtype: npt.DTypeLike, stack: int) -> None:
        check_at_least("stack", stack, 1)
        self._channels = frame_shape[0]
        self._frame_shape = tuple(frame_shape)
        self._state: npt.NDArray[Any] = np.zeros(state_shape(frame_shape, stack), frame_dtype)

    @classmethod
    def of(cls, spec: EnvSpec, stack: int | None = None) -> FrameStack:
        """A stack for an environment's frames, of its own number of frames unless another is given."""
        return cls(spec.frame_shape, spec.frame_dtype, spec.stack if stack is None else stack)

    def reset(self) -> None:
        """Forget every frame."""
        self._state[:] = 0

    def push(self, frame: Frame) -> Frame:
        """Add the newest frame, (C, ...); the state, (stack * C, ...), which stays the caller's own."""
        if frame.shape != self._frame_shape:
            raise ValueError(f"a frame must have the shape {self._frame_shape}, got {frame.shape}")
        self._state[: -self._channels] = self._state[self._channels :]
        self._state[-self._channels :] = frame
        return self._state.copy()

    def begin(self, frame: Frame) -> Frame:
        """The state at an episode's first frame."""
        self.reset()
        return self.push(frame)

    def observe(self, step: Step) -> Frame:
        """The state after a step; after a lost life it is as new as at an episode's start."""
        if step.life_lost:
            self.reset()
        return self.push(step.frame)
