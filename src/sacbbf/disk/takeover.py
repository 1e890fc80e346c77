"""How a run's state changes hands: its folder's name carries a number, and one rename raises it.

The state lives in `RUN/state.000001`. Whoever takes it over renames it to `state.000002`: of several contenders one
rename succeeds, the others find nothing to rename. From then on everything that a former owner tries by path fails
with "no such file", however long it was stopped and at whatever instruction. Numbers start over once a state has been
dropped, so the name alone proves nothing; `lease.py` says why that is harmless.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sacbbf.disk import holder as holders
from sacbbf.disk.files import remove_temporaries, sync_directory
from sacbbf.disk.holder import Holder
from sacbbf.errors import UsageError

TAKEN = (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST)  # what a rename says if another was faster
LOOKS = 40  # at a lease while waiting


class Busy(UsageError):  # noqa: N818 - what the run is, not whose error it is
    """A run that another process is writing."""


@dataclass(frozen=True)
class Sight:
    """The state folder as it was seen at one moment."""

    folder: Path
    raw: bytes | None  # lease.json, understood or not: any change of it is a sign of life
    touched: int  # when a name in it last changed: tells life from death even if lease.json cannot be read

    @property
    def fence(self) -> int:
        """The number in the folder's name."""
        return int(self.folder.name.rpartition(".")[2])

    @property
    def holder(self) -> Holder | None:
        """Who holds the run; None if that is unknown.

        It is unknown while a takeover is under way: the folder has its new number, and lease.json still names the
        former holder. Without this a second contender would take the folder from the first, whom it has not seen.
        """
        found = holders.parse(self.raw)
        return found if found is not None and found.fence == self.fence else None

    @property
    def free(self) -> bool:
        """Whether the run can be taken without waiting."""
        return self.holder is not None and (self.holder.released or self.holder.provably_dead())

    @property
    def who(self) -> str:
        """The holder in words."""
        return str(self.holder or "an unknown process")


def folder_name(fence: int) -> str:
    """Name of the state folder with this number."""
    return f"state.{fence:06d}"


def state_folder(run: Path) -> Path | None:
    """The state folder of a run, the one with the highest number; None if it has none."""
    found = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(run) as entries:
        for entry in entries:
            digits = entry.name.removeprefix("state.")
            if digits.isdecimal() and entry.name == folder_name(int(digits)) and entry.is_dir(follow_symlinks=False):
                found.append(int(digits))
    return run / folder_name(max(found)) if found else None


def look(run: Path) -> Sight | None:
    """The state folder as it is now; None if there is none."""
    folder = state_folder(run)
    if folder is None:
        return None
    touched = 0
    with contextlib.suppress(OSError):
        touched = folder.stat().st_mtime_ns
    return Sight(folder, holders.read_raw(folder), touched)


def watch(run: Path, seen: Sight, patience: float, on_wait: Callable[[str], None]) -> bool:
    """Wait for a sign of life: Busy if there is one, True if there is none, False if the run must be judged anew.

    Looks are counted, not seconds: if this process is stopped itself, or the machine sleeps, the time that passes
    meanwhile says nothing about the holder. The last look comes after the last wait.
    """
    on_wait(f"{run} is held by {seen.who}; waiting {patience:g} s for a sign of life from it")
    for _ in range(LOOKS):
        time.sleep(patience / LOOKS)
        now = look(run)
        if now is None or now.fence != seen.fence or now.free:
            return False
        if now != seen:
            raise Busy(f"{run} is being written by {now.who}")
    return True


def create(run: Path) -> Holder | None:
    """Make the first state folder of a run and hold it; None if another process was faster."""
    holder = holders.myself(1)
    temporary, folder = run / f".state.{holder.owner}.new", run / folder_name(1)
    try:
        temporary.mkdir()
        holders.write(temporary, holder)
        # The folder appears with its lease inside. A folder that is not empty is never replaced by a rename.
        created = _renamed(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    if not created:
        return None
    sync_directory(run)
    # Since this process found no folder, others may have made the first one and taken it over, which made room for
    # ours under the old number. A state exists without a gap until it is dropped, so if it is still there it is seen.
    if state_folder(run) != folder:
        withdraw(folder, holder.owner)
        return None
    return holder


def take_over(run: Path, seen: Sight) -> Holder | None:
    """Give the folder the next number and hold it; None if another process was faster."""
    holder = holders.myself(seen.fence + 1)
    folder = run / folder_name(holder.fence)
    if not _renamed(seen.folder, folder):
        return None
    # A call of the former owner may be inside the system at this moment, past the old name already. All its files
    # are renamed from temporaries; with those gone, such a rename has either happened before we read or fails.
    remove_temporaries(folder)
    try:
        holders.write(folder, holder)
        sync_directory(run)
    except FileNotFoundError:  # stopped for so long that the next contender has lost its patience with us
        return None
    return holder


def withdraw(folder: Path, owner: str) -> bool:
    """Remove a state folder; False, and nothing is removed, if it is not (or no longer) this owner's."""
    aside = folder.with_name(f".{folder.name}.{owner}.leaving")
    if not _renamed(folder, aside):
        return False
    # If this process was stopped right before the rename, the name may have passed to another owner. Look at what
    # was renamed, under a name that nobody else uses, and give it back if need be.
    found = holders.parse(holders.read_raw(aside))
    if found is not None and found.owner != owner:
        _renamed(aside, folder)
        return False
    gone = aside.with_suffix(".dropped")
    aside.rename(gone)
    sync_directory(folder.parent)
    shutil.rmtree(gone, ignore_errors=True)
    return True


def clean_up(run: Path) -> None:
    """Remove what processes killed while they created or dropped a state have left; this needs no lease."""
    for path in run.glob(".state.*.dropped"):
        shutil.rmtree(path, ignore_errors=True)
    for path in [*run.glob(".state.*.new"), *run.glob(".state.*.leaving")]:
        holder = holders.parse(holders.read_raw(path))
        if holder is None or not holder.provably_dead():
            continue
        if path.suffix == ".leaving" and f".{holder.owner}." not in path.name:
            continue  # another's state, renamed by mistake and never given back: a run may still depend on it
        shutil.rmtree(path, ignore_errors=True)


def _renamed(source: Path, target: Path) -> bool:
    try:
        source.rename(target)
    except OSError as error:
        if error.errno not in TAKEN:
            raise
        return False
    return True
