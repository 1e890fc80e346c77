"""Weights & Biases and MLflow: what is recorded arrives there, under one name, and their failures are theirs alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from resuming import signal_at

from sacbbf.agents.config import flatten
from sacbbf.cli import run
from sacbbf.disk import faults
from sacbbf.run import remote_trackers
from sacbbf.run.records import RunDirectory, read_lines
from sacbbf.run.remote_trackers import WandB, make_trackers, run_id
from sacbbf.run.settings import from_toml

WORDS = [
    "train", "toys/Identity-v0", "--steps", "90", "--log-every", "10", "--schedule.n-start", "5",
    "--schedule.warmup", "64", "--network.hidden-dim", "8", "--network.width-scale", "0.25", "--eval.episodes", "2",
    "--eval.no-baselines", "--eval-every", "30", "--eval.every-episodes", "2", "--out", "run",
]  # fmt: skip
COMPARED = ("config.toml", "policy.safetensors", "episodes.jsonl", "metrics.jsonl", "evaluations.jsonl")


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch, hurried):
    """Nobody is logged in, nothing is set, and all that is written lands in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_PROJECT", "WANDB_DIR", "MLFLOW_TRACKING_URI", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "false")
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")  # put back as it was, whatever a run sets
    for name in ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))


def stop_and_go_on(*words):
    """Train until after step 75, then take the run up by the same command."""
    signal_at("training: step", 75 - 64)
    try:
        assert run([*WORDS, "--quiet", *words]) == 130
    finally:
        faults.disarm()
    assert run([*WORDS, "--quiet", *words]) == 0


class Told:
    """A tracker that keeps what it is told, and may fail."""

    made: list[Told] = []  # noqa: RUF012 - emptied by the fixture
    where = "a notebook"

    def __init__(self, run, config, game, fail_at=None):
        self.lines, self.closed, self.fail_at = [], False, fail_at
        self.id = run_id(run)
        Told.made.append(self)
        if fail_at == "start":
            raise ConnectionError("nobody answers")

    def add(self, kind, line):
        if self.fail_at == "add" and len(self.lines) == 3:
            raise ConnectionError("the line is dead")
        self.lines.append((kind, line))

    def close(self):
        self.closed = True
        if self.fail_at == "close":
            raise ConnectionError("the line is dead")


@pytest.fixture
def told(monkeypatch):
    """Function that puts such trackers in the place of both; returns those that were made."""

    def put(fail_at=None):
        Told.made = []
        for name in remote_trackers.KINDS:
            monkeypatch.setitem(remote_trackers.KINDS, name, lambda *words: Told(*words, fail_at=fail_at))
        return Told.made

    return put


# --- the real ones ---


def test_mlflow_has_the_records_of_a_run_that_was_stopped_as_one(capsys):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed")
    stop_and_go_on("--tracker", "mlflow")
    assert "warning" not in capsys.readouterr().out
    client = mlflow.MlflowClient(Path("mlruns").resolve().as_uri())
    experiment = client.get_experiment_by_name("sacbbf")
    (found,) = client.search_runs([experiment.experiment_id])
    assert (found.info.status, found.info.run_name) == ("FINISHED", "run")
    config = flatten(from_toml(Path("run/config.toml")))
    assert found.data.params == {name: str(value) for name, value in config.items()}
    evaluations = {line["step"]: line["mean"] for line in read_lines(Path("run/evaluations.jsonl"))}
    history = client.get_metric_history(found.info.run_id, "evaluation/mean")
    assert {metric.step: metric.value for metric in history} == evaluations and list(evaluations) == [30, 60]
    losses = {line["step"]: line["loss/total"] for line in read_lines(Path("run/metrics.jsonl"))}
    history = client.get_metric_history(found.info.run_id, "loss/total")
    assert {metric.step: metric.value for metric in history} == losses and list(losses) == [70, 80, 90]


def test_wandb_keeps_a_run_without_a_login(capsys):
    pytest.importorskip("wandb", reason="Weights & Biases is not installed")
    assert run([*WORDS, "--tracker", "wandb"]) == 0
    said = capsys.readouterr().out
    assert "warning" not in said and "wandb writes to run/wandb, offline; `wandb sync` sends it\n" in said
    (folder,) = Path("run/wandb").glob("offline-run-*")
    mark = run_id(RunDirectory(Path("run")))
    assert folder.name.endswith(mark)
    content = (folder / f"run-{mark}.wandb").read_bytes()
    assert b"train/score" in content and b"loss/total" in content and b"settings.network.hidden_dim" in content


# --- Weights & Biases, by a stand-in ---


