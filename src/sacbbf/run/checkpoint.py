"""Checkpoints of a training, in the run's state folder: written whole or not at all, read only if they check out.

A checkpoint is a manifest, `step-N.json`, that names everything else with size and checksum: the arrays of the
training, and the segments of the replay, which hold the steps since the checkpoint before. It is written last. The
last two are kept; files that neither needs are removed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sacbbf.disk.arrays import pack, unpack
from sacbbf.disk.files import Damaged, checksum, read_checked, remove_quietly
from sacbbf.disk.lease import Lease
from sacbbf.disk.reading import Unreadable, read_file
from sacbbf.replay import Replay
from sacbbf.replay.state import read_rows, row_bytes, write_rows
from sacbbf.run.loop import Training
from sacbbf.run.records import Mark
from sacbbf.run.state import SLACK, part_limits, read_training, write_training
from sacbbf.types import EpisodeRecord

FORMAT = 3
KEPT = 2  # checkpoints
LARGEST_MANIFEST = 1 << 26  # bytes
UNFIT = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError)  # of contents of another kind


@dataclass(frozen=True)
class FileMark:
    """A file as it was written."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Segment:
    """A file with the replay's steps `first` to `last` - 1."""

    file: FileMark
    first: int
    last: int


@dataclass(frozen=True)
class Manifest:
    """All that a checkpoint consists of."""

    step: int
    parts: dict[str, FileMark]
    segments: list[Segment]
    records: dict[str, Mark]  # how far each record had come
    numbers: dict[str, Any]  # of the training
    identity: dict[str, Any]  # what identical continuation depends on
    seconds: float  # of work so far
    resumes: int  # times that the run was taken up again

    @property
    def files(self) -> set[str]:
        """Names of the files that it needs, itself included."""
        marks = [*self.parts.values(), *(segment.file for segment in self.segments)]
        return {manifest_name(self.step), *(mark.name for mark in marks)}


@dataclass(frozen=True)
class Resumed:
    """A training brought back to where a checkpoint left it."""

    training: Training
    manifest: Manifest
    cut_off: EpisodeRecord | None  # the episode that could not be brought back
    saved: int  # steps whose rows in the replay are on disk as they are


def manifest_name(step: int) -> str:
    """Return the name of the manifest of the checkpoint after `step` steps."""
    return f"step-{step:09d}.json"


class Checkpoints:
    """Writes a training's checkpoints; knows which of the replay's steps are on disk already."""

    def __init__(
        self,
        lease: Lease,
        identity: dict[str, Any],
        resumed: Resumed | None = None,
        *,
        keep: int = KEPT,
        resumes: int = 0,
    ) -> None:
        """Write into the lease's folder, and keep the last `keep`; `resumes` makes names differ from earlier ones."""
        self.lease = lease
        self.identity = identity
        self.keep = keep
        self.saved = 0
        self.segments: list[Segment] = []
        self.kept = list(read_manifests(lease.folder))
        self.resumes = resumes
        if resumed is not None:
            self.saved, self.segments = resumed.saved, list(resumed.manifest.segments)
            self.resumes = resumed.manifest.resumes + 1
            # Newer manifests than this one are damaged; an older one may still serve.
            older = [found for found in read_manifests(lease.folder) if found.step < resumed.manifest.step]
            self.kept = [*older, resumed.manifest][-keep:]

    def save(self, training: Training, records: dict[str, Mark], seconds: float) -> int:
        """Write a checkpoint; returns the bytes written. On OSError the checkpoints before it are as they were."""
        try:
            manifest, written = self._write(training, records, seconds)
        except OSError:
            self._clean_up()  # what was written of it takes room that is needed
            raise
        self.saved, self.segments = training.step, manifest.segments
        self.kept = [*(old for old in self.kept if old.step != manifest.step), manifest][-self.keep :]
        self._clean_up()
        return written

    def _write(self, training: Training, records: dict[str, Mark], seconds: float) -> tuple[Manifest, int]:
        # Names carry the number of resumes: after an episode that was cut off, a checkpoint of the same step holds
        # other things, and the one before must stay whole until the new manifest has replaced it.
        oldest = training.replay.oldest
        segments = [segment for segment in self.segments if segment.last > oldest]
        written = 0
        first = max(self.saved, oldest)
        if first < training.step:
            rows = read_rows(training.replay, first, training.step)
            name = f"replay-{first:09d}-{training.step:09d}-{self.resumes}.zz"
            mark = self._put(name, pack(rows, compressed=True), "replay segment")
            segments.append(Segment(mark, first, training.step))
            written += mark.size
        arrays, numbers = read_training(training)
        parts = {}
        for part, held in arrays.items():
            name = f"step-{training.step:09d}-{part}-{self.resumes}.safetensors"
            parts[part] = self._put(name, pack(held), part)
            written += parts[part].size
        manifest = Manifest(
            training.step, parts, segments, records, numbers, self.identity, round(seconds, 3), self.resumes
        )
        content = encode(manifest)
        self.lease.write(manifest_name(training.step), content, "manifest")
        return manifest, written + len(content)

    def _put(self, name: str, content: bytes, role: str) -> FileMark:
        self.lease.write(name, content, role)
        return FileMark(name, len(content), checksum(content))

    def _clean_up(self) -> None:
        """Remove what no kept checkpoint needs, manifests first: one that is there has all its files."""
        needed: set[str] = set().union(*(manifest.files for manifest in self.kept))
        for pattern in ("step-*.json", "step-*.safetensors", "replay-*.zz"):
            for path in self.lease.folder.glob(pattern):
                if path.name not in needed:
                    remove_quietly(path)


# --- manifests ----------------------------------------------------------------------------------------------


