"""Files that are whole or not there: written under another name, flushed, renamed; read only if they check out."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from sacbbf.disk.faults import reach
from sacbbf.disk.reading import RECORD, Unreadable, is_there, open_file

PIECE = 1 << 20  # bytes that are copied at a time
NO_DIRECTORY_SYNC = (errno.EINVAL, errno.ENOTSUP)  # what file systems say that cannot flush directories


class Damaged(Exception):  # noqa: N818 - what the file is, not whose error it is
    """A file that is missing or not what was written; the message names it and says what is wrong."""


def write_atomically(
    path: Path,
    content: bytes,
    *,
    folder: Path | None = None,
    role: str | None = None,
    confirm: Callable[[], None] | None = None,
) -> None:
    """Write a whole file or none: under a hidden name in `folder` (or beside it) first, flushed, then renamed.

    `confirm` is called when all that is left is the rename; if it raises, the old file stays. `role` names the
    crash points.
    """
    half = (len(content) + 1) // 2
    view = memoryview(content)
    _put(path, (view[:half], view[half:]), folder or path.parent, role or path.name, confirm)


def copy_prefix(
    path: Path, size: int, folder: Path, role: str | None = None, *, confirm: Callable[[], None] | None = None
) -> None:
    """Replace a file by a new one that holds exactly its first `size` bytes.

    The new file is another one to the system: a former writer that still has the old file open then writes into a
    file that nobody sees. A missing file has 0 bytes. `folder` and `confirm` are as for write_atomically.
    """
    if size or is_there(path):
        with _reading(path), open_file(path, RECORD) as file:
            found = _size(file)
        if found < size:
            raise Damaged(f"{path} is {_misfit(found, size)} bytes")
    _put(path, _pieces(path, size), folder, role or path.name, confirm)


def checksum(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def read_checked(path: Path, size: int, sha256: str) -> bytes:
    """Content of a file that has this size and checksum, else raise Damaged."""
    with _reading(path), open_file(path, RECORD) as file:
        found = _size(file)
        # Sizes first: a file that has grown out of bounds is not read at all.
        if found != size:
            raise Damaged(f"{path} is {_misfit(found, size)} bytes")
        content = file.read(size)
    if len(content) != size:
        raise Damaged(f"{path} is {_misfit(len(content), size)} bytes")
    if checksum(content) != sha256:
        raise Damaged(f"{path} has a wrong checksum: its content is not what was written")
    return content


def remove_quietly(path: Path) -> None:
    """Remove a file if that can be done."""
    with contextlib.suppress(OSError):
        path.unlink()


def sync_directory(path: Path) -> None:
    """Flush a directory's names to disk, where the file system knows how to."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in NO_DIRECTORY_SYNC:
            raise
    finally:
        os.close(descriptor)


def temporary_name(folder: Path, name: str) -> Path:
    """A hidden name that no other writer uses: two of them never write into one temporary file."""
    return folder / f".{name}.{secrets.token_hex(8)}.tmp"


def remove_temporaries(folder: Path) -> None:
    """Remove what writers that were killed have left in a folder."""
    for path in folder.glob(".*.tmp"):
        remove_quietly(path)


def write_new(path: Path, pieces: Iterable[bytes | memoryview], *, sync: bool = True) -> None:
    """Write a file that does not exist yet, handing each piece to the system before asking for the next."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _put(
    path: Path,
    pieces: Iterable[bytes | memoryview],
    folder: Path,
    role: str,
    confirm: Callable[[], None] | None,
) -> None:
    """Give a name to content that is on disk already, and flush the name too."""
    temporary = temporary_name(folder, path.name)
    reach(f"{role}: before write")
    try:
        write_new(temporary, _with_crash_points(pieces, role))
        reach(f"{role}: after fsync")
        if confirm is not None:
            confirm()
        temporary.replace(path)
    except BaseException:
        remove_quietly(temporary)
        raise
    reach(f"{role}: after rename")
    sync_directory(path.parent)
    reach(f"{role}: after directory fsync")


def _with_crash_points(pieces: Iterable[bytes | memoryview], role: str) -> Iterator[bytes | memoryview]:
    """The pieces themselves; "inside write" is reached when the first has been handed to the system."""
    for number, piece in enumerate(itertools.chain(pieces, (b"", b""))):  # also where there is but one piece, or none
        if number == 1:
            reach(f"{role}: inside write")
        yield piece
    reach(f"{role}: after write")


def _pieces(path: Path, size: int) -> Iterator[bytes]:
    """The first `size` bytes of a file, half of them at a time or less."""
    if not size:
        return
    step, left = min(PIECE, (size + 1) // 2), size
    with _reading(path), open_file(path, RECORD) as file:
        while left:
            piece = file.read(min(step, left))
            if not piece:
                raise Damaged(f"{path} is {_misfit(size - left, size)} bytes")
            left -= len(piece)
            yield piece


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn the system's errors while a file is read into Damaged."""
    try:
        yield
    except FileNotFoundError as error:
        raise Damaged(f"{path} is missing") from error
    except Unreadable as error:
        raise Damaged(str(error)) from error
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from error


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _misfit(found: int, size: int) -> str:
    return f"truncated to {found} of {size}" if found < size else f"{found} instead of {size}"
