"""A sweep on a Ray cluster of several nodes on this machine, one of which is lost on the way."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from small_sweep import assert_alike, small_spec, wait_for, words_of

from sacbbf.cli import run
from sacbbf.disk import holder as holders
from sacbbf.disk.lease import state_folder
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.status import saved_step, sweep_states

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")


@pytest.fixture(autouse=True)
def unreported(monkeypatch):
    """Ray tells nobody that it was used here."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")


@pytest.fixture
def cluster():
    """A head that runs nothing, and three nodes with room for one cell each; no process of theirs is left behind."""
    found = cluster_utils.Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}, shutdown_at_exit=True
    )
    try:
        for _ in range(3):
            found.add_node(num_cpus=1)
        yield found
    finally:
        workers = children({raylet(node) for node in found.list_all_nodes()})
        ray.shutdown()
        found.shutdown()
        wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


def raylet(node):
    """The process of a node that starts its workers."""
    return node.all_processes["raylet"][0].process.pid


def children(parents):
    """The processes that others have started."""
    numbers = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return [pid for pid in numbers if parent(pid) in parents]


def parent(pid):
    """The process that started another; 0 if it is gone."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    return int(line[line.rindex(b")") + 1 :].split()[1])


def holder_of(directory, cell):
    """The process that works on a cell; None if there is none."""
    folder = state_folder(directory.run(cell).path)
    holder = holders.parse(holders.read_raw(folder)) if folder else None
    return None if holder is None or holder.released else holder.pid


def halted(cluster, directory, cell):
    """Stop the process that works on a cell and has saved a checkpoint of it: its node and number, else None.

    Once it stands still the cell can no longer finish, so that what is seen then stays so.
    """
    nodes = {raylet(node): node for node in cluster.worker_nodes}
    pid = holder_of(directory, cell)
    node = nodes.get(parent(pid)) if pid else None
    if node is None or not saved_step(directory.run(cell)):
        return None
    os.kill(pid, signal.SIGSTOP)
    if holder_of(directory, cell) == pid and saved_step(directory.run(cell)) and not finished(directory, cell):
        return node, pid
    os.kill(pid, signal.SIGCONT)
    return None


def finished(directory, cell):
    result = directory.run(cell).read_result()
    return result is not None and result["finished"]


def test_a_sweep_survives_the_loss_of_a_node(cluster, tmp_path, undisturbed, capsys):
    """The cell that ran there goes on elsewhere from its checkpoint, and comes out the same."""
    spec = small_spec(4)
    directory = SweepDirectory(tmp_path / "sweep")
    lost, over = [], threading.Event()

    def at_work():
        pairs = ((cell, halted(cluster, directory, cell)) for cell in spec.cells())
        return next((pair for pair in pairs if pair[1] is not None), None)

    def lose_a_node():
        while (found := at_work()) is None:
            if over.wait(0.02):
                return
        cell, (node, pid) = found
        lost.append(cell)
        cluster.remove_node(node, allow_graceful=False)
        os.kill(pid, signal.SIGKILL)  # standing still it would not see that its node is gone

    thread = threading.Thread(target=lose_a_node)
    thread.start()
    code = run(["sweep", str(directory.path), *words_of(spec), "--executor", "ray", "--address", cluster.address])
    over.set()
    thread.join()
    said = capsys.readouterr().out
    assert code == 0, said
    assert lost, "no cell was seen at work behind a checkpoint"
    assert f"{lost[0].name} failed: " in said and "trying again" in said
    assert [state.state for state in sweep_states(directory, spec.cells())] == ["finished"] * 4
    assert directory.run(lost[0]).read_result()["resumes"] >= 1
    assert_alike(directory, undisturbed, spec.cells())
    assert not ray.is_initialized()


def test_a_cluster_that_does_not_answer_is_named(tmp_path, capsys):
    words = ["--executor", "ray", "--address", "nowhere"]
    assert run(["sweep", str(tmp_path / "sweep"), *words_of(small_spec()), *words]) == 2
    error = capsys.readouterr().err
    assert "address = 'nowhere'" in error and "Traceback" not in error
