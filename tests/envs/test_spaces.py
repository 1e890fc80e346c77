"""Observation spaces as frames: each value at the place and in the scale that the documentation states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from sacbbf.envs.base import EnvError
from sacbbf.envs.make import EnvSettings
from sacbbf.envs.spaces import View, view_of

FLOAT, BYTE, BOOL = np.dtype("f4"), np.dtype("u1"), np.dtype("?")


def view(space: spaces.Space[Any], **settings: Any) -> View:
    return view_of(space, "Own", EnvSettings(**settings))


def box(low: float, high: float, shape: tuple[int, ...], dtype: Any = np.uint8) -> spaces.Box:
    return spaces.Box(low, high, shape, dtype)


@pytest.mark.parametrize(
    ("space", "observation", "frame"),
    [
        (spaces.Discrete(4), 2, [0, 0, 1, 0]),
        (spaces.Discrete(3, start=-1), np.int64(-1), [1, 0, 0]),
        (spaces.MultiBinary(3), np.array([1, 0, 1], np.int8), [1, 0, 1]),
        (spaces.MultiDiscrete([2, 3]), np.array([1, 2]), [0, 1, 0, 0, 1]),
        (spaces.MultiDiscrete([2, 3], start=[5, -1]), np.array([5, 0]), [1, 0, 0, 1, 0]),
        (spaces.MultiDiscrete([[2], [3]]), np.array([[0], [1]]), [1, 0, 0, 1, 0]),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]), (1, 0), [0, 1, 1, 0, 0]),
    ],
)
def test_symbols_become_one_hot_vectors_of_booleans(space, observation, frame):
    seen = view(space)
    found = seen.frame(observation)
    assert (seen.kind, seen.shape, seen.dtype, seen.stack) == ("vector", (len(frame),), BOOL, 1)
    assert found.dtype == BOOL and found.astype(int).tolist() == frame


@pytest.mark.parametrize("observation", [4, -1, [0, 1]])
def test_a_symbol_outside_its_space_is_refused(observation):
    with pytest.raises(EnvError, match=r"Discrete\(4\), and an observation is"):
        view(spaces.Discrete(4)).frame(observation)


def test_entries_of_a_dict_are_joined_in_its_order_each_in_its_own_scale():
    space = spaces.Dict(
        {
            "speed": box(-np.inf, np.inf, (2,), np.float64),
            "level": spaces.Discrete(3),
            "inner": spaces.Tuple([box(0, 9, (), np.float32), box(0, 255, (1,))]),
        }
    )
    seen = view(space)
    assert (seen.kind, seen.shape, seen.dtype) == ("vector", (7,), FLOAT)
    observation = {"inner": (np.float32(7), np.array([51], np.uint8)), "level": 2, "speed": np.array([-300.5, 2.0])}
    by_key = {"speed": [-300.5, 2.0], "level": [0, 0, 1], "inner": [7.0, np.float32(0.2)]}
    assert seen.frame(observation).tolist() == [x for key in space.spaces for x in map(float, by_key[key])]


def test_a_picture_with_numbers_beside_it_has_a_plane_of_bytes_for_each():
    space = spaces.Dict(
        {"camera": box(0, 255, (30, 40, 3)), "speed": box(-1, 1, (2,), np.float32), "gear": spaces.Discrete(2)}
    )
    seen = view(space)
    assert (seen.kind, seen.shape, seen.dtype, seen.stack) == ("image", (7, 30, 40), BYTE, 4)
    assert "4 numbers beside the picture are shown as planes" in seen.note
    camera = np.random.default_rng(0).integers(0, 256, (30, 40, 3)).astype(np.uint8)
    frame = seen.frame({"camera": camera, "speed": np.array([-1.0, 0.2], np.float32), "gear": 1})
    assert np.array_equal(frame[:3], camera.transpose(2, 0, 1))
    planes = {"speed": [0, 153], "gear": [0, 255]}  # (0.2 + 1) / 2 * 255 = 153
    for plane, value in zip(frame[3:], [v for key in space.spaces for v in planes.get(key, [])], strict=True):
        assert (plane == value).all()


def test_a_grid_of_bytes_stays_so_beside_symbols_and_becomes_floats_beside_numbers():
    grid = box(0, 10, (7, 7, 3))
    symbols = view(spaces.Dict({"grid": grid, "way": spaces.Discrete(4)}))
    assert (symbols.kind, symbols.shape, symbols.dtype, symbols.stack) == ("grid", (7, 7, 7), BYTE, 1)
    cells = np.full((7, 7, 3), 10, np.uint8)
    frame = symbols.frame({"grid": cells, "way": 3})
    assert (frame[:3] == 250).all() and frame[3:, 0, 0].tolist() == [0, 0, 0, 255]
    numbers = view(spaces.Dict({"grid": grid, "height": box(-np.inf, np.inf, (1,), np.float32)}))
    frame = numbers.frame({"grid": cells, "height": np.array([-3.5])})
    assert frame.dtype == FLOAT == numbers.dtype
    assert frame[:, 0, 0].tolist() == [np.float32(250 / 255)] * 3 + [-3.5]


def test_grids_of_one_size_lie_on_one_another_and_others_become_a_vector():
    one, two = box(0, 1, (5, 6), np.bool_), box(0, 1, (5, 6, 2), np.bool_)
    joined = view(spaces.Tuple([one, two]))
    assert (joined.kind, joined.shape, joined.dtype) == ("grid", (3, 5, 6), BOOL)
    flat = view(spaces.Tuple([one, box(0, 1, (2, 2), np.float32), spaces.Discrete(2)]))
    assert (flat.kind, flat.shape, flat.dtype) == ("vector", (36,), FLOAT)
    cells = np.arange(30).reshape(5, 6) % 2 == 1
    frame = flat.frame((cells, np.array([[0.5, 1], [2, 3]]), 0))
    assert frame.tolist() == [*cells.reshape(-1).astype(float), 0.5, 1, 2, 3, 1, 0]


@pytest.mark.parametrize(
    ("space", "kind", "stored"),
    [
        (box(0, 10, (7, 7, 3)), "grid", 250),  # 10 * (255 // 10)
        (box(0, 10, (7, 7, 3), np.int64), "grid", 250),
        (box(0, 255, (20, 40, 3)), "image", 10),
        (box(0, 10, (20, 40, 3)), "image", 250),
        (box(0, 255, (20, 40, 3), np.float64), "image", 10),
        (box(0, 255, (20, 40, 9), np.float32), "image", 10),
    ],
)
def test_whole_numbers_up_to_255_are_bytes_that_fill_their_range(space, kind, stored):
    seen = view(space)
    assert (seen.kind, seen.dtype) == (kind, BYTE)
    assert (seen.frame(np.full(space.shape, 10, space.dtype)) == stored).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_symbols_without_a_bound_of_their_own_are_spread_and_stay_in_order(dtype):
    space = box(0, 255, (19, 40, 3), dtype)  # below 20 a side: symbols
    seen = view(space)
    assert (seen.kind, seen.shape, seen.dtype) == ("grid", (3, 19, 40), FLOAT)
    for symbol, stored in {0: 0.0, 1: 0.125, 3: 0.25, 7: 0.375, 255: 1.0}.items():
        assert (seen.frame(np.full(space.shape, symbol, dtype)) == np.float32(stored)).all()
    every = view(box(0, 255, (16, 16), dtype)).frame(np.arange(256, dtype=dtype).reshape(16, 16))
    assert (np.diff(every.reshape(-1)) > 0).all()


def test_floats_between_0_and_1_are_pixels_where_they_look_like_a_picture():
    space = box(0, 1, (20, 20, 3), np.float32)
    seen = view(space)
    assert (seen.kind, seen.dtype, seen.stack) == ("image", BYTE, 4) and "256 shades" in seen.note
    assert (seen.frame(np.full(space.shape, 0.4, np.float32)) == 102).all()
    for shape in ((20, 20, 7), (8, 8, 3)):
        map_of = view(box(0, 1, shape, np.float32))
        assert (map_of.kind, map_of.dtype) == ("grid", FLOAT)


def test_what_is_a_picture_can_be_said():
    small, large, floats = box(0, 10, (7, 7, 3)), box(0, 10, (25, 25, 3)), box(0, 1, (25, 25, 3), np.float32)
    cells = np.full(small.shape, 10, np.uint8)
    as_then = view(small, pictures="bytes")
    assert (as_then.kind, as_then.stack) == ("image", 4) and (as_then.frame(cells) == 10).all()
    assert view(floats, pictures="bytes").kind == "grid"
    assert (view(large, pictures="none").kind, view(large, pictures="none").stack) == ("grid", 1)
    assert view(floats, pictures="none").dtype == FLOAT


def test_large_pictures_are_shrunk_by_area_and_it_is_said():
    seen = view(box(0, 255, (210, 160, 3)))
    assert seen.shape == (3, 84, 84)
    assert seen.note == "pictures of 210x160 are resized to 84x84 (--resize 0 keeps their size)"
    halves = np.zeros((210, 160, 3), np.uint8)
    halves[:, 80:, 1] = 200
    frame = seen.frame(halves)
    assert frame[1, :, 0].tolist() == [0] * 84 and frame[1, :, -1].tolist() == [200] * 84 and not frame[[0, 2]].any()


@pytest.mark.parametrize(
    ("size", "resize", "expected"),
    [((84, 84), 84, (84, 84)), ((64, 200), 84, (64, 84)), ((96, 96), 0, (96, 96)), ((60, 60), 48, (48, 48))],
)
def test_no_side_grows_and_0_keeps_all(size, resize, expected):
    seen = view(box(0, 255, (*size, 3)), resize=resize)
    assert seen.shape == (3, *expected)
    assert seen.frame(np.zeros((*size, 3), np.uint8)).shape == seen.shape
    assert bool(seen.note) == (size != expected)


def test_area_means_average():
    space = box(0, 255, (40, 40))
    pixels = np.random.default_rng(0).integers(0, 256, (40, 40)).astype(np.uint8)
    blocks = pixels.reshape(20, 2, 20, 2).mean((1, 3))
    assert np.abs(view(space, resize=20).frame(pixels)[0] - blocks).max() <= 0.5
