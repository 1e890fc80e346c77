"""One array of numbers and how it is seen: a vector, a grid, or a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from sacbbf.envs.actions import WRAPPERS
from sacbbf.envs.base import EnvError, Kind
from sacbbf.types import Frame

if TYPE_CHECKING:
    from sacbbf.envs.make import EnvSettings

BOOL, BYTE, FLOAT = np.dtype(np.bool_), np.dtype(np.uint8), np.dtype(np.float32)
SMALLEST = 20  # pixels of a picture's side; what is smaller is a grid of symbols
WIDEST = 1e6  # from the least to the largest value of a number that has bounds
_CHANNELS = (1, 3, 4)  # grey, RGB, and RGBA or four stacked frames

Look = Callable[[Any], Frame]
Bounds = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Part:
    """One array of an observation, and how it is seen."""

    kind: Kind
    shape: tuple[int, ...]  # of what `look` returns: (C, H, W), or (D,) for vectors
    dtype: np.dtype[Any]
    look: Look  # from a whole observation; always a copy
    low: Bounds  # (D,) of a vector's entries; not used of others
    high: Bounds  # (D,)
    channels: int = 0  # of a picture or grid as the environment has it
    note: str = ""

    @property
    def bounded(self) -> bool:
        """Whether a vector's entries lie between bounds that are of use: 256 steps must tell values apart."""
        return bool((self.high - self.low < WIDEST).all())

    def within(self, key: Any) -> Part:
        """Return the same part of an observation that holds this one at `key`."""
        look = self.look
        return replace(self, look=lambda observation: look(observation[key]))

    def to(self, dtype: np.dtype[Any]) -> Part:
        """Return the same with other numbers: as bytes what lies between its bounds is 0 to 255, as floats 0 to 1."""
        if dtype == self.dtype:
            return self
        look, low = self.look, self.low
        span = np.where(self.high > low, self.high - low, 1.0)

        def to_bytes(observation: Any) -> Frame:
            return np.rint(np.clip((look(observation) - low) / span, 0.0, 1.0) * 255.0).astype(np.uint8)

        def to_floats(observation: Any) -> Frame:
            found = look(observation)
            return found.astype(np.float32) / np.float32(255.0 if found.dtype == np.uint8 else 1.0)

        return replace(self, dtype=dtype, look=to_bytes if dtype == BYTE else to_floats)

    def flat(self) -> Part:
        """Return a grid as a vector of floats."""
        look, size = self.to(FLOAT).look, int(np.prod(self.shape))
        unknown = np.full(size, np.inf)
        return Part("vector", (size,), FLOAT, lambda observation: look(observation).reshape(-1), -unknown, unknown)

    def filling(self, size: tuple[int, ...]) -> Part:
        """Return a vector (D,) as planes (D, H, W) of one number each."""
        look, shape = self.look, (*self.shape, *size)
        return replace(self, shape=shape, look=lambda seen: np.broadcast_to(look(seen)[:, None, None], shape))


def part_of(space: spaces.Box, settings: EnvSettings, where: str) -> Part:
    """Return how the arrays of a Box are seen; EnvError, beginning with `where`, if they cannot be."""
    if space.dtype is None or space.dtype.kind not in "buif":
        raise EnvError(f"{where} of dtype {space.dtype}; arrays must hold numbers")
    if len(space.shape) > 3:
        raise EnvError(
            f"{where}; arrays have three dimensions at most. Leave stacking to --stack; "
            f"gymnasium.wrappers.ReshapeObservation or FlattenObservation makes fewer. {WRAPPERS}"
        )
    if len(space.shape) < 2:
        return _vector(space)
    height, width, channels = _sides(space.shape)
    scale = _scale(space, min(height, width), channels, settings)
    small = settings.pictures != "bytes" and _small(min(height, width), settings)
    bounds = np.zeros(channels), np.ones(channels)
    if scale is None:
        dtype = BOOL if space.dtype == BOOL else FLOAT
        return Part("grid", (channels, height, width), dtype, _planes(space.shape, dtype), *bounds, channels)
    look = _planes(space.shape, BYTE, scale)
    if small:
        if np.max(space.high) == 255 and space.dtype.kind in "ui":
            return Part("grid", (channels, height, width), FLOAT, _spread(look), *bounds, channels)
        return Part("grid", (channels, height, width), BYTE, look, *bounds, channels)
    most = settings.resize or max(height, width)
    tall, wide = min(height, most), min(width, most)
    if (tall, wide) != (height, width):
        look = _resized(look, tall, wide)
    note = _note(space, (height, width), (tall, wide))
    return Part("image", (channels, tall, wide), BYTE, look, *bounds, channels, note)


