"""How the observations of a Gymnasium space become frames: numbers in a vector, planes of a grid, or a picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from sacbbf.envs import boxes
from sacbbf.envs.actions import WRAPPERS
from sacbbf.envs.base import EnvError, Kind
from sacbbf.envs.boxes import BOOL, FLOAT, Part
from sacbbf.types import Frame

if TYPE_CHECKING:
    from sacbbf.envs.make import EnvSettings

LONGEST = 4_096  # entries of a one-hot vector
BESIDE = 64  # numbers beside a picture or a grid, each of which becomes a plane
_NO_ARRAY = "has no fixed shape, as a network needs it"
_LEAVE_OUT = (
    "gymnasium.wrappers.FilterObservation leaves out entries of a Dict, gymnasium.wrappers.TransformObservation makes "
    "arrays of them"
)


@dataclass(frozen=True)
class View:
    """How an environment's observations are seen."""

    kind: Kind
    shape: tuple[int, ...]  # of a frame: (C, H, W) or (D,)
    dtype: np.dtype[Any]
    stack: int  # frames of a state unless set otherwise
    note: str  # what a person should know of it, empty for nothing
    parts: tuple[Part, ...]

    def frame(self, observation: Any) -> Frame:
        """Return an observation as a frame of the shape and dtype: always a copy, as environments reuse their own."""
        looks = [part.look(observation) for part in self.parts]
        return looks[0] if len(looks) == 1 else np.concatenate(looks)


def view_of(space: spaces.Space[Any], name: str, settings: EnvSettings) -> View:
    """Return how a space's observations are seen; EnvError, with the reason, if they cannot be."""
    parts = tuple(_parts(space, settings, f"{name}: the observation space", ""))
    if not parts:
        raise EnvError(f"{name}: the observation space is {space}, which shows nothing")
    planes = [part for part in parts if part.kind != "vector"]
    vectors = [part for part in parts if part.kind == "vector"]
    if len(planes) > 1:
        planes, vectors = _several(planes, vectors, name)
    if not planes:
        return _vector_view(vectors)
    if not vectors:
        return _plane_view(planes, "")
    return _beside(planes, vectors, name)


