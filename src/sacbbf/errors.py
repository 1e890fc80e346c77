"""Errors that are the caller's to mend; the command line prints them without a traceback and exits with 2."""


class RunFailed(RuntimeError):  # noqa: N818 - what happened, not whose error it is
    """A run that cannot go on, through no fault of its input's form; the command line exits with 1."""


class UsageError(ValueError):
    """Bad input: the message names the setting, the value it got and what it takes."""