def _vector(space: spaces.Box) -> Part:
    """Numbers as they are; bytes, such as a console's memory, between 0 and 1, and booleans as they are."""
    size = int(np.prod(space.shape))  # 1 for a number that stands alone
    scale = 255.0 if space.dtype == BYTE else 1.0
    low, high = (np.asarray(bound, np.float64).reshape(-1) / scale for bound in (space.low, space.high))

    def look(observation: Any) -> Frame:
        return np.array(observation, dtype=np.float32).reshape(size) / np.float32(scale)

    if space.dtype == BOOL:
        return Part("vector", (size,), BOOL, lambda seen: np.array(seen, np.bool_).reshape(size), low, high)
    return Part("vector", (size,), FLOAT, look, low, high)


def _sides(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Height, width and channels of (H, W), (H, W, C) or (C, H, W)."""
    if len(shape) == 2:
        return shape[0], shape[1], 1
    return (shape[1], shape[2], shape[0]) if _channels_first(shape) else (shape[0], shape[1], shape[2])


def _channels_first(shape: tuple[int, ...]) -> bool:
    """Channels are taken to be last, unless only the first axis is as short as channels are."""
    return len(shape) == 3 and shape[0] in _CHANNELS and shape[-1] not in _CHANNELS


def _scale(space: spaces.Box, side: int, channels: int, settings: EnvSettings) -> float | None:
    """What makes bytes of a plane's numbers; None where they are no bytes but a map of booleans or of any numbers."""
    if settings.pictures == "bytes":
        return 1.0 if space.dtype == BYTE else None
    low, high = float(np.min(space.low)), float(np.max(space.high))
    kind = np.dtype(space.dtype).kind
    if kind in "ui":
        return float(255 // max(int(high), 1)) if low >= 0 and high <= 255 else None
    if kind != "f" or low != 0:
        return None
    if high == 255:
        return 1.0
    return 255.0 if high == 1 and channels in _CHANNELS and not _small(side, settings) else None


def _small(side: int, settings: EnvSettings) -> bool:
    """Whether a side is too short for a picture, or nothing is to be taken for one."""
    return side < SMALLEST or settings.pictures == "none"


def _note(space: spaces.Box, was: tuple[int, int], now: tuple[int, int]) -> str:
    """What is done to a picture that a person may not expect."""
    found = []
    if now != was:
        found.append(f"pictures of {was[0]}x{was[1]} are resized to {now[0]}x{now[1]} (--resize 0 keeps their size)")
    if space.dtype is not None and space.dtype.kind == "f":
        found.append("pictures of floats are kept as bytes, in 256 shades")
    return "; ".join(found)


def _planes(shape: tuple[int, ...], dtype: np.dtype[Any], scale: float = 1.0) -> Look:
    """(H, W), (H, W, C) or (C, H, W) -> (C, H, W), always a copy: environments may write over their own."""
    channels_first = _channels_first(shape)

    def look(observation: Any) -> Frame:
        planes = np.asarray(observation)
        if planes.shape != shape:
            raise ValueError(f"an observation has the shape {planes.shape}, its space {shape}")
        if planes.ndim == 2:
            planes = planes[np.newaxis]
        elif not channels_first:
            planes = planes.transpose(2, 0, 1)
        if dtype == BYTE and planes.dtype.kind == "f":
            planes = np.rint(planes * scale)
        elif scale != 1.0:
            planes = planes * int(scale)
        return np.array(planes, dtype=dtype, order="C")

    return look


def _spread(look: Look) -> Look:
    """The same grid as log2(1 + value) / 8, floats from 0 to 1.

    Symbols are numbered from 0, and a space that lets them reach 255 does not say how many there are. Divided by 255
    they would hardly differ for a network; so the first few are spread, and the order is kept.
    """

    def spread(observation: Any) -> Frame:
        return np.log2(1.0 + look(observation), dtype=np.float32) / np.float32(8.0)

    return spread


def _resized(look: Look, height: int, width: int) -> Look:
    """The same pictures, (C, H, W) uint8, shrunk by area."""
    import cv2  # only where it is needed: it is slow to load

    def shrink(observation: Any) -> Frame:
        planes = look(observation)
        return np.stack([cv2.resize(plane, (width, height), interpolation=cv2.INTER_AREA) for plane in planes])

    return shrink
