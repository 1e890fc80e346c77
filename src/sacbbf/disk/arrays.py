"""Named arrays and a description as one block of bytes: safetensors, in which nothing can be executed.

Booleans are stored as BOOL, a byte of 0 or 1 each; any other byte there is damage.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from sacbbf.disk.files import Damaged
from sacbbf.disk.reading import CASE, open_file

KEY = "sacbbf"  # of the description among safetensors' metadata
RESERVED = "__metadata__"  # safetensors' own entry
DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "U16": np.dtype(np.uint16),
    "I16": np.dtype(np.int16),
    "U32": np.dtype(np.uint32),
    "I32": np.dtype(np.int32),
    "U64": np.dtype(np.uint64),
    "I64": np.dtype(np.int64),
    "F16": np.dtype(np.float16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
}
KINDS = frozenset(DTYPES.values())
REFUSALS = (SafetensorError, ValueError, TypeError, KeyError, OverflowError, RecursionError)  # of malformed content


def pack(arrays: dict[str, np.ndarray], meta: dict[str, Any] | None = None, *, compressed: bool = False) -> bytes:
    """Arrays and a description that JSON can hold (tuples become lists there), as bytes; optionally deflated."""
    plain = {name: _plain(name, array) for name, array in arrays.items()}
    content: bytes = save(plain, {KEY: json.dumps(meta or {})})
    return zlib.compress(content, 1) if compressed else content


def unpack(
    content: bytes, *, compressed: bool = False, limit: int | None = None
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays, writable, and description as they were packed; Damaged if they cannot be, or expand beyond `limit`."""
    if compressed:
        content = _expand(content, limit)
    elif limit is not None and len(content) > limit:
        raise Damaged(f"holds {len(content)} bytes; at most {limit} fit: another version or other settings wrote it")
    try:
        views = deserialize(content)  # type: ignore[no-untyped-call]
        return {name: _array(name, **view) for name, view in views}, _description(content)
    except REFUSALS as error:
        raise Damaged(f"does not hold packed arrays: {error}") from error


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file of NumPy that a user named; ValueError if it holds none, and nothing is executed."""
    try:
        with open_file(path, CASE, typed=True) as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (EOFError, AttributeError, TypeError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise ValueError(f"{path} does not hold arrays of NumPy: {error}") from error


def _plain(name: str, array: np.ndarray) -> np.ndarray:
    """The array in the layout that safetensors takes for granted: contiguous, little-endian."""
    if name == RESERVED:
        raise ValueError(f"an array cannot be called {name}")
    little = array.dtype.newbyteorder("<")
    if little not in KINDS:
        raise TypeError(f"array {name} is of type {array.dtype}, which cannot be packed")
    return np.asarray(array, little, order="C")  # np.ascontiguousarray would give a scalar a dimension


def _array(name: str, dtype: str, shape: list[int], data: bytearray) -> np.ndarray:
    if dtype not in DTYPES:
        raise Damaged(f"array {name} is of type {dtype}, which is never packed")
    if dtype == "BOOL" and (np.frombuffer(data, np.uint8) > 1).any():
        raise Damaged(f"array {name} holds bytes that are neither true nor false")
    return np.frombuffer(data, DTYPES[dtype]).reshape(shape)


def _description(content: bytes) -> dict[str, Any]:
    """The description in the header, which safetensors has found well-formed already."""
    size = int.from_bytes(content[:8], "little")
    entries = json.loads(content[8 : 8 + size]).get(RESERVED) or {}
    if KEY not in entries:
        raise Damaged("has no description")
    meta = json.loads(entries[KEY])
    if not isinstance(meta, dict):
        raise Damaged(f"its description is a {type(meta).__name__}, not an object")
    return meta


def _expand(content: bytes, limit: int | None) -> bytes:
    """Inflate, but never beyond the limit: a few bytes can be made to expand to gigabytes."""
    inflater = zlib.decompressobj()
    try:
        # One byte more than allowed tells too much from just enough; 0 would mean no limit.
        plain = inflater.decompress(content, 0 if limit is None else limit + 1)
    except zlib.error as error:
        raise Damaged(f"cannot be expanded: {error}") from error
    if limit is not None and len(plain) > limit:
        raise Damaged(f"expands to more than the {limit} bytes that are allowed")
    if not inflater.eof:
        raise Damaged("cannot be expanded: it is cut off")
    if inflater.unused_data:
        raise Damaged(f"has {len(inflater.unused_data)} bytes behind its end")
    return plain
