"""Who works on cells: the device, the threads and the number at a time that follow from flags and machine."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import replace

import pytest
from small_sweep import CARTPOLE, begun, small_spec, words_of

from sacbbf.cli import run
from sacbbf.errors import UsageError
from sacbbf.sweep.check import check
from sacbbf.sweep.executor import LocalExecutor, _Worker
from sacbbf.sweep.workers import Workers, cells_at_a_time, device_of, gpu_names, make_executor, threads_of

VISIBLE = "CUDA_VISIBLE_DEVICES"
CLUSTERS = ["ray", "slurm"]


@pytest.fixture
def machine(monkeypatch):
    """Function that makes this machine look like another."""

    def make(cores, gpus=0, visible=None):
        monkeypatch.setattr("os.cpu_count", lambda: cores)
        monkeypatch.setattr("torch.cuda.is_available", lambda: gpus > 0)
        monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
        if visible is None:
            monkeypatch.delenv(VISIBLE, raising=False)
        else:
            monkeypatch.setenv(VISIBLE, visible)

    return make


@pytest.fixture
def carried_out(monkeypatch):
    """The sweeps that commands would run."""
    found = []

    def carry_out(directory, spec, args, console, *, trust):
        found.append(spec)
        return 130

    for command in ("sweep", "reproduce"):
        monkeypatch.setattr(f"sacbbf.commands.{command}.carry_out", carry_out)
    return found


COMMANDS = {
    "sweep": ["sweep", "there", "--games", CARTPOLE],
    "reproduce": ["reproduce", "variance-reduction", "--scale", "minatar", "--games", CARTPOLE],
}


# --- devices ---


@pytest.mark.parametrize("gpus", [0, 2])
@pytest.mark.parametrize("executor", CLUSTERS)
@pytest.mark.parametrize("device", ["auto", "cpu", "cuda"])
@pytest.mark.parametrize("command", COMMANDS)
def test_the_device_of_a_cluster_is_as_it_was_given(
    command, device, executor, gpus, machine, carried_out, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    machine(8, gpus)
    assert run([*COMMANDS[command], "--executor", executor, "--device", device]) == 130
    assert [spec.device for spec in carried_out] == [device]


@pytest.mark.parametrize(("gpus", "device"), [(0, "cpu"), (2, "cuda")])
def test_the_device_of_this_machine_is_resolved(gpus, device, machine):
    machine(8, gpus)
    assert device_of(Workers()) == device


@pytest.mark.parametrize("executor", ["local", *CLUSTERS])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_single_gpu_is_refused(command, executor, machine, carried_out, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    machine(8, 2)
    assert run([*COMMANDS[command], "--executor", executor, "--device", "cuda:1"]) == 2
    said = capsys.readouterr().err
    assert "device = 'cuda:1': all cells would share one GPU; give cuda" in said and f"{VISIBLE}=1" in said
    assert carried_out == [] and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("executor", ["local", *CLUSTERS])
def test_a_device_that_is_none_is_refused(executor):
    with pytest.raises(UsageError, match="device = 'gpu': must be auto, cpu, cuda or mps"):
        device_of(Workers(executor=executor, device="gpu"))


@pytest.mark.parametrize(
    ("gpus", "visible", "names"),
    [
        (0, None, []),
        (3, None, ["0", "1", "2"]),
        (2, "2,3", ["2", "3"]),
        (2, "GPU-8932f937, GPU-46bb1c5a", ["GPU-8932f937", "GPU-46bb1c5a"]),
        (1, "3,-1,2", ["3"]),  # CUDA stops at the first that is none
    ],
)
def test_the_gpus_are_those_that_cuda_shows(gpus, visible, names, machine):
    machine(8, gpus, visible)
    assert gpu_names("auto") == names
    assert gpu_names("cpu") == []


def test_cells_take_turns_on_the_gpus_that_are_listed(machine, tmp_path, monkeypatch):
    machine(8, 2, "5,7")
    started = []
    monkeypatch.setattr(subprocess, "Popen", lambda words, **how: started.append(how["env"]))
    spec = small_spec(4, device="cuda")
    executor = make_executor(begun(tmp_path / "sweep", spec), spec, Workers(per_gpu=2), 4)
    for cell in spec.cells():
        executor.start(cell)
    assert not executor.free()
    assert [env[VISIBLE] for env in started] == ["5", "7", "5", "7"]
    assert all(env["PATH"] == os.environ["PATH"] for env in started)


def test_without_gpus_the_list_is_left_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv(VISIBLE, "1,0")
    assert LocalExecutor(begun(tmp_path / "sweep", small_spec()), 1)._environment(0)[VISIBLE] == "1,0"


# --- threads, and cells at a time ---


@pytest.mark.parametrize(
    ("size", "args", "gpus", "threads"),
    [
        ("tiny", Workers(), 0, 1),
        ("laptop", Workers(), 0, 16),
        ("laptop", Workers(workers=4), 0, 4),
        ("laptop", Workers(workers=99), 0, 1),
        ("paper", Workers(), 4, 4),  # a cell for each GPU
        ("paper", Workers(per_gpu=2), 4, 2),
        ("paper", Workers(workers=2, per_gpu=2), 4, 8),
        ("tiny", Workers("ray"), 4, 1),
        ("paper", Workers("ray"), 4, 1),  # this machine's cores say nothing of the nodes
        ("paper", Workers("slurm", cpus_per_run=6, workers=3), 4, 6),
    ],
)
def test_a_cell_has_its_size_s_threads_or_its_share_of_the_cores(size, args, gpus, threads, machine):
    machine(16, gpus)
    assert threads_of(size, "cuda" if gpus else "cpu", args) == threads


@pytest.mark.parametrize(
    ("args", "device", "threads", "count"),
    [
        (Workers(), "cpu", 3, 5),
        (Workers(), "cpu", 99, 1),
        (Workers(), "cpu", 0, 1),  # as many threads as PyTorch likes: all cores
        (Workers(per_gpu=3), "cuda", 1, 6),
        (Workers(workers=7, per_gpu=3), "cuda", 1, 7),
        (Workers("ray"), "cuda", 1, None),
        (Workers("slurm", workers=9), "auto", 1, 9),
    ],
)
def test_as_many_cells_run_as_there_is_room_for(args, device, threads, count, machine):
    machine(16, 2)
    assert cells_at_a_time(small_spec(2, device=device, threads=threads), args) == count


@pytest.mark.parametrize(("cells", "places"), [(2, 2), (99, 5)])
def test_there_are_no_more_workers_than_cells(cells, places, machine, tmp_path):
    machine(16)
    spec = small_spec(threads=3)
    executor = make_executor(begun(tmp_path / "sweep", spec), spec, Workers(), cells)
    assert len(executor.slots) == places


def test_threads_that_only_a_cluster_has_are_refused_here_alone(machine):
    machine(2)
    spec = small_spec(threads=64)
    check(spec, here=False)
    with pytest.raises(UsageError, match="threads = 64: must be at most 8 on this machine"):
        check(spec)
    with pytest.raises(UsageError, match="threads = -1: must be a whole number from 0 to 4096"):
        check(replace(spec, threads=-1), here=False)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_sweep_that_goes_on_keeps_its_threads(command, carried_out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [*COMMANDS[command], "--executor", "ray", "--device", "cpu"]
    assert run(words) == 130
    begun(tmp_path / "there", replace(carried_out[0], threads=3))
    out = ["--out", "there"] if command == "reproduce" else []
    assert run([*words, *out]) == 130
    assert [spec.threads for spec in carried_out] == [1, 3]


def test_numbers_that_make_no_sense_are_refused_before_a_dry_run(capsys):
    assert run([*COMMANDS["reproduce"], "--dry-run", "--workers", "0"]) == 2
    assert "workers = 0: must be at least 1" in capsys.readouterr().err
    assert run(["sweep", "there", *words_of(small_spec()), "--dry-run", "--per-gpu", "0"]) == 2
    assert "per_gpu = 0: must be at least 1" in capsys.readouterr().err


# --- stopping one of several ---


def test_a_local_cell_is_stopped_and_the_others_go_on(tmp_path):
    directory = begun(tmp_path / "sweep", small_spec(2))
    executor = LocalExecutor(directory, 2)
    cells = small_spec(2).cells()
    processes = [subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE) for _ in cells]
    executor.workers = [_Worker(cell, process, 0) for cell, process in zip(cells, processes, strict=True)]
    try:
        executor.stop(cells[1])
        assert processes[1].wait(timeout=30) == -signal.SIGTERM
        assert processes[0].poll() is None
        executor.stop()
        assert processes[0].wait(timeout=30) == -signal.SIGTERM
    finally:
        executor.close()


def test_a_cell_on_ray_is_cancelled_and_the_others_go_on(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    from sacbbf.sweep import ray_executor

    cancelled = []
    monkeypatch.setattr(ray_executor.ray, "cancel", lambda ref, force: cancelled.append((ref, force)))
    executor = object.__new__(ray_executor.RayExecutor)
    first, second = small_spec(2).cells()
    executor._refs = {"one": first, "two": second}
    executor.stop(second)
    assert cancelled == [("two", False)]
    executor.stop()
    assert cancelled[1:] == [("one", False), ("two", False)]
