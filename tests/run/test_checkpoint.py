"""A checkpoint holds a whole training, and is read only if it makes sense, whatever its checksums say."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace

import pytest
from resuming import CAPACITY, differing, newest, outcome, read_as_newest, short_config, train_telling

from sacbbf.disk.arrays import unpack
from sacbbf.disk.files import Damaged, checksum
from sacbbf.disk.lease import state_folder
from sacbbf.run.checkpoint import decode, encode, load, manifest_name, read_manifest, read_manifests
from sacbbf.run.loop import Training
from sacbbf.run.records import Mark
from sacbbf.run.state import read_training

pytestmark = pytest.mark.usefixtures("hurried")


def changed(numbers, place, value):
    """Nested numbers with one of them changed; with one missing if there is no value."""
    first, *rest = place
    if rest:
        return {**numbers, first: changed(numbers[first], rest, value)}
    return {name: held for name, held in numbers.items() if name != first} | ({} if value is None else {first: value})


# --- what it holds ---


def test_a_checkpoint_holds_the_whole_training(stopped_run):
    resumed = load(state_folder(stopped_run), newest(stopped_run), lambda: Training(short_config()))
    training = resumed.training
    assert (training.step, training.episodes, len(training.actions)) == (97, 9, 7)
    assert (len(training.replay), resumed.saved, resumed.cut_off) == (CAPACITY, 97, None)
    arrays, numbers = read_training(training)
    assert json.loads(json.dumps(numbers)) == newest(stopped_run).numbers
    for part, mark in newest(stopped_run).parts.items():
        stored, _ = unpack((state_folder(stopped_run) / mark.name).read_bytes())
        assert stored.keys() == arrays[part].keys()
        assert all(stored[name].tobytes() == array.tobytes() for name, array in arrays[part].items())
    training.close()


def test_a_manifest_comes_back_as_it_was(stopped_run):
    manifest = newest(stopped_run)
    assert decode(encode(manifest), "name") == manifest
    assert manifest.files >= {manifest_name(97), *(mark.name for mark in manifest.parts.values())}


# --- nonsense with a right checksum ---

STATE = ("generators", "replay", "state")
NONSENSE = {
    "a step as text": (("step",), "97"),
    "another step": (("step",), 96),
    "a step below zero": (("step",), -97),
    "a huge step": (("step",), 10**30),
    "no step": (("step",), None),
    "episodes as text": (("episodes",), "nine"),
    "episodes as digits": (("episodes",), "9"),
    "episodes below zero": (("episodes",), -1),
    "more episodes than steps": (("episodes",), 10**30),
    "no episodes": (("episodes",), None),
    "a score as text": (("score",), "3.0"),
    "no score": (("score",), None),
    "a list of learners": (("learner",), []),
    "no learner": (("learner",), None),
    "updates as text": (("learner", "updates"), "many"),
    "updates below zero": (("learner", "updates"), -1),
    "another number of updates": (("learner", "updates"), 48),
    "a huge number of updates": (("learner", "updates"), 10**30),
    "updates since a reset below zero": (("learner", "updates_since_reset"), -1),
    "an optimiser as a list": (("learner", "optimiser"), []),
    "an optimiser as text": (("learner", "optimiser"), "adamw"),
    "no optimiser": (("learner", "optimiser"), None),
    "an optimiser of nothing": (("learner", "optimiser"), {}),
    "an optimiser of another parameter": (("learner", "optimiser", "nothing.weight"), []),
    "a parameter without its moments": (("learner", "optimiser", "q_advantage.weight"), ["step"]),
    "a parameter's moments as a number": (("learner", "optimiser", "q_advantage.weight"), 3),
    "an optimiser's numbers as a list": (("learner", "optimiser_numbers"), []),
    "no optimiser's numbers": (("learner", "optimiser_numbers"), None),
    "an optimiser's groups as text": (("learner", "optimiser_groups"), "adamw"),
    "no optimiser's groups": (("learner", "optimiser_groups"), []),
    "groups of another optimiser": (("learner", "optimiser_groups"), [{"lr": 1e-3}, {"momentum": 0.9}]),
    "a parameter's numbers as text": (("learner", "optimiser_numbers", "q_advantage.weight"), "step"),
    "a huge replay": (("replay", "steps_added"), 10**30),
    "a replay of another length": (("replay", "steps_added"), 96),
    "a replay below zero": (("replay", "steps_added"), -97),
    "a replay as text": (("replay",), "replay"),
    "a priority as text": (("replay", "max_priority"), "large"),
    "a huge priority": (("replay", "max_priority"), 1e300),
    "no generators": (("generators",), None),
    "a generator as text": (("generators", "actions"), "random"),
    "another generator": (("generators", "actions", "bit_generator"), "MT19937"),
    "a generator without state": ((*STATE,), None),
    "a generator's state as text": ((*STATE, "state"), "random"),
    "a generator's huge state": ((*STATE, "state"), 10**60),
    "a generator's state below zero": ((*STATE, "inc"), -1),
}


@pytest.mark.parametrize(("place", "value"), NONSENSE.values(), ids=NONSENSE)
def test_numbers_that_make_no_sense_are_damage(place, value, copied):
    manifest = newest(copied)
    spoilt = replace(manifest, numbers=changed(manifest.numbers, place, value))
    with pytest.raises(Damaged, match=r"step-000000097\.json"):
        read_as_newest(copied, spoilt)


def segments(**changes):
    """A change of the newest segment."""

    def spoil(manifest):
        return {"segments": [*manifest.segments[:-1], replace(manifest.segments[-1], **changes)]}

    return spoil


def of_part(**changes):
    """A change of what is said of the learner's file."""

    def spoil(manifest):
        return {"parts": {**manifest.parts, "learner": replace(manifest.parts["learner"], **changes)}}

    return spoil


