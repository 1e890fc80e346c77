"""What a sweep costs: measured once, kept with its time and the load, and within bounds."""

from __future__ import annotations

import io
import json
import time

import pytest
from rich.console import Console
from small_sweep import small_spec

from sacbbf.run.display import Display
from sacbbf.sweep import speeds, timing
from sacbbf.sweep.estimate import Estimator, amount, estimate_lines
from sacbbf.sweep.spec import Variant, configuration
from sacbbf.sweep.speeds import Speed, SpeedStore, kind_of
from sacbbf.sweep.timing import bounded


@pytest.fixture
def timed(monkeypatch):
    """Agents whose updates were timed; each takes 10 ms, a pass 1 ms, on a machine at a load of 1.5."""
    agents = []

    def time_update(config, spec):
        agents.append(config.agent)
        return Speed(0.01, 0.001, 1_000, 8, time.time(), 1.5)

    monkeypatch.setattr(timing, "time_update", time_update)
    return agents


def lines_of(spec, **how):
    said = io.StringIO()
    with Display(Console(file=said, force_terminal=True, width=80), None) as display:
        return estimate_lines(spec, 2, display, **how), said.getvalue()


def test_each_kind_is_timed_once_and_never_again(timed):
    spec = small_spec(3, variants=(Variant("sac-bbf"), Variant("bbf"), Variant("random")))
    lines, shown = lines_of(spec)
    assert timed == ["sac-bbf", "bbf"] and "timing updates" in shown
    again, shown = lines_of(spec)
    assert timed == ["sac-bbf", "bbf"] and "timing" not in shown
    assert again[:-1] == lines[:-1]
    lines_of(spec, anew=True)
    assert timed == ["sac-bbf", "bbf"] * 2


def test_costs_follow_from_steps_and_updates(timed):
    spec = small_spec(1)
    cost = Estimator(spec).cost(spec.cells()[0])
    assert cost.updates == 172 and cost.seconds == pytest.approx(172 * 0.01 + 150 * 0.001)


def test_age_and_load_of_the_measurement_are_told(timed, speed_cache):
    spec = small_spec(1)
    assert lines_of(spec)[0][-1].startswith("speed measured just now at a load of 1.5 on ")
    kept = json.loads(speed_cache.read_text())
    for one in kept.values():
        one["at"] -= 3 * 86_400 + 7_200
    speed_cache.write_text(json.dumps(kept))
    assert lines_of(spec)[0][-1].startswith("speed measured 3 d 2 h ago at a load of 1.5 on ")


def test_another_machine_or_network_is_another_kind(monkeypatch):
    spec = small_spec(1)
    config = configuration(spec, spec.cells()[0])
    wide = small_spec(1, variants=(Variant("sac-bbf", {"network.hidden_dim": 9}),))
    kinds = {kind_of(config), kind_of(configuration(wide, wide.cells()[0]))}
    monkeypatch.setattr(speeds.processor, "name", lambda: "another")
    assert len(kinds | {kind_of(config)}) == 3


@pytest.mark.parametrize("content", [b"", b"[]", b'{"a": {}}', b'{"a": 3}', b'{"a": {"at": 1e99}}'])
def test_a_file_of_speeds_that_makes_no_sense_holds_none(content, speed_cache):
    speed_cache.parent.mkdir()
    speed_cache.write_bytes(content)
    assert SpeedStore().read() == {}


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path):
    (tmp_path / "file").write_text("")
    SpeedStore(tmp_path / "file" / "speeds.json").add({"a": Speed(1.0, 1.0, 1, 1, 1.0, 1.0)})


@pytest.mark.parametrize(("taken", "left", "found"), [([9.0, 1.0, 1.0], 2, 9.0), ([3.0, 1.0, 2.0, 7.0], 2, 1.5)])
def test_timing_ends_when_its_time_is_up(taken, left, found):
    """After one of 9 s nothing more is timed; after 3 s there is room for two more."""
    times = iter(taken)
    assert bounded(lambda: next(times), repeats=5, limit=6.0) == found
    assert len(list(times)) == (left if found == 9.0 else 1)


def test_amounts_have_fitting_units():
    assert (amount(3_400_000), amount(5_000_000_000)) == ("3.4 MB", "5.00 GB")
