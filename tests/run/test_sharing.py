"""Policies for others: ONNX gives the same numbers, a folder for the Hub is whole, and only data is fetched."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.special import softmax

from sacbbf import SACBBF, Agent, __version__
from sacbbf.agents.config import NetworkConfig
from sacbbf.cli import run
from sacbbf.errors import UsageError
from sacbbf.learner.augment import to_float
from sacbbf.networks import build_network
from sacbbf.policy import act
from sacbbf.run.onnx_export import Acting, onnx_bytes
from sacbbf.run.settings import from_toml
from sacbbf.run.sharing import SHARED, model_card, pull, push

SMALL = {"hidden_dim": 8, "num_atoms": 5}
# Name -> network, what it sees, its type, and the name of the output.
NETWORKS = {
    "vector": (NetworkConfig(encoder="mlp", width_scale=0.25, **SMALL), (4,), torch.float32, "logits"),
    "grid": (NetworkConfig(encoder="grid", width_scale=0.25, **SMALL), (4, 10, 10), torch.bool, "logits"),
    "nature images": (
        NetworkConfig("centred-nature", width_scale=0.1, **SMALL),
        (4, 36, 36),
        torch.uint8,
        "logits",
    ),
    "impala images": (NetworkConfig(encoder="impala", width_scale=0.1, **SMALL), (4, 21, 21), torch.uint8, "logits"),
    "no policy": (
        NetworkConfig(encoder="mlp", width_scale=0.25, policy=False, hidden_dim=8, num_atoms=7),
        (4,),
        torch.float32,
        "q",
    ),
}


# --- ONNX ---


@pytest.mark.parametrize("name", NETWORKS)
def test_onnx_gives_the_same_numbers_for_any_batch(name):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    config, shape, dtype, output = NETWORKS[name]
    generator = torch.Generator().manual_seed(0)
    network = build_network(config, shape, 3, self_prediction=True, device=torch.device("cpu"), generator=generator)
    content = onnx_bytes(Acting(network), shape, dtype)
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()] == ["states"]
    assert [one.name for one in session.get_outputs()] == [output]
    for batch in (1, 5, 1_000):
        high = {torch.uint8: 256, torch.bool: 2}.get(dtype)
        size = (batch, *shape)
        states = torch.rand(size, generator=generator)
        states = states if high is None else torch.randint(high, size, generator=generator).to(dtype)
        (found,) = session.run([output], {"states": states.numpy()})
        with torch.inference_mode():
            expected = act(network, to_float(states)).numpy()
        assert found.shape == (batch, 3)
        assert np.allclose(found, expected, atol=1e-5)
        assert np.allclose(softmax(found, axis=1), softmax(expected, axis=1), rtol=0.0, atol=1e-5)
        assert np.ptp(expected) > 1e-3  # there is something to get wrong


def test_export_writes_onnx_of_a_run(finished_run, tmp_path, capsys):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    path = tmp_path / "policy.onnx"
    assert run(["export", str(finished_run.path), "--onnx", str(path)]) == 0
    assert f"onnx {path}" in capsys.readouterr().out
    states = np.eye(5, dtype=np.float32)
    (logits,) = runtime.InferenceSession(path).run(None, {"states": states})
    best, _ = Agent.load(finished_run.path).predict(states, deterministic=True)
    assert np.array_equal(logits.argmax(1), best)


@pytest.mark.parametrize("env", ["toys/Identity-v0", "MinAtar/Breakout-v1", "Pong"])
def test_an_exported_model_takes_what_make_env_gives_and_says_what_it_is_of(env, tmp_path):
    """Floats, grids of booleans that are shown as 0 and 1, and bytes."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    agent = SACBBF(env, settings={"network.hidden_dim": 8, "size": "tiny"})
    agent.save(tmp_path / "agent")
    path = tmp_path / "policy.onnx"
    assert run(["export", str(tmp_path / "agent"), "--onnx", str(path)]) == 0
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    made = agent.make_env()
    state, _ = made.reset(seed=0)
    (logits,) = session.run(None, {"states": state[None]})
    assert logits.shape == (1, agent.action_space.n)
    action, _ = agent.predict(state, deterministic=True)
    assert logits[0].argmax() == action
    facts = session.get_modelmeta().custom_metadata_map
    assert (facts["env"], facts["agent"], facts["stack"]) == (env, "sac-bbf", str(agent.config.stack))
    assert len(json.loads(facts["actions"])) == agent.action_space.n and facts["sacbbf"] == __version__


