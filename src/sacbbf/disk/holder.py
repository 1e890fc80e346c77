"""Who holds a run: what `lease.json` says of a process, and whether that process is provably dead."""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import get_type_hints

from sacbbf.disk.files import remove_quietly, temporary_name, write_new
from sacbbf.disk.reading import Unreadable, read_file

LEASE = "lease.json"
LARGEST = 1 << 16  # bytes of a lease that are read
DEAD = "ZX"  # states of a process that runs no more: its parent has not asked for its end yet


@dataclass(frozen=True)
class Holder:
    """The process that writes a run."""

    owner: str  # random, of one lease
    host: str
    boot: str  # of the machine; "" if unknown, as are the next two
    namespace: str  # in which process numbers and start times are counted
    pid: int
    started: int  # in the system's ticks
    fence: int  # number of the folder that this was written for
    beat: int  # how often the holder has shown that it is alive
    released: bool

    def __str__(self) -> str:
        return f"process {self.pid} on host {self.host}"

    def provably_dead(self) -> bool:
        """Whether the process is gone for certain; a process of another machine or container never is."""
        boot, namespace = _surroundings()
        if not boot or (boot, namespace) != (self.boot, self.namespace):
            return False
        try:
            os.kill(self.pid, 0)  # asked first: /proc may hide the processes of other users
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        state, started = _process(self.pid)
        return bool(state) and (state in DEAD or started != self.started)


def myself(fence: int) -> Holder:
    """This process as a new holder."""
    boot, namespace = _surroundings()
    started = _process(os.getpid())[1]
    return Holder(uuid.uuid4().hex, socket.gethostname(), boot, namespace, os.getpid(), started, fence, 0, False)


def read_raw(folder: Path) -> bytes | None:
    """What a folder's lease says, understood or not; None if it cannot be read."""
    try:
        return read_file(folder / LEASE, LARGEST)
    except (OSError, Unreadable):
        return None


def parse(raw: bytes | None) -> Holder | None:
    """The holder that a lease names; None if it names none that can be understood."""
    try:
        values = json.loads(raw or b"")
        holder = Holder(**{field.name: values[field.name] for field in fields(Holder)})
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    kinds = get_type_hints(Holder)
    sound = all(type(value) is kinds[name] for name, value in asdict(holder).items()) and 0 < holder.pid < 2**31
    return holder if sound else None


def write(folder: Path, holder: Holder, confirm: Callable[[], None] | None = None) -> None:
    """Write a folder's lease, whole or not at all; `confirm` is called right before it takes its name.

    It is not flushed: after a power cut its holder is dead, and a lease that got lost counts as an unknown holder's.
    """
    temporary = temporary_name(folder, LEASE)
    try:
        write_new(temporary, [json.dumps(asdict(holder), indent=1).encode()], sync=False)
        if confirm is not None:
            confirm()
        temporary.replace(folder / LEASE)
    except BaseException:
        remove_quietly(temporary)
        raise


def _surroundings() -> tuple[str, str]:
    """Boot and namespaces of this process; empty where they cannot be told."""
    try:
        if Path("/proc/self").readlink().name != str(os.getpid()):
            return "", ""  # this /proc counts processes differently
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        spaces = [link for link in (Path("/proc/self/ns/pid"), Path("/proc/self/ns/time")) if link.is_symlink()]
        return boot, " ".join(str(link.readlink()) for link in spaces)
    except OSError:
        return "", ""


def _process(pid: int) -> tuple[str, int]:
    """State and start time of a process; ("", 0) where they cannot be told."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return "", 0
    after_name = line[line.rindex(b")") + 1 :].decode().split()  # the name, in brackets, may hold anything
    return after_name[0], int(after_name[19])
