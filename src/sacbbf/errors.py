"""Errors that are the caller's to mend; the command line prints them without a traceback and exits with 2."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return a text with all that nobody sees spelled out: it may hold names of files, which can be any bytes."""
    return "".join(letter if letter.isprintable() or letter == "\n" else ascii(letter)[1:-1] for letter in text)


class RunFailed(RuntimeError):  # noqa: N818 - what happened, not whose error it is
    """A run that cannot go on, through no fault of its input's form; the command line exits with 1."""


class UsageError(ValueError):
    """Bad input: the message names the setting, the value it got and what it takes."""