@pytest.mark.parametrize("package", ["onnx", "onnxscript"])
def test_a_package_that_onnx_lacks_is_named(package, finished_run, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, package, None)
    assert run(["export", str(finished_run.path), "--onnx", str(tmp_path / "policy.onnx")]) == 2
    assert "pip install 'sacbbf[onnx]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_export_wants_to_know_what(finished_run, capsys):
    assert run(["export", str(finished_run.path)]) == 2
    assert "--onnx FILE, --hub DIR" in capsys.readouterr().err


# --- a folder for the Hub ---


@pytest.fixture
def folder(finished_run, tmp_path):
    assert run(["export", str(finished_run.path), "--hub", str(tmp_path / "hub")]) == 0
    return tmp_path / "hub"


def test_the_folder_holds_what_playing_needs_and_no_more(folder, finished_run, tmp_path):
    names = {path.name for path in folder.iterdir()}
    assert names == {"config.toml", "policy.safetensors", "result.json", "curve.png", "README.md"}
    for name in names - {"README.md"}:
        assert (folder / name).read_bytes() == (finished_run.path / name).read_bytes()
    returns = json.loads(finished_run.result.read_text())["returns"]
    assert Agent.load(folder).evaluate(4).scores == tuple(returns)
    out = tmp_path / "scores.json"
    assert run(["evaluate", str(folder), "--episodes", "4", "--json", str(out)]) == 0
    assert json.loads(out.read_text())["returns"] == returns


def test_a_video_goes_along(finished_run, tmp_path):
    copy = Path(shutil.copytree(finished_run.path, tmp_path / "copy"))
    (copy / "video.mp4").write_bytes(b"moving")
    assert run(["export", str(copy), "--hub", str(tmp_path / "hub")]) == 0
    assert (tmp_path / "hub/video.mp4").read_bytes() == b"moving"
    assert '<video src="video.mp4"' in (tmp_path / "hub/README.md").read_text()


def test_the_card_tells_the_score_to_people_and_to_the_hub(folder, finished_run):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    result = json.loads(finished_run.result.read_text())
    _, front, text = (folder / "README.md").read_text().split("---\n", 2)
    meta = yaml.safe_load(front)
    assert meta["library_name"] == "sacbbf"
    assert {"reinforcement-learning", "sac-bbf", "toys/Identity-v0"} <= set(meta["tags"])
    (found,) = meta["model-index"][0]["results"]
    deviation = np.std(result["returns"], ddof=1)
    assert found["metrics"][0]["value"] == f"{result['score']:.2f} +/- {deviation:.2f}"
    assert found["dataset"]["name"] == "toys/Identity-v0"
    assert f"Mean score {result['score']:.2f}" in text and 'Agent.load("folder")' in text and "<video" not in text


def test_the_card_of_an_atari_run_compares_with_people(finished_run):
    config = replace(from_toml(finished_run.config), env="Pong")
    result = json.loads(finished_run.result.read_text()) | {"human_normalised": 0.5}
    card = model_card(config, result | {"baselines": {"random": {"score": -20.5}}}, video=False)
    assert "Human-normalised 0.500 (random play -20.7, a human 14.6)." in card
    assert "The random player scores -20.50." in card


def test_a_saved_agent_makes_a_folder_without_a_score(tmp_path):
    saved = SACBBF("CartPole-v1").save(tmp_path / "saved")
    assert run(["export", str(saved), "--hub", str(tmp_path / "hub")]) == 0
    text = (tmp_path / "hub/README.md").read_text()
    assert "model-index" not in text and "Mean score" not in text and "# sac-bbf on CartPole-v1" in text


def test_a_folder_with_other_files_is_refused(finished_run, tmp_path, capsys):
    (tmp_path / "letter.txt").write_text("dear")
    assert run(["export", str(finished_run.path), "--hub", str(tmp_path)]) == 2
    assert "holds other files already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_run_without_a_policy_is_refused(finished_run, tmp_path, capsys):
    copy = Path(shutil.copytree(finished_run.path, tmp_path / "copy"))
    (copy / "policy.safetensors").unlink()
    assert run(["export", str(copy), "--hub", str(tmp_path / "hub")]) == 2
    assert "lacks policy.safetensors" in capsys.readouterr().err and not (tmp_path / "hub").exists()


# --- the Hub ---


