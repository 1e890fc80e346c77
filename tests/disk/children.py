"""Processes of their own for the tests of what happens when one is stopped or killed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

HEADER = """
import sys, time
from pathlib import Path
from sacbbf.disk import files
from sacbbf.disk.lease import Busy, Lease, LeaseLost
"""


def start(code, *words, **environment):
    """Start Python on some lines of code, with pipes to talk through and `words` as sys.argv[1:]."""
    return subprocess.Popen(
        [sys.executable, "-c", HEADER + textwrap.dedent(code), *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def finish(child, said=None):
    """What a child prints until it ends without an error."""
    out, err = child.communicate(said, timeout=20)
    assert child.returncode == 0, err
    return out


HOLD = """
lease = Lease.acquire(Path(sys.argv[1]), patience=1, beat_every=0.05)
print("held", flush=True)
sys.stdin.readline()
"""


def start_holder(run):
    """A child that holds a run's lease until it reads a line."""
    child = start(HOLD, run)
    assert child.stdout.readline() == "held\n"
    return child
