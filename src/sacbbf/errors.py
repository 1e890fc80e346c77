"""Errors that are the caller's to mend; the command line prints them without a traceback and exits with 2."""


class UsageError(ValueError):
    """Bad input: the message names the setting, the value it got and what it takes."""