@dataclass
class Hub:
    """Stands in for huggingface_hub: keeps calls, serves a folder, or fails."""

    served: Path | None = None
    failure: Exception | None = None
    calls: list = field(default_factory=list)

    def HfApi(self):  # noqa: N802 - the name there
        return self

    def create_repo(self, repository, **words):
        self._note("create", repository, words)

    def upload_folder(self, **words):
        self._note("upload", words.pop("repo_id"), words)
        return SimpleNamespace(repo_url="https://hub.example/me/pole")

    def snapshot_download(self, repository, *, local_dir, **words):
        self._note("download", repository, words)
        if self.served is not None:
            shutil.copytree(self.served, local_dir, dirs_exist_ok=True)
        return local_dir

    def _note(self, *call):
        if self.failure is not None:
            raise self.failure
        self.calls.append(call)


@pytest.fixture
def hub(monkeypatch):
    made = Hub()
    monkeypatch.setattr("sacbbf.run.sharing._hub", lambda: made)
    return made


def test_push_uploads_the_folder(folder, hub, capsys):
    assert run(["push", str(folder), "me/pole", "--private"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "https://hub.example/me/pole"
    (create, upload) = hub.calls
    assert create == ("create", "me/pole", {"private": True, "exist_ok": True})
    assert upload[:2] == ("upload", "me/pole") and upload[2]["folder_path"] == folder
    assert upload[2]["allow_patterns"] == list(SHARED)


def test_push_refuses_what_is_no_policy(hub, tmp_path, capsys):
    assert run(["push", str(tmp_path), "me/pole"]) == 2
    assert "lacks config.toml, policy.safetensors" in capsys.readouterr().err and hub.calls == []


@pytest.mark.parametrize("name", ["video.mp4", "README.md", "config.toml"])
def test_links_out_of_a_folder_are_neither_pushed_nor_pulled(name, folder, hub, tmp_path, capsys):
    (tmp_path / "secret").write_bytes((folder / name).read_bytes() if (folder / name).exists() else b"secret")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / "secret")
    hub.served = folder
    assert run(["push", str(folder), "me/pole"]) == 2
    assert f"{name}: it is a link that leads out of its folder" in capsys.readouterr().err and hub.calls == []


def test_a_result_of_other_kinds_is_not_exported(folder, tmp_path, capsys):
    (folder / "result.json").write_text('{"score": "<b>", "finished": true}')
    assert run(["export", str(folder), "--hub", str(tmp_path / "out")]) == 2
    assert "result.json: score = '<b>': must be a finite number" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_pull_fetches_data_alone(folder, hub, tmp_path):
    hub.served, copy = folder, tmp_path / "copy"
    (folder / "setup.py").write_text("raise SystemExit")
    assert run(["pull", "me/pole", str(copy), "--revision", "v1"]) == 0
    (call,) = hub.calls
    assert call[:2] == ("download", "me/pole")
    assert call[2] == {"revision": "v1", "allow_patterns": list(SHARED)}
    assert {path.name for path in copy.iterdir()} == {path.name for path in folder.iterdir()} - {"setup.py"}
    assert load_file(copy / "policy.safetensors").keys() == load_file(folder / "policy.safetensors").keys()
    assert len(Agent.load(copy).evaluate(2).scores) == 2


def test_pull_does_not_write_among_other_files(folder, hub, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear")
    assert run(["pull", "me/pole", str(tmp_path / "mine")]) == 2
    assert "holds other files already" in capsys.readouterr().err and hub.calls == []


def test_pull_refuses_a_repository_without_a_policy(hub, tmp_path, capsys):
    assert run(["pull", "me/pole", str(tmp_path / "copy")]) == 2
    assert "lacks config.toml, policy.safetensors" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("failure", [OSError("no route"), RuntimeError("401 Client Error"), ValueError("bad name")])
def test_errors_of_the_hub_are_told_without_a_traceback(failure, folder, hub, tmp_path, capsys):
    hub.failure = failure
    assert run(["push", str(folder), "me/pole"]) == 2
    assert f"cannot push to me/pole: {type(failure).__name__}: {failure}" in capsys.readouterr().err
    assert run(["pull", "me/pole", str(tmp_path / "copy")]) == 2
    assert f"cannot pull me/pole: {type(failure).__name__}: {failure}" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()


def test_the_package_that_the_hub_needs_is_named(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for ask in (lambda: push(folder, "me/pole", private=False), lambda: pull("me/pole", tmp_path / "copy")):
        with pytest.raises(UsageError, match=r"sacbbf\[hub\]"):
            ask()
