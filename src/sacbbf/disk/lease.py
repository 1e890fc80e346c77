"""One writer per run directory, also between the nodes that share a disk.

Why a process that was stopped at any instruction and lost its lease meanwhile can change nothing:

- Every file is written to a temporary in the state folder, then the lease is checked, then the temporary is renamed,
  all by path. After a takeover the path is gone and each of these fails.
- The path may exist again, as another owner's folder, once a state was dropped and a new one begun. Then either the
  check finds the other owner's name; or the check was passed before, so the folder was ours at that time and ever
  since it was acquired (it never comes back), and the temporary was in it: it is not in the other owner's folder, and
  the rename fails.
- Files that are held open are no paths: who takes a run over replaces those by new ones (`copy_prefix`), and a former
  owner appends to the old ones. To append, open the file, then check the lease, then begin: a check that is passed
  after opening proves that the file was not a later owner's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from sacbbf.disk import holder as holders
from sacbbf.disk import takeover
from sacbbf.disk.files import Damaged, copy_prefix, sync_directory, write_atomically
from sacbbf.disk.holder import Holder
from sacbbf.disk.takeover import Busy, state_folder
from sacbbf.errors import RunFailed

__all__ = ["Busy", "Lease", "LeaseLost", "state_folder"]

MARGIN = 3  # beats that a holder may miss before others lose their patience, at least


class LeaseLost(RunFailed):
    """A run that another process has taken over."""


def _silently(sentence: str) -> None:
    """Say nothing while waiting."""


class Lease:
    """The right to write a run, kept by a heartbeat until it is released, dropped or lost."""

    def __init__(self, run: Path, holder: Holder, beat_every: float) -> None:
        self.run = run
        self.folder = run / takeover.folder_name(holder.fence)
        self.fence = holder.fence
        self._holder = holder
        self._lost = False
        self._closing = threading.Event()
        self._heart = threading.Thread(target=self._keep_beating, args=(beat_every,), name="lease", daemon=True)
        self._heart.start()

    @classmethod
    def acquire(
        cls,
        run: Path,
        *,
        patience: float = 60.0,
        beat_every: float = 5.0,
        on_wait: Callable[[str], None] = _silently,
    ) -> Self:
        """Take the lease of a run: at once if it is free, else if its holder shows no life for `patience` seconds.

        Raises Busy if the holder is alive. Read the run's files after this, not before: until then another process
        may write them. `patience` must suit the `beat_every` of all writers of a run.
        """
        if not 0 < MARGIN * beat_every <= patience:
            raise ValueError(f"patience = {patience}: must be at least {MARGIN} times beat_every = {beat_every} > 0")
        run = run.absolute()  # another working directory must not look like a loss
        while True:  # each further round means that another process has just changed the state
            seen = takeover.look(run)
            if seen is None:
                holder = takeover.create(run)
            elif seen.free or takeover.watch(run, seen, patience, on_wait):
                holder = takeover.take_over(run, seen)
            else:
                continue
            if holder is not None:
                takeover.clean_up(run)
                return cls(run, holder, beat_every)

    @property
    def lost(self) -> bool:
        """Whether a heartbeat, a check or a write has found that the run was taken over."""
        return self._lost

    def check(self) -> None:
        """Raise LeaseLost if the run was taken over."""
        if self._closing.is_set():
            raise RuntimeError(f"{self.run}: this lease was given up; it can neither be checked nor written with")
        self._confirm()

    def write(self, name: str | Path, content: bytes, role: str | None = None) -> None:
        """Write a file inside the state folder, whole or not at all; folders on the way are made."""
        path = self.folder / name
        if not path.is_relative_to(self.folder) or ".." in path.parts:
            raise ValueError(f"{name}: lies outside of {self.folder}")
        self.check()
        with self._fenced():
            self._make_folder(path.parent)
            write_atomically(path, content, folder=self.folder, role=role, confirm=self.check)

    def publish(self, path: Path, content: bytes, role: str | None = None) -> None:
        """Write a file outside of the state folder, whole or not at all, and only while the lease is held."""
        self.check()
        with self._fenced():
            write_atomically(path, content, folder=self.folder, role=role, confirm=self.check)

    def copy_prefix(self, path: Path, size: int, role: str | None = None) -> None:
        """Replace a file by a new one with its first `size` bytes, out of reach of those who hold the old one open."""
        self.check()
        with self._fenced():
            copy_prefix(path, size, self.folder, role, confirm=self.check)

    def release(self) -> None:
        """Give the run up: the next process need not wait."""
        if self._stop():
            with contextlib.suppress(OSError, LeaseLost):
                self._sign(released=True)

    def drop(self) -> None:
        """Remove the state, which is no longer needed, and give the run up."""
        self.check()
        self._stop()
        if not takeover.withdraw(self.folder, self._holder.owner):
            self._lose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _confirm(self) -> None:
        if self._lost or self._is_anothers():
            self._lose()

    def _is_anothers(self) -> bool:
        found = holders.parse(holders.read_raw(self.folder))
        if found is not None:
            return found.owner != self._holder.owner
        return _is_gone(self.folder)  # a lease that cannot be read names nobody else

    def _lose(self) -> NoReturn:
        self._lost = True
        raise LeaseLost(f"{self.run} was taken over by another process; this one has written nothing since")

    @contextlib.contextmanager
    def _fenced(self) -> Iterator[None]:
        """Tell a lost lease from other errors of the system."""
        try:
            yield
        except (OSError, Damaged):
            self._confirm()
            raise

    def _make_folder(self, path: Path) -> None:
        """Make a folder within the state folder, but never the state folder itself: that would undo a takeover."""
        if path == self.folder or path.is_dir():
            return
        self._make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)

    def _sign(self, *, released: bool) -> None:
        self._holder = dataclasses.replace(self._holder, beat=self._holder.beat + 1, released=released)
        with self._fenced():
            holders.write(self.folder, self._holder, self._confirm)

    def _keep_beating(self, every: float) -> None:
        while not self._closing.wait(every):
            try:
                self._sign(released=False)
            except LeaseLost:
                return
            except OSError:  # a full disk or a network that is away may pass; the next beat tries again
                continue

    def _stop(self) -> bool:
        """End the heartbeat; False if that was done before."""
        if self._closing.is_set():
            return False
        self._closing.set()
        self._heart.join()
        return True


def _is_gone(folder: Path) -> bool:
    try:
        folder.stat()
    except OSError as error:
        return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)
    return False