ODD = {
    "another step": lambda manifest: {"step": 98},
    "a step as text": lambda manifest: {"step": "97"},
    "a step below zero": lambda manifest: {"step": -97},
    "a huge step": lambda manifest: {"step": 10**30},
    "no step": lambda manifest: {"step": None},
    "resumes as text": lambda manifest: {"resumes": "often"},
    "seconds as text": lambda manifest: {"seconds": "long"},
    "seconds without end": lambda manifest: {"seconds": float("inf")},
    "an identity as a list": lambda manifest: {"identity": []},
    "numbers as a list": lambda manifest: {"numbers": []},
    "no parts": lambda manifest: {"parts": {}},
    "another part": lambda manifest: {"parts": {**manifest.parts, "more": manifest.parts["learner"]}},
    "parts swapped": lambda manifest: {
        "parts": dict(zip(("progress", "learner"), manifest.parts.values(), strict=True))
    },
    "a file outside": of_part(name="../x"),
    "a file elsewhere": of_part(name="/etc/passwd"),
    "a hidden file": of_part(name=".x"),
    "a file without name": of_part(name=""),
    "a file name that is none": of_part(name="a\0b"),
    "a file named by number": of_part(name=7),
    "a file named by a list": of_part(name=["x"]),
    "a size as text": of_part(size="large"),
    "a size below zero": of_part(size=-1),
    "no checksum": of_part(sha256=None),
    "no segments": lambda manifest: {"segments": []},
    "the first segment missing": lambda manifest: {"segments": manifest.segments[1:]},
    "a segment missing": lambda manifest: {"segments": [manifest.segments[0], *manifest.segments[2:]]},
    "the last segment missing": lambda manifest: {"segments": manifest.segments[:-1]},
    "segments in another order": lambda manifest: {"segments": manifest.segments[::-1]},
    "a segment that ends earlier": segments(last=96),
    "a segment that ends later": segments(last=98),
    "a segment that begins earlier": segments(first=83),
    "a segment that begins below zero": segments(first=-3),
    "a segment as text": segments(first="84"),
    "a huge segment": segments(last=10**18),
}


@pytest.mark.parametrize("spoil", ODD.values(), ids=ODD)
def test_a_manifest_that_makes_no_sense_is_damage(spoil, copied):
    manifest = newest(copied)
    with pytest.raises(Damaged, match=r"step-000000097|replay-"):
        read_as_newest(copied, replace(manifest, **spoil(manifest)))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda records: {},
        lambda records: {**records, "more": Mark()},
        lambda records: {**records, "episodes": Mark("many", "x")},
        lambda records: {**records, "episodes": Mark(-5)},
        lambda records: {**records, "episodes": Mark(10**30)},
    ],
    ids=["none", "one more", "text", "below zero", "huge"],
)
def test_marks_that_make_no_sense_are_passed_over(spoil, copied, whole):
    manifest = newest(copied)
    spoilt = encode(replace(manifest, records=spoil(manifest.records)))
    (state_folder(copied) / manifest_name(97)).write_bytes(spoilt)
    _, said = train_telling(short_config(), copied)
    assert "warning: " in said and "taken up at step 84" in said
    assert differing(outcome(copied), whole) == []


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"7", b"null", b'"text"', b"\xff\xfe", b"[" * 100_000, b'{"sha256": 1}', b"9" * 5000, b"{}"],
    ids=lambda content: f"{content[:14]!r}",
)
def test_what_is_no_manifest_is_damage(content, copied):
    path = state_folder(copied) / manifest_name(97)
    path.write_bytes(content)
    told = []
    assert [manifest.step for manifest in read_manifests(path.parent, told.append)] == [84]
    assert len(told) == 1 and str(path) in told[0]


@pytest.mark.parametrize("spoil", [{"format": 1}, {"more": 1}, {"sha256": "0" * 64}, {"step": 96}], ids=str)
def test_a_manifest_that_was_edited_is_damage(spoil, stopped_run):
    body = json.loads(encode(newest(stopped_run))) | spoil
    with pytest.raises(Damaged, match="wrong checksum"):
        decode(json.dumps(body).encode(), "name")


def test_another_format_is_named(stopped_run):
    body = {"format": 1, **asdict(newest(stopped_run))}
    content = {"sha256": checksum(json.dumps(body, sort_keys=True).encode()), **body}
    with pytest.raises(Damaged, match="name has format 1; this version of sacbbf reads 3"):
        decode(json.dumps(content).encode(), "name")


def test_a_manifest_beyond_all_bounds_is_not_read(copied):
    path = state_folder(copied) / manifest_name(97)
    os.truncate(path, 1 << 30)
    with pytest.raises(Damaged, match="has 1,073,741,824 bytes, and more than 67,108,864 are not plausible"):
        read_manifest(path)