@pytest.fixture
def wandb(monkeypatch):
    """Stands in for the package: keeps what it is told."""
    kept = SimpleNamespace(begun=[], logged=[], ended=0)
    session = SimpleNamespace(log=kept.logged.append, finish=lambda: setattr(kept, "ended", kept.ended + 1))
    session.url = "https://wandb.example/run"
    module = SimpleNamespace(
        init=lambda **words: (kept.begun.append(words), session)[1],
        Settings=lambda **words: words,
    )
    monkeypatch.setitem(sys.modules, "wandb", module)
    return kept


def test_wandb_goes_on_under_the_same_name(wandb):
    stop_and_go_on("--tracker", "wandb")
    first, second = wandb.begun
    assert first["id"] == second["id"] == run_id(RunDirectory(Path("run")))
    assert {words["resume"] for words in wandb.begun} == {"allow"} and wandb.ended == 2
    assert (first["project"], first["name"], first["mode"]) == ("sacbbf", "run", "offline")
    assert first["config"]["settings.network.hidden_dim"] == 8 and None not in first["config"].values()
    episodes = [line["step"] for line in wandb.logged if "train/score" in line]
    assert episodes == list(range(10, 91, 10))


@pytest.mark.parametrize(
    ("environment", "netrc", "mode"),
    [
        ({}, None, "offline"),
        ({"WANDB_API_KEY": "key"}, None, "online"),
        ({"WANDB_API_KEY": "key", "WANDB_MODE": "offline"}, None, "offline"),
        ({"WANDB_MODE": "disabled"}, None, "disabled"),
        ({}, "machine api.wandb.ai login user password key\n", "online"),
        ({}, "machine elsewhere.example login user password key\n", "offline"),
        ({}, "no such word\n", "offline"),
    ],
)
def test_wandb_is_online_only_with_a_login(environment, netrc, mode, wandb, finished_run, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if netrc is not None:
        Path(".netrc").write_text(netrc)
        Path(".netrc").chmod(0o600)
    tracker = WandB(finished_run, from_toml(finished_run.config), None)
    assert wandb.begun[0]["mode"] == mode
    places = {"online": "https://wandb.example/run", "offline": f"{finished_run.path / 'wandb'}, offline"}
    assert tracker.where.startswith(places.get(mode, "nowhere"))


# --- what goes for all of them ---


def results(out):
    result = json.loads((out / "result.json").read_text())
    return [(out / name).read_bytes() for name in COMPARED], result["returns"], result["finished"]


@pytest.fixture(scope="module")
def untracked(tmp_path_factory):
    """What a run without trackers leaves."""
    out = tmp_path_factory.mktemp("untracked") / "run"
    assert run([*WORDS[:-1], str(out), "--quiet"]) == 0
    return results(out)


def test_trackers_are_told_every_line_once(told, untracked):
    made = told()
    assert run([*WORDS, "--quiet", "--tracker", "wandb", "--tracker", "mlflow", "--tracker", "wandb"]) == 0
    assert len(made) == 2 and all(tracker.closed for tracker in made)
    for kind in ("episodes", "metrics", "evaluations", "speed"):
        lines = list(read_lines(Path(f"run/{kind}.jsonl")))
        assert [line for name, line in made[0].lines if name == kind] == lines != []
    assert made[0].lines == made[1].lines
    assert results(Path("run")) == untracked


@pytest.mark.parametrize(("fail_at", "lines"), [("start", 0), ("add", 3), ("close", None)])
def test_a_tracker_that_fails_is_given_up_and_the_run_is_not(fail_at, lines, told, untracked, capsys):
    made = told(fail_at)
    assert run([*WORDS, "--tracker", "wandb"]) == 0
    warnings = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning")]
    assert len(warnings) == 1 and "wandb is not told any further: ConnectionError" in warnings[0]
    assert lines is None or len(made[0].lines) == lines
    assert results(Path("run")) == untracked


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_tracker_that_is_not_installed_is_named(name, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, name, None)
    assert run([*WORDS, "--quiet", "--tracker", name]) == 2
    error = capsys.readouterr().err
    assert f"pip install 'sacbbf[{name}]'" in error and "Traceback" not in error
    assert not Path("run").exists()


def test_an_unknown_tracker_is_refused(capsys):
    with pytest.raises(SystemExit) as exit_info:
        run([*WORDS, "--tracker", "paper"])
    assert exit_info.value.code == 2 and "wandb" in capsys.readouterr().err
    assert not Path("run").exists()


def test_a_run_is_known_by_its_place(tmp_path, finished_run):
    assert run_id(RunDirectory(Path("run"))) == run_id(RunDirectory(tmp_path / "run"))
    assert run_id(RunDirectory(Path("run"))) != run_id(RunDirectory(Path("other")))
    assert make_trackers((), finished_run, from_toml(finished_run.config), None, print) == []
