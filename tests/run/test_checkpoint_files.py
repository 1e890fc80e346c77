"""Files of a checkpoint with other contents, of right size and checksum: refused, and never executed."""

from __future__ import annotations

import io
import pickle
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from resuming import newest, read_as_newest, short_config, train_telling

from sacbbf.disk.arrays import pack, unpack
from sacbbf.disk.files import Damaged, checksum
from sacbbf.disk.lease import state_folder
from sacbbf.errors import UsageError
from sacbbf.run.checkpoint import FileMark, Manifest, manifest_name, read_manifest
from sacbbf.run.records import check_record

pytestmark = pytest.mark.usefixtures("hurried")


def put(folder, manifest, role, content) -> Manifest:
    """Put other content in place of a file; a manifest for which that is right."""
    mark = manifest.segments[-1].file if role == "segment" else manifest.parts[role]
    (folder / mark.name).write_bytes(content)
    mark = FileMark(mark.name, len(content), checksum(content))
    if role == "segment":
        return replace(manifest, segments=[*manifest.segments[:-1], replace(manifest.segments[-1], file=mark)])
    return replace(manifest, parts={**manifest.parts, role: mark})


def bomb() -> bytes:
    """64 megabytes of zeros in a thousandth of that."""
    packer = zlib.compressobj(9)
    return b"".join([*(packer.compress(bytes(1 << 20)) for _ in range(1 << 6)), packer.flush()])


class Trap:
    """Whoever unpickles this leaves a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def trapped(path) -> dict[str, bytes]:
    """Contents that execute something when they are read carelessly."""
    plain = pickle.dumps(Trap(path))
    array = io.BytesIO()
    np.save(array, np.array([Trap(path)], object), allow_pickle=True)
    return {"pickle": plain, "npy": array.getvalue(), "deflated pickle": zlib.compress(plain)}


def test_a_trap_snaps(tmp_path):
    pickle.loads(trapped(tmp_path / "sprung")["pickle"])
    assert (tmp_path / "sprung").exists()


@pytest.mark.parametrize("kind", ["pickle", "npy", "deflated pickle"])
@pytest.mark.parametrize("role", ["manifest", "learner", "progress", "segment", "record", "config.toml", "result.json"])
def test_nothing_is_executed(role, kind, copied, tmp_path):
    content = trapped(tmp_path / "sprung")[kind]
    folder, manifest = state_folder(copied), newest(copied)
    if role == "manifest":
        (folder / manifest_name(97)).write_bytes(content)
        with pytest.raises(Damaged, match="is not a manifest"):
            read_manifest(folder / manifest_name(97))
    elif role == "record":
        (copied / "episodes.jsonl").write_bytes(content)
        with pytest.raises(Damaged, match=r"episodes\.jsonl"):
            check_record(copied / "episodes.jsonl", manifest.records["episodes"])
    elif role in ("config.toml", "result.json"):
        (copied / role).write_bytes(content)
        with pytest.raises(UsageError, match=role):
            train_telling(short_config(), copied)
    else:
        with pytest.raises(Damaged, match=r"does not hold packed arrays|cannot be expanded"):
            read_as_newest(copied, put(folder, manifest, role, content))
    assert not (tmp_path / "sprung").exists()


def test_nothing_is_expanded_beyond_its_bounds(copied):
    folder = state_folder(copied)
    with pytest.raises(Damaged, match=r"replay-.* expands to more than"):
        read_as_newest(copied, put(folder, newest(copied), "segment", bomb()))


def repacked(out, role, spoil) -> Manifest:
    """Change the arrays of a file; a manifest for which that is right."""
    folder, manifest = state_folder(out), newest(out)
    compressed = role == "segment"
    mark = manifest.segments[-1].file if compressed else manifest.parts[role]
    arrays, _ = unpack((folder / mark.name).read_bytes(), compressed=compressed)
    spoil(arrays)
    return put(folder, manifest, role, pack(arrays, compressed=compressed))


def drop_one(arrays):
    arrays.pop(sorted(arrays)[0])


def add_one(arrays):
    arrays["more"] = np.zeros(3)


def shorten(arrays):
    for name in arrays:
        arrays[name] = arrays[name][:-1] if arrays[name].ndim else arrays[name]


def retype(arrays):
    for name in arrays:
        arrays[name] = arrays[name].astype(np.float64 if arrays[name].dtype != np.float64 else np.float32)


@pytest.mark.parametrize("spoil", [drop_one, add_one, shorten, retype, dict.clear])
@pytest.mark.parametrize("role", ["learner", "progress", "segment"])
def test_arrays_of_another_kind_are_damage(role, spoil, copied):
    with pytest.raises(Damaged, match=r"step-000000097|replay-"):
        read_as_newest(copied, repacked(copied, role, spoil))


@pytest.mark.parametrize("action", [-1, 5, 2**31 - 1])
def test_actions_that_the_environment_does_not_have_are_damage(action, copied):
    def spoil(arrays):
        arrays["actions"][2] = action

    with pytest.raises(Damaged, match="not actions of this environment"):
        read_as_newest(copied, repacked(copied, "progress", spoil))


def test_arrays_that_were_repacked_as_they_are_can_be_read(copied):
    for role in ("learner", "progress", "segment"):
        read_as_newest(copied, repacked(copied, role, lambda arrays: None))