def _parts(space: spaces.Space[Any], settings: EnvSettings, words: str, path: str) -> Iterator[Part]:
    """The arrays that a space is made of, in its own order; `path` says where in the whole space it stands."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        entries = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, inner in entries:
            for part in _parts(inner, settings, words, f"{path}[{key!r}]"):
                yield part.within(key)
        return
    where = f"{words}{path and f' at {path}'} is {space}"
    if isinstance(space, spaces.Box):
        yield boxes.part_of(space, settings, where)
    elif isinstance(space, spaces.Discrete):
        yield _one_hot([int(space.n)], [int(space.start)], where)
    elif isinstance(space, spaces.MultiDiscrete):
        yield _one_hot(space.nvec.reshape(-1).tolist(), space.start.reshape(-1).tolist(), where)
    elif isinstance(space, spaces.MultiBinary):
        yield boxes.part_of(_bits(space), settings, where)
    else:
        raise EnvError(f"{where}, which {_reason(space)}; {_LEAVE_OUT}. {WRAPPERS}")


def _bits(space: spaces.MultiBinary) -> spaces.Box:
    dtype: Any = np.bool_
    return spaces.Box(0, 1, space.shape, dtype)


def _reason(space: spaces.Space[Any]) -> str:
    known = {"Sequence": _NO_ARRAY, "Graph": _NO_ARRAY, "Text": "is text, not numbers", "OneOf": _NO_ARRAY}
    for parent in type(space).__mro__:
        if parent.__name__ in known:
            return known[parent.__name__]
    return "cannot be seen as numbers"


def _one_hot(sizes: list[int], starts: list[int], where: str) -> Part:
    """One entry for each value that each number can have, true for the value that it has."""
    total = sum(sizes)
    if total > LONGEST:
        raise EnvError(
            f"{where}: as a one-hot vector it has {total:,} entries, at most {LONGEST:,} can be seen; "
            f"gymnasium.wrappers.TransformObservation makes fewer numbers of it. {WRAPPERS}"
        )
    ends = np.cumsum(sizes)
    shift = ends - sizes - np.asarray(starts)  # from a value to its entry
    first, last = ends - sizes, ends

    def look(observation: Any) -> Frame:
        entries = np.asarray(observation).reshape(-1) + shift
        if entries.shape != first.shape or (entries < first).any() or (entries >= last).any():
            raise EnvError(f"{where}, and an observation is {observation!r}")
        found = np.zeros(total, np.bool_)
        found[entries] = True
        return found

    return Part("vector", (total,), BOOL, look, np.zeros(total), np.ones(total))


def _vector_view(parts: list[Part]) -> View:
    dtype = BOOL if all(part.dtype == BOOL for part in parts) else FLOAT
    length = sum(part.shape[0] for part in parts)
    return View("vector", (length,), dtype, 1, "", tuple(part.to(dtype) for part in parts))


def _several(planes: list[Part], vectors: list[Part], name: str) -> tuple[list[Part], list[Part]]:
    """Several pictures or grids: joined where they are of one size, else grids are laid out as vectors."""
    if len({(part.kind, part.shape[1:]) for part in planes}) == 1:
        dtype = planes[0].dtype if len({part.dtype for part in planes}) == 1 else FLOAT
        return [part.to(dtype) for part in planes], vectors
    if all(part.kind == "grid" for part in planes):
        return [], [*(part.flat() for part in planes), *vectors]
    sizes = ", ".join(f"a {_word(part)} of {part.shape[1]}x{part.shape[2]}" for part in planes)
    raise EnvError(
        f"{name}: observations hold {sizes}, which do not lie on one another; gymnasium.wrappers.FilterObservation "
        f"keeps one of them, gymnasium.wrappers.ResizeObservation makes them equal before they are joined. {WRAPPERS}"
    )


def _plane_view(planes: list[Part], note: str) -> View:
    """A picture or grid; pictures of one moment (grey or RGB) hide motion, so that a state needs some of them."""
    first = planes[0]
    moment = first.kind == "image" and all(part.channels in (1, 3) for part in planes)
    depth = sum(part.shape[0] for part in planes)
    notes = dict.fromkeys([part.note for part in planes if part.note] + [note] * bool(note))
    shape = (depth, *first.shape[1:])
    return View(first.kind, shape, first.dtype, 4 if moment else 1, "; ".join(notes), tuple(planes))


def _beside(planes: list[Part], vectors: list[Part], name: str) -> View:
    """A picture or grid with numbers beside it: each number fills a plane of its own behind the others."""
    count, what = sum(part.shape[0] for part in vectors), _word(planes[0])
    if count > BESIDE:
        raise EnvError(
            f"{name}: {count} numbers stand beside a {what}, at most {BESIDE} can, as each fills a plane of its own; "
            f"gymnasium.wrappers.FilterObservation leaves out what is not needed. {WRAPPERS}"
        )
    dtype = planes[0].dtype
    if what == "picture":
        if not all(part.bounded for part in vectors):
            raise EnvError(
                f"{name}: numbers without bounds stand beside a picture, whose planes are bytes; "
                "gymnasium.wrappers.TransformObservation gives them bounds, gymnasium.wrappers.FilterObservation "
                f"leaves them out. {WRAPPERS}"
            )
    elif not all(part.dtype == BOOL for part in vectors):
        dtype = FLOAT
    planes = [part.to(dtype) for part in planes]
    filled = [part.to(dtype).filling(planes[0].shape[1:]) for part in vectors]
    view = _plane_view(planes, f"{count} numbers beside the {what} are shown as planes of their own")
    return replace(view, shape=(view.shape[0] + count, *view.shape[1:]), parts=(*planes, *filled))


def _word(part: Part) -> str:
    return "picture" if part.kind == "image" else "grid"
