"""The benchmark measures what it says: real updates, real peak, a spread that is one."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch

from sacbbf.bench.clock import PartsTimer, Peak, peak_memory_bytes, seconds, spread
from sacbbf.bench.figures import PER_ROUND
from sacbbf.bench.play import measure_environment, measure_evaluation
from sacbbf.bench.speed import (
    PARTS,
    WARM_UPS,
    WORKLOADS,
    make_subjects,
    measure_acting,
    measure_replay,
    measure_updates,
)
from sacbbf.cli import run

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def subjects():
    return make_subjects("tiny-paper", CPU)


@pytest.fixture
def brief_peaks(monkeypatch):
    """The machine's peak is measured by a call or two: here its rate matters less than that there is one."""
    monkeypatch.setattr("sacbbf.bench.speed.Peak", partial(Peak, span=0.01))


def nothing() -> None:
    """No progress to show."""


def test_spread_is_median_and_quartiles():
    found = spread([4.0, 1.0, 3.0, 2.0, 5.0])
    assert (found.low, found.median, found.high, found.count) == (2.0, 3.0, 4.0, 5)
    assert spread([7.0]).median == 7.0


def test_parts_add_up_and_are_taken_once():
    timer = PartsTimer(CPU)
    for _ in range(3):
        with timer("a"):
            sum(range(10_000))
    taken = timer.take()
    assert taken["a"] > 0 and timer.take() == {}


def test_updates_are_really_done_and_their_parts_fit_into_them(subjects, brief_peaks):
    before = subjects["sac-bbf"].learner.updates
    rounds = measure_updates(subjects, CPU, 3, 2, nothing)
    assert subjects["sac-bbf"].learner.updates == before + 1 + 2 * (WARM_UPS + 3)  # the first one for counting
    speed = rounds.agents["sac-bbf"]
    assert set(speed.parts) == set(PARTS)
    assert all(part.median > 0 for part in speed.parts.values())
    assert sum(part.median for part in speed.parts.values()) < 1.3 * speed.seconds.median
    assert 0 < speed.fraction.median < 1
    assert rounds.ratio.median > 0


def test_flops_are_those_of_the_network(subjects):
    """Counted by hand: the encoder and both branches at tiny size, products only."""
    flops = subjects["sac-bbf"].flops()
    conv, dense, project = 2 * 100 * 9 * 6 * 16, 2 * 1600 * 128, 2 * 128 * 128
    encoded = (32 + 32 + 6 * 32) * (conv + dense)  # online s_t, online s_{t+n}, target
    backward = 32 * (conv + 2 * dense)  # no gradient for the image itself
    floor = encoded + backward + 6 * 32 * 2 * project
    assert floor < flops < 2 * floor
    assert subjects["bbf"].flops() < flops


def test_peak_is_a_rate_that_a_product_reaches():
    peak = Peak(CPU)
    a = torch.randn(1024, 1024)
    rate = 2 * 1024**3 / min(seconds(lambda: a @ a, CPU) for _ in range(5))
    measured = max(peak.measure() for _ in range(3))
    assert 0.2 < rate / measured < 5


def test_acting_and_playing_have_speeds(subjects):
    acting = measure_acting(subjects["sac-bbf"], subjects["bbf"], 40, 4, nothing)
    low, high = acting.interval
    assert 0 < low <= high
    env = WORKLOADS["tiny"].env
    assert measure_environment(env) > 100
    assert measure_evaluation(env, subjects["sac-bbf"]) > 0


def test_replay_is_timed_at_each_size():
    times = measure_replay(WORKLOADS["tiny"], (100, 1_000), 5)
    assert list(times) == [100, 1_000]
    assert all(draw.median > 0 and write.median > 0 for draw, write in times.values())


HOLDING = """
import numpy as np
from sacbbf.bench.clock import peak_memory_bytes

before = peak_memory_bytes()
held = np.ones(2**26)
during = peak_memory_bytes()
del held
print(before, during, peak_memory_bytes())
"""


def test_memory_grows_by_what_is_held_and_the_peak_stays():
    """In a process of its own, since the peak of this one is higher already; what this one holds is not counted."""
    held = np.ones(2**27)  # 1 GiB
    done = subprocess.run([sys.executable, "-c", HOLDING], capture_output=True, text=True, check=True)
    before, during, after = map(int, done.stdout.split())
    half = held.nbytes / 2
    assert peak_memory_bytes() > held.nbytes > before > 2**25
    assert 0.8 * half < during - before < 1.1 * half and during > half
    assert after > 0.99 * during


def test_bench_prints_and_writes(tmp_path, capsys, monkeypatch, brief_peaks):
    monkeypatch.setattr("sacbbf.bench.figures.REPLAY_SIZES", (100, 1_000))
    monkeypatch.setattr("sacbbf.bench.figures.PASSES", 80)
    monkeypatch.setattr("sacbbf.bench.figures.STEPS", 1_000)
    monkeypatch.setitem(PER_ROUND, "tiny", 1)
    assert run(["bench", "--size", "tiny", "--repeats", "2", "--json", str(tmp_path / "bench.json")]) == 0
    text = capsys.readouterr().out
    for word in ("sampling", "augmentation", "forward", "backward", "GFLOP", "share of the peak", "RR 8"):
        assert word in text
    stored = json.loads((tmp_path / "bench.json").read_text())
    assert stored["rounds"]["agents"]["sac-bbf"]["seconds"]["count"] == 2


def test_bad_repeats_are_refused(capsys):
    assert run(["bench", "--repeats", "-1"]) == 2
    assert "repeats = -1" in capsys.readouterr().err


def test_compiled_subjects_ask_for_compilation():
    asked = [subject.config.compute.compile for subject in make_subjects("tiny", CPU, compiled=True).values()]
    assert asked == [True, True]
    assert not any(subject.config.compute.compile for subject in make_subjects("tiny", CPU).values())
