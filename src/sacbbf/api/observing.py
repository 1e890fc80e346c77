"""From what `predict` is shown to the states that a network takes: an agent's own states, or raw observations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from gymnasium.vector.utils import batch_space, iterate

from sacbbf.envs.base import EnvSpec
from sacbbf.envs.raw import RawSide
from sacbbf.envs.stack import state_shape
from sacbbf.envs.states import state_space
from sacbbf.errors import UsageError
from sacbbf.types import Frame


@dataclass(frozen=True)
class Seen:
    """Observations as states."""

    states: Frame  # (B, stack * C, ...), of the frames' dtype
    batched: bool  # whether they came as a batch
    memory: Any  # what is to be handed in with the next observations


@dataclass(frozen=True)
class _Reading:
    """One way to understand an array: as states or raw observations, one or a batch of them."""

    raw: bool
    batched: bool


class Observing:
    """Reads observations of one environment for an agent that sees `stack` frames at a time."""

    def __init__(self, spec: EnvSpec, stack: int, raw: RawSide | None) -> None:
        self.spec, self.stack, self.raw = spec, stack, raw
        self.shape = state_shape(spec.frame_shape, stack)
        self.shown = state_space(spec, stack).dtype  # of states as make_env shows them
        self.raw_shape = None if raw is None else raw.observation_space.shape

    def read(self, observation: Any, memory: Any, episode_start: Any) -> Seen:
        """Return the states that observations stand for; UsageError if they cannot be known.

        A raw frame of an agent that sees several needs those before it, which are kept in `memory`; `episode_start`
        says where there are none.
        """
        starts = None if episode_start is None else np.asarray(episode_start, np.bool_)
        if self.raw is not None and self.raw_shape is None and isinstance(observation, dict | tuple):
            several, batched = self._parts(observation)
            return self._raw(several, batched, memory, starts)
        array = np.asarray(observation)
        reading = self._reading(array, starts)
        batch = array if reading.batched else array[np.newaxis]
        if reading.raw:
            return self._raw(batch, reading.batched, memory, starts)
        return Seen(batch.astype(self.spec.frame_dtype, copy=False), reading.batched, memory)

    def _raw(self, batch: Iterable[Any], batched: bool, memory: Any, starts: npt.NDArray[np.bool_] | None) -> Seen:
        """Return the states of raw observations, with the frames before them where an agent sees several."""
        frames = np.stack([cast(RawSide, self.raw).to_frame(one) for one in batch])  # (B, C, ...)
        if self.stack == 1:
            return Seen(frames, batched, memory)
        states = self._push(frames, None if memory is None else np.asarray(memory), starts, batched)
        return Seen(states, batched, states if batched else states[0])

    def _parts(self, observation: Any) -> tuple[list[Any], bool]:
        """Return single ones of raw observations made of parts (dictionaries), and whether they came as a batch.

        A batch has one array for each part, as vector environments show it.
        """
        space = cast(RawSide, self.raw).observation_space
        if space.contains(observation):
            return [observation], False
        part = observation
        while isinstance(part, dict | tuple) and part:
            part = next(iter(part.values())) if isinstance(part, dict) else part[0]
        try:
            found = list(iterate(batch_space(space, len(part)), observation))
        except Exception as error:  # of whatever kind the parts cannot be taken apart
            raise UsageError(f"observation: is not one of {space}, nor a batch of such ({error})") from error
        return found, True

    def _reading(self, array: npt.NDArray[Any], starts: npt.NDArray[np.bool_] | None) -> _Reading:
        """Return how to understand an array: what fits `episode_start`, then the dtype; else as states, as one."""
        fitting = [_Reading(raw, batched) for raw, batched in product((False, True), (False, True))]
        fitting = [reading for reading in fitting if self._fits(array.shape, reading)]
        if not fitting:
            raise UsageError(self._refusal(array.shape))
        counted = starts is not None and starts.ndim == 1
        raw_dtype = None if self.raw is None else self.raw.observation_space.dtype
        told_apart = raw_dtype != self.shown and array.dtype in (raw_dtype, self.shown)

        def misfit(reading: _Reading) -> tuple[bool, bool]:
            wrong_count = counted and not reading.batched
            return wrong_count, told_apart and reading.raw != (array.dtype == raw_dtype)

        return min(fitting, key=misfit)

    def _fits(self, shape: tuple[int, ...], reading: _Reading) -> bool:
        wanted = self.raw_shape if reading.raw else self.shape
        if wanted is None or (reading.batched and not shape):
            return False
        return (shape[1:] if reading.batched else shape) == wanted

    def _push(self, frames: Frame, memory: Frame | None, starts: npt.NDArray[np.bool_] | None, batched: bool) -> Frame:
        """Return states (B, stack * C, ...): frames (B, C, ...) behind those that were seen before."""
        begun = np.broadcast_to(np.bool_(False) if starts is None else starts.reshape(-1), len(frames))
        whole = (len(frames), *self.shape)
        if memory is None and begun.all():
            memory = np.zeros(whole if batched else whole[1:], self.spec.frame_dtype)
        if memory is None:
            raise UsageError(
                f"observation: this agent sees {self.stack} frames at a time, and a raw one needs those before it: "
                "give episode_start=True with the first of an episode, and with each further one the `state` that "
                "predict returned before; or take observations from make_env(), which are stacked already"
            )
        if memory.shape != (whole if batched else whole[1:]) or memory.dtype != self.spec.frame_dtype:
            raise UsageError(
                f"state: {memory.dtype} of shape {memory.shape} is not what predict returned with the frames before"
            )
        past = np.where(begun.reshape(-1, *[1] * len(self.shape)), 0, memory.reshape(whole))
        states = np.concatenate([past[:, frames.shape[1] :], frames], axis=1)
        return states.astype(self.spec.frame_dtype, copy=False)

    def _refusal(self, shape: tuple[int, ...]) -> str:
        words = f"observation has shape {shape}: must be {self.shape}, as make_env() shows states"
        if self.raw is not None and self.raw_shape != self.shape:
            words += f", or one of {self.raw.observation_space}, as {self.spec.id} shows them"
        if self.spec.game is not None:
            words += " (an Atari game is played under the Atari 100K protocol, so raw screens cannot be used)"
        return words + ", or a batch of such"
