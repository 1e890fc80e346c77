"""Packed arrays come back bit for bit, and nothing that a stranger packs does more than be refused."""

from __future__ import annotations

import json
import random
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from safetensors.numpy import save

from sacbbf.disk.arrays import pack, unpack
from sacbbf.disk.files import Damaged

RNG = np.random.default_rng(0)
NAN_PAYLOADS = np.array([0x7FC00001, 0xFFC12345, 0x7F800001, 0x80000000], np.uint32).view(np.float32)
ARRAYS = {
    "uint8": RNG.integers(0, 256, (3, 4, 5), np.uint8),
    "bool": RNG.random(17) < 0.5,
    "int32": RNG.integers(-(2**31), 2**31, 9, np.int32),
    "int64": np.array([-(2**63), 2**63 - 1]),
    "uint64": np.array([2**64 - 1], np.uint64),
    "float32": NAN_PAYLOADS,
    "float64": RNG.normal(size=(2, 2)),
    "scalar": np.array(7.5),
    "scalar bool": np.array(True),
    "empty": np.zeros((0, 3), np.float32),
    "empty bool": np.zeros(0, bool),
    "every second": np.arange(20).reshape(4, 5)[::2, ::-1],
    "columns": np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
    "big-endian": np.arange(5, dtype=">f8"),
    "name with ü": np.zeros(1, np.uint8),
}
META = {"step": 5, "state": 2**127 - 1, "list": [1, None, "ü"], "small": 5e-324, "far": float("-inf")}


def container(header, data=b""):
    """A safetensors file with this header."""
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + data


def entry(dtype="U8", shape=(1,), offsets=(0, 1), meta="{}"):
    return {"__metadata__": {"sacbbf": meta}, "a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_and_description_come_back_bit_for_bit(compressed):
    content = pack(ARRAYS, META, compressed=compressed)
    arrays, meta = unpack(content, compressed=compressed, limit=10_000)
    assert meta == META
    assert arrays.keys() == ARRAYS.keys()
    for name, want in ARRAYS.items():
        assert arrays[name].dtype == want.dtype.newbyteorder("<"), name
        assert arrays[name].shape == want.shape, name
        assert arrays[name].tobytes() == want.astype(want.dtype.newbyteorder("<")).tobytes(), name
        assert arrays[name].flags.writeable


def test_nothing_at_all_can_be_packed():
    assert unpack(pack({})) == ({}, {})


def test_the_same_input_gives_the_same_bytes():
    assert pack(ARRAYS, META) == pack(dict(reversed(ARRAYS.items())), META)


def test_booleans_are_stored_as_booleans():
    content = pack({"a": np.array([True, False])})
    assert b'"dtype":"BOOL"' in content
    with pytest.raises(Damaged, match="neither true nor false"):
        unpack(content[:-1] + b"\x02")


@pytest.mark.parametrize("dtype", [object, "c16", "M8[s]", "U3", [("x", "f4")]])
def test_arrays_that_cannot_be_stored_are_named(dtype):
    with pytest.raises(TypeError, match="array odd"):
        pack({"odd": np.zeros(2, dtype)})


def test_the_reserved_name_is_refused():
    with pytest.raises(ValueError, match="__metadata__"):
        pack({"__metadata__": np.zeros(1)})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 8,
        b"\xff" * 64,
        container(b"[" * 5000),
        container({}),
        container({"__metadata__": {"other": "{}"}}),
        container(entry(meta="not JSON"), b"a"),
        container(entry(meta="[]"), b"a"),
        container(entry(meta="null"), b"a"),
        container(entry(meta="[" * 100_000), b"a"),
        container(entry(meta="9" * 5000), b"a"),
        container(entry("F8_E4M3"), b"a"),
        container(entry("BF16", (1,), (0, 2)), b"ab"),
        container(entry("U8", (0, 2**63), (0, 0))),
        container(entry("U8", (2**40,), (0, 2**40))),
        container(entry("U8", (0,) * 100, (0, 0))),
        save({"a": np.zeros(1)}),
        pack(ARRAYS) + b"x",
        pack(ARRAYS, compressed=True),
    ],
)
def test_malformed_content_is_damaged(content):
    with pytest.raises(Damaged):
        unpack(content)


@pytest.mark.parametrize("plain", [b"", b"rubbish", container({})])
def test_deflated_rubbish_is_damaged(plain):
    with pytest.raises(Damaged):
        unpack(zlib.compress(plain), compressed=True)


def test_deflated_content_ends_where_it_should():
    content = pack(ARRAYS, META, compressed=True)
    for wrong in (content[:-1], content + b"x", content[:-1] + bytes([content[-1] ^ 1]), b""):
        with pytest.raises(Damaged):
            unpack(wrong, compressed=True)


@pytest.mark.parametrize("compressed", [False, True])
def test_the_limit_is_kept_to_the_byte(compressed):
    arrays = {"a": np.zeros(100_000, np.uint8)}
    size, content = len(pack(arrays)), pack(arrays, compressed=compressed)
    unpack(content, compressed=compressed, limit=size)
    for limit in (size - 1, 0):
        with pytest.raises(Damaged, match=str(limit)):
            unpack(content, compressed=compressed, limit=limit)


def test_what_is_too_large_is_said_to_be_of_something_else():
    with pytest.raises(Damaged, match="at most 1000 fit: another version or other settings wrote it"):
        unpack(pack({"a": np.zeros(100_000, np.uint8)}), limit=1000)


def test_a_bomb_is_not_expanded():
    squeezer = zlib.compressobj(9)
    bomb = b"".join(squeezer.compress(bytes(1 << 20)) for _ in range(40)) + squeezer.flush()
    tracemalloc.start()
    with pytest.raises(Damaged, match="more than the 1000 bytes"):
        unpack(bomb, compressed=True, limit=1000)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("compressed", [False, True])
def test_damage_anywhere_raises_damaged_or_nothing(compressed):
    """Only Damaged may escape. Deflated content has a checksum; in plain content damage of the data goes unnoticed."""
    content = pack(ARRAYS, META, compressed=compressed)
    rng, refused = random.Random(1), 0
    for case in range(3000):
        wrong = bytearray(content)
        if case % 3 == 0:
            del wrong[rng.randrange(len(wrong)) :]
        elif case % 3 == 1:
            wrong[rng.randrange(min(len(wrong), 1500))] ^= 1 << rng.randrange(8)
        else:
            wrong = bytearray(rng.randbytes(rng.randrange(200)))
        try:
            arrays, meta = unpack(bytes(wrong), compressed=compressed, limit=100_000)
        except Damaged:
            refused += 1
        else:
            assert isinstance(meta, dict)
            assert all(isinstance(array, np.ndarray) for array in arrays.values())
            assert not compressed or pack(arrays, meta) == pack(ARRAYS, META)
    assert refused > 2400
