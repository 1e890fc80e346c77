"""Ways to compute an update, timed in turn, each in a process of its own."""

from __future__ import annotations

import json

import pytest

from sacbbf.bench import against
from sacbbf.bench.against import WAYS, Worker, compare, parse_ways
from sacbbf.bench.figures import PER_ROUND
from sacbbf.cli import run
from sacbbf.errors import RunFailed, UsageError


def test_ways_are_names_between_commas():
    assert parse_ways("plain, kernels,plain") == ["plain", "kernels"]


@pytest.mark.parametrize(("text", "message"), [("fast", "against = 'fast': must be among"), (" ,", "must be names")])
def test_unknown_ways_are_refused(text, message):
    with pytest.raises(UsageError, match=message):
        parse_ways(text)


def test_refusals_end_with_2_and_name_the_flag(capsys):
    assert run(["bench", "--size", "tiny", "--against", "plain,fast"]) == 2
    assert "against = 'fast': must be among plain, kernels, compiled" in capsys.readouterr().err


def test_the_flag_for_a_single_way_is_refused(capsys):
    assert run(["bench", "--size", "tiny", "--against", "plain", "--compile"]) == 2
    assert "compile = True: with --against" in capsys.readouterr().err


def test_plain_and_kernels_side_by_side(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(PER_ROUND, "tiny-paper", 1)
    words = ["--size", "tiny-paper", "--against", "plain,kernels", "--repeats", "2"]
    assert run(["bench", *words, "--json", str(tmp_path / "found.json")]) == 0
    text = capsys.readouterr().out
    assert "plain" in text and "kernels in use by 'kernels': small_map" in text
    found = json.loads((tmp_path / "found.json").read_text())["against"]
    assert list(found) == ["plain", "kernels"]
    assert found["plain"]["ratio"] == {"median": 1.0, "low": 1.0, "high": 1.0, "count": 2}
    assert found["plain"]["kernels"] == [] and found["kernels"]["kernels"] == ["small_map"]
    assert all(0 < way["best"] <= way["update"]["median"] for way in found.values())


class Told:
    """A worker whose updates take as long as it is told."""

    kernels = ()

    def __init__(self, way, *words):
        self.times = {"plain": [5, 3, 2.0, 4.0], "kernels": [1, 3, 1.0, 3.0]}[way]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def updates(self, count):
        return self.times.pop(0)


def test_ratios_are_taken_round_by_round(monkeypatch):
    monkeypatch.setattr(against, "Worker", Told)
    rounds = []
    found = compare(["plain", "kernels"], "tiny", "sac-bbf", "cpu", 1, 2, 2, lambda: rounds.append(1))
    assert found["plain"].first == 5 and found["kernels"].first == 1
    assert found["plain"].update.median == 1.5 and found["kernels"].best == 0.5
    assert found["kernels"].ratio.median == pytest.approx((0.5 + 0.75) / 2)
    assert len(rounds) == 4


def test_a_process_that_dies_is_named(capfd):
    with pytest.raises(RunFailed, match="the process that updates 'plain' ended with exit code 1"):
        Worker("plain", "no such size", "sac-bbf", "cpu", 1).__enter__()
    assert "no such size" in capfd.readouterr().err


def test_each_way_is_a_setting_of_its_own():
    assert WAYS["plain"] == {"kernels": "off", "compile": False}
    assert WAYS["kernels"]["kernels"] == "auto" and WAYS["compiled"]["compile"] is True
