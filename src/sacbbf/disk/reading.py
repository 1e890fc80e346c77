"""How files are opened that somebody else may have made: all of them here, and only if they can be what they should be.

A pipe never answers, a device never ends, a link leads anywhere, and a sparse file claims any size. So a file must be a
regular one, lie in its folder, and have a plausible size; no more than that is ever read.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any, BinaryIO

from sacbbf.errors import UsageError

# Bytes that a file can honestly have, at most.
CONFIGURATION = 1 << 20
RESULT = 1 << 24
MANIFEST = 1 << 24  # of a sweep
TABLE = 1 << 26  # a CSV of scores
PICTURE = 1 << 26
VIDEO = 1 << 30
POLICY = 1 << 31
RECORD = 1 << 32
LINE = 1 << 20  # of a record
CASE = 1 << 30  # reference numbers
STUDY = 1 << 30  # trials of a tuning

REMEDY = "put back the file that was there, or a copy of it"
_ABSENT = (errno.ENOENT, errno.ENOTDIR)
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class Unreadable(UsageError):  # noqa: N818 - what the file is, not whose error it is
    """A file that is not what it should be: the message names it, says what is wrong, and what to do."""

    def __init__(self, path: Path, wrong: str, remedy: str = REMEDY, *, what: str = "") -> None:
        super().__init__(f"cannot read {what}{path}: {wrong}; {remedy}")


def is_there(path: Path) -> bool:
    """Whether anything has this name: a file, or what lies in its place."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def open_file(path: Path, most: int, *, typed: bool = False) -> BinaryIO:
    """Open a regular file of at most `most` bytes; FileNotFoundError if there is none, else Unreadable.

    A link may lead anywhere if the user has `typed` the path, else no further than the file's own folder.
    """
    try:
        target = _target(path, typed)
        _check(path, target.stat(), most)  # first: to open a device may have effects
        descriptor = os.open(target, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if error.errno in _ABSENT and not path.is_symlink():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from error
        raise Unreadable(path, error.strerror or str(error)) from error
    try:
        _check(path, os.fstat(descriptor), most)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def open_to_append(path: Path) -> BinaryIO:
    """Open a regular file, or a new one, to write behind its end; Unreadable for a link, a pipe or the like."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if path.is_symlink() or (is_there(path) and not path.is_file()):
            raise Unreadable(path, "it is not a file of its own", "remove it") from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unreadable(path, "it is not a file of its own", "remove it")
    return os.fdopen(descriptor, "ab", buffering=0)


def read_file(path: Path, most: int, *, typed: bool = False) -> bytes:
    """Return a file's content; as `open_file`."""
    with open_file(path, most, typed=typed) as file:
        try:
            content = file.read(most + 1)
        except OSError as error:
            raise Unreadable(path, error.strerror or str(error)) from error
    if len(content) > most:  # it has grown, or is one of the system's, which claim to be empty
        raise Unreadable(path, f"it holds more than {most:,} bytes, which is not plausible")
    return content


def copy_file(source: Path, target: Path, most: int = RECORD) -> None:
    """Copy a file; as `open_file`."""
    with open_file(source, most) as file, target.open("wb") as copy:
        shutil.copyfileobj(file, copy)


def read_json(path: Path, most: int, what: str, *, typed: bool = False) -> dict[str, Any]:
    """Return the object that a file of JSON holds; as `open_file`. `what` the file is, is for the message."""
    content = read_file(path, most, typed=typed)
    try:
        found = parse_json(content)
    except (ValueError, RecursionError) as error:
        raise Unreadable(path, f"it is not {what}: {error}") from error
    if not isinstance(found, dict):
        raise Unreadable(path, f"it is not {what}: it holds no object")
    return found


def parse_json(content: bytes) -> Any:
    """Return what JSON says; ValueError if it is none, or holds a whole number that no float and no counter holds."""
    return json.loads(content, parse_int=_whole)


def _whole(text: str) -> int:
    return check_whole(int(text))


def check_whole(number: int) -> int:
    """Return a whole number of at most 64 bits; ValueError for another."""
    if not -(1 << 63) <= number < 1 << 64:
        raise ValueError("a whole number has more than 64 bits")
    return number


def _target(path: Path, typed: bool) -> Path:
    """Return where a file lies; Unreadable if that is out of the folder in which it should."""
    target = Path(os.path.realpath(path, strict=True))
    if not typed and not target.is_relative_to(path.parent.resolve()):
        raise Unreadable(path, f"it is a link that leads out of its folder, to {target}", "put a copy in its place")
    return target


def _check(path: Path, found: os.stat_result, most: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable(path, f"it is {_KINDS.get(stat.S_IFMT(found.st_mode), 'something else')}, not a file")
    if found.st_size > most:
        raise Unreadable(path, f"it has {found.st_size:,} bytes, and more than {most:,} are not plausible")