def encode(manifest: Manifest) -> bytes:
    """Return a manifest as JSON, with a checksum of its own."""
    body = {"format": FORMAT, **asdict(manifest)}
    return json.dumps({"sha256": _body_checksum(body), **body}, indent=1).encode()


def decode(content: bytes, name: str) -> Manifest:
    """Return the manifest that was encoded, else raise Damaged."""
    try:
        body = json.loads(content)
        wanted, version = body.pop("sha256"), body.pop("format")
        if wanted != _body_checksum({"format": version, **body}):
            raise Damaged(f"{name} has a wrong checksum: its content is not what was written")
        if version != FORMAT:
            raise Damaged(f"{name} has format {version}; this version of sacbbf reads {FORMAT}")
        body["parts"] = {part: FileMark(**mark) for part, mark in body["parts"].items()}
        body["segments"] = [
            Segment(FileMark(**entry["file"]), entry["first"], entry["last"]) for entry in body["segments"]
        ]
        body["records"] = {record: Mark(**mark) for record, mark in body["records"].items()}
        manifest = Manifest(**body)
        _check_kinds(manifest)
    except (*UNFIT, RecursionError) as error:
        raise Damaged(f"{name} is not a manifest: {error}") from error
    return manifest


def read_manifests(folder: Path, on_damage: Callable[[str], object] = lambda why: None) -> Iterator[Manifest]:
    """Manifests in a folder that can be read, oldest first; what is wrong with the others is told."""
    for path in sorted(folder.glob("step-*.json")):
        try:
            yield read_manifest(path)
        except Damaged as damage:
            on_damage(str(damage))


def read_manifest(path: Path) -> Manifest:
    """Read a manifest, or raise Damaged."""
    try:
        content = read_file(path, LARGEST_MANIFEST)
    except (Unreadable, FileNotFoundError) as error:
        raise Damaged(str(error)) from error
    manifest = decode(content, str(path))
    if manifest_name(manifest.step) != path.name:
        raise Damaged(f"{path} is the manifest of step {manifest.step}")
    return manifest


def _check_kinds(manifest: Manifest) -> None:
    """Raise ValueError if an entry is of another kind; what the numbers of the training say is checked on loading."""
    files = [*manifest.parts.values(), *(segment.file for segment in manifest.segments)]
    names = [mark.name for mark in files]
    if not all(isinstance(name, str) and name and Path(name).name == name and name[0] != "." for name in names):
        raise ValueError("it names files outside of its folder")
    counts = [manifest.step, manifest.resumes, *(mark.size for mark in files)]
    counts += [mark.size for mark in manifest.records.values()]
    counts += [end for segment in manifest.segments for end in (segment.first, segment.last)]
    if any(type(count) is not int or count < 0 for count in counts):
        raise ValueError("a count must be a whole number of at least 0")
    if not isinstance(manifest.numbers, dict) or not isinstance(manifest.identity, dict):
        raise ValueError("numbers and identity must be objects")
    if not isinstance(manifest.seconds, int | float) or not math.isfinite(manifest.seconds):
        raise ValueError("seconds must be a number")


def _body_checksum(body: dict[str, Any]) -> str:
    return checksum(json.dumps(body, sort_keys=True).encode())


# --- coming back --------------------------------------------------------------------------------------------


def load(folder: Path, manifest: Manifest, make: Callable[[], Training], *, repeat: bool = True) -> Resumed:
    """Bring a new training to where a checkpoint left it; Damaged if anything of it is missing or not as written.

    The episode in progress is cut off unless `repeat`.
    """
    training = make()
    try:
        limits = part_limits(training)
        if manifest.parts.keys() != limits.keys():
            raise Damaged(f"{manifest_name(manifest.step)} has parts {', '.join(manifest.parts)}")
        _check_reach(manifest, training.replay)
        parts = {
            part: _read(folder, mark, compressed=False, limit=limits[part]) for part, mark in manifest.parts.items()
        }
        for segment in manifest.segments:
            limit = (segment.last - segment.first) * row_bytes(training.replay) + SLACK
            rows = _read(folder, segment.file, compressed=True, limit=limit)
            if len(rows["actions"]) != segment.last - segment.first:
                raise Damaged(f"{segment.file.name} has {len(rows['actions'])} rows")
            write_rows(training.replay, segment.first, rows)
        if manifest.numbers["step"] != manifest.step:
            raise Damaged(f"{manifest_name(manifest.step)} has the numbers of step {manifest.numbers['step']}")
        cut_off, saved = write_training(training, parts, manifest.numbers, repeat=repeat)
    except UNFIT as error:
        training.close()
        raise Damaged(f"{folder / manifest_name(manifest.step)} does not fit this run: {error}") from error
    except BaseException:
        training.close()
        raise
    return Resumed(training, manifest, cut_off, saved)


def _check_reach(manifest: Manifest, replay: Replay) -> None:
    """Raise ValueError unless the segments, in their order, hold all steps that the replay held, without a gap."""
    reached = max(0, manifest.step - replay.ring.capacity)
    for segment in manifest.segments:
        if not segment.first <= reached <= segment.last <= segment.first + replay.ring.capacity:
            raise ValueError(f"{segment.file.name} does not go on at step {reached}")
        reached = segment.last
    if reached != manifest.step:
        raise ValueError(f"its replay ends at step {reached}")


def _read(folder: Path, mark: FileMark, *, compressed: bool, limit: int) -> Any:
    if mark.size > limit + SLACK:
        raise Damaged(f"{folder / mark.name} has {mark.size} bytes, and at most {limit} fit")
    content = read_checked(folder / mark.name, mark.size, mark.sha256)
    try:
        return unpack(content, compressed=compressed, limit=limit)[0]
    except Damaged as damage:
        raise Damaged(f"{folder / mark.name} {damage}") from damage
