"""Finished runs of another sweep are copied into cells that have the very same settings."""

from __future__ import annotations

import json
import shutil

import pytest
from small_sweep import assert_alike, begun, small_spec, snapshot, words_of

from sacbbf.cli import run
from sacbbf.errors import UsageError
from sacbbf.sweep.copy import copied_run
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.reuse import reuse
from sacbbf.sweep.status import sweep_states


def states(directory, spec):
    return [state.state for state in sweep_states(directory, spec.cells())]


def test_a_sweep_takes_over_what_another_has_finished(tmp_path, undisturbed, capsys):
    before = snapshot(undisturbed.path)
    path = tmp_path / "sweep"
    assert run(["sweep", str(path), *words_of(small_spec(3)), "--reuse", str(undisturbed.path)]) == 0
    assert "3 of 3 cells taken from" in capsys.readouterr().out.replace("\n", " ")
    directory = SweepDirectory(path)
    assert_alike(directory, undisturbed, small_spec(3).cells())
    assert snapshot(undisturbed.path) == before


def test_other_settings_and_unfinished_runs_are_not_taken(tmp_path, undisturbed):
    other = small_spec(2, settings={**small_spec().settings, "replay.batch_size": 5})
    assert reuse(begun(tmp_path / "other", other), other, other.cells(), undisturbed.path) == []
    more_threads = small_spec(2, threads=2)  # its last bits would differ
    directory = begun(tmp_path / "threads", more_threads)
    assert reuse(directory, more_threads, more_threads.cells(), undisturbed.path) == []
    spec = small_spec(2)
    directory = begun(tmp_path / "half", spec)
    assert len(reuse(directory, spec, spec.cells(), undisturbed.path)) == 2
    result = directory.run(spec.cells()[0]).result
    result.write_text(json.dumps(json.loads(result.read_text()) | {"finished": False}))
    again = begun(tmp_path / "again", spec)
    assert reuse(again, spec, spec.cells(), directory.path) == [spec.cells()[1]]
    assert states(again, spec) == ["waiting", "finished"]


def test_checkpoints_and_parallel_evaluation_do_not_matter(tmp_path, undisturbed):
    spec = small_spec(1, settings={**small_spec().settings, "checkpoint.every": 50, "eval.parallel": 1})
    assert len(reuse(begun(tmp_path / "sweep", spec), spec, spec.cells(), undisturbed.path)) == 1


def test_measured_baselines_do_not_matter_but_are_preferred(tmp_path, undisturbed):
    spec = small_spec(1)
    (cell,) = spec.cells()
    source = begun(tmp_path / "source" / "with", spec)
    reuse(source, spec, [cell], undisturbed.path)
    config = source.run(cell).config
    measured, unmeasured = "baselines = true", "baselines = false"
    assert (measured in config.read_text()) != (unmeasured in config.read_text())
    config.write_text(config.read_text().replace(measured, unmeasured))
    taken = begun(tmp_path / "taken", spec)
    assert reuse(taken, spec, [cell], source.path) == [cell]
    assert unmeasured in taken.run(cell).config.read_text()

    shutil.copytree(source.path, tmp_path / "source" / "after")
    better = SweepDirectory(tmp_path / "source" / "after").run(cell).config
    better.write_text(better.read_text().replace(unmeasured, measured))
    shutil.copytree(source.path, tmp_path / "source" / "zz")
    preferred = begun(tmp_path / "preferred", spec)
    assert reuse(preferred, spec, [cell], tmp_path / "source") == [cell]
    assert measured in preferred.run(cell).config.read_text()


def test_cells_that_have_a_run_are_left_alone(tmp_path, undisturbed):
    spec = small_spec(2)
    directory = begun(tmp_path / "sweep", spec)
    first, second = spec.cells()
    directory.run(first).path.mkdir(parents=True)
    assert reuse(directory, spec, spec.cells(), undisturbed.path) == [second]
    assert not list(directory.run(first).path.iterdir())
    assert not list(directory.path.rglob(".*"))


@pytest.mark.parametrize(
    "words", [["sweep", "SWEEP"], ["reproduce", "annealing", "--scale", "minatar", "--out", "SWEEP"]]
)
def test_a_missing_source_is_named_and_nothing_is_written(tmp_path, capsys, words):
    path = tmp_path / "sweep"
    given = [str(path) if word == "SWEEP" else word for word in words]
    games = words_of(small_spec()) if words[0] == "sweep" else []
    assert run([*given, *games, "--reuse", str(tmp_path / "nowhere")]) == 2
    assert "nowhere: must be a directory that holds runs" in capsys.readouterr().err
    assert not path.exists()


def test_a_copy_takes_what_is_the_runs_own_and_nothing_that_links_lead_to(tmp_path):
    private = tmp_path / "private"
    private.mkdir()
    (private / "secret").write_text("secret")
    run_path = tmp_path / "run"
    run_path.mkdir()
    (run_path / "file").write_text("own")
    (run_path / "same").symlink_to("file")
    (run_path / "folder").symlink_to(private)
    with copied_run(run_path, tmp_path / "copy") as copy:
        (copy / "same").write_text("changed")
    assert {path.name for path in (tmp_path / "copy").iterdir()} == {"file", "same"}
    assert (run_path / "file").read_text() == "own"
    (run_path / "out").symlink_to(private / "secret")
    with pytest.raises(UsageError, match="leads out of its folder"), copied_run(run_path, tmp_path / "again"):
        pytest.fail("it was copied")
    assert not (tmp_path / "again").exists() and (private / "secret").read_text() == "secret"
