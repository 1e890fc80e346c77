"""Agents as objects: they learn as the command line's do, bit for bit, play, are kept and come back."""

from __future__ import annotations

import inspect
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from small_api import FLAGS, SETTINGS, STEPS, kept, make

import sacbbf
from sacbbf import BBF, SACBBF, Agent, UsageError
from sacbbf.api import AGENT_CLASSES
from sacbbf.api.agent import ARGUMENTS
from sacbbf.cli import run
from sacbbf.policy import NetworkPolicy
from sacbbf.run.settings import differences, from_toml
from toys import IDENTITY


@pytest.fixture(scope="module")
def learned():
    """An agent that learned without a stop."""
    return make().learn(STEPS)


@pytest.fixture(scope="module")
def folder(learned, tmp_path_factory):
    """Where it is saved. Not to be written to."""
    return learned.save(tmp_path_factory.mktemp("agents") / "learned")


@pytest.fixture(scope="module")
def content(folder):
    return (folder / "policy.safetensors").read_bytes()


# --- learning ---


def test_learning_gives_the_bits_of_the_command_line(content, folder, tmp_path):
    out = tmp_path / "run"
    words = ["--steps", str(STEPS), "--seed", "3", "--eval.episodes", "3", "--eval.no-baselines", "--quiet"]
    assert run(["train", IDENTITY, "--out", str(out), *words, *FLAGS]) == 0
    assert (out / "policy.safetensors").read_bytes() == content
    found = differences(from_toml(folder / "config.toml"), from_toml(out / "config.toml"))
    assert found.keys() == {"eval.episodes", "eval.baselines"}
    result = json.loads((out / "result.json").read_text())
    assert Agent.load(out).evaluate(3).scores == tuple(result["returns"])


def test_learning_changes_the_agent(content, tmp_path):
    assert kept(make(), tmp_path / "fresh") != content


def test_learning_that_was_stopped_goes_on_to_the_same_bits(content, tmp_path):
    agent = make()
    assert agent.learn(STEPS, callback=lambda agent: agent.steps < 97) is agent
    assert agent.steps == 97
    assert kept(agent, tmp_path / "half") != content
    agent.learn()
    assert agent.steps == STEPS
    assert kept(agent, tmp_path / "whole") == content
    with pytest.raises(UsageError, match="the 160 steps that were announced are done; say how many more"):
        agent.learn()


def test_an_agent_that_has_only_played_learns_as_a_new_one(content, tmp_path):
    agent = make()
    agent.evaluate(1)
    agent.predict(np.eye(5, dtype=np.float32))
    assert agent.network.num_actions == 5
    assert agent.learn(STEPS).config.steps == STEPS
    assert kept(agent, tmp_path / "played") == content


def test_steps_that_are_refused_change_nothing():
    agent = make()
    network, steps = agent.network, agent.config.steps
    with pytest.raises(UsageError, match="total_timesteps = 0"):
        agent.learn(0)
    assert agent.network is network and agent.config.steps == steps


def test_threads_can_be_set_and_are_given_back(monkeypatch):
    agent, seen, before = make(settings=SETTINGS | {"threads": 2}), [], torch.get_num_threads()
    logits = NetworkPolicy.logits

    def noted(self, states, masks=None):
        seen.append(torch.get_num_threads())
        return logits(self, states, masks)

    monkeypatch.setattr(NetworkPolicy, "logits", noted)
    agent.predict(np.eye(5, dtype=np.float32))
    agent.evaluate(1)
    assert len(seen) == 11 and torch.get_num_threads() == before
    agent.learn(1, callback=lambda agent: seen.append(torch.get_num_threads()))
    assert set(seen) == {2} and len(seen) == 12 and torch.get_num_threads() == before


def test_schedules_stretch_over_the_steps():
    half, whole = (make().learn(steps, callback=lambda agent: False).config for steps in (5_000, 10_000))
    assert whole.settings.schedule.reset_every == 2 * half.settings.schedule.reset_every > 0


def test_progress_is_shown_on_request_only(capsys, monkeypatch):
    monkeypatch.setattr("sacbbf.run.display.LINE_EVERY", 0.0)
    make().learn(3)
    assert capsys.readouterr().out == ""
    make().learn(3, progress_bar=True)
    assert "learning 3/3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"settings": {"learning-rate": 3}}, "no setting learning-rate; did you mean optimiser.learning_rate?"),
        ({"settings": {"network.hiden_dim": 3}}, "no setting network.hiden_dim; did you mean network.hidden_dim?"),
        ({"settings": {"network.hidden_dim": 0}}, "network.hidden_dim = 0"),
        ({"settings": {"network.encoder": "impala"}}, "network.encoder = 'impala'"),
        ({"settings": {"env": "Pong"}}, "settings: env = 'Pong': is given on its own, not among the settings"),
        ({"settings": {"agent": "bbf"}}, "settings: agent = 'bbf': is given on its own"),
        ({"settings": {"seed": 7}}, "settings: seed = 7: is given on its own"),
        ({"settings": {"device": "cpu"}}, "settings: device = 'cpu': is given on its own"),
        ({"size": "huge"}, "size = 'huge'"),
        ({"seed": -1}, "seed = -1"),
        ({"device": "tpu"}, "device = 'tpu'"),
    ],
)
def test_bad_words_are_refused(words, message):
    with pytest.raises(UsageError, match=message):
        make(**words)


def test_an_unknown_environment_is_refused():
    with pytest.raises(UsageError, match="did you mean Pong"):
        SACBBF("Pongg")


# --- playing ---


def test_predict_takes_one_state_or_a_batch(learned):
    states = np.eye(5, dtype=np.float32)
    one, memory = learned.predict(states[0], state="kept")
    assert one.shape == () and one.dtype == np.int64 and memory == "kept" and 0 <= one < 5
    many, memory = learned.predict(states)
    assert many.shape == (5,) and memory is None and set(many) <= set(range(5))


def test_deterministic_predictions_are_the_most_likely_actions():
    agent = make(seed=5).learn(STEPS)
    network = agent.network
    with torch.inference_mode():
        likely = network.policy_logits(network.policy_features(network.encode(torch.eye(5)))).softmax(1).numpy()
    assert len(set(likely.argmax(1))) > 1  # no single action is the best in all states
    best, _ = agent.predict(np.eye(5, dtype=np.float32), deterministic=True)
    assert np.array_equal(best, likely.argmax(1))
    again, _ = agent.predict(np.repeat(np.eye(5, dtype=np.float32), 300, axis=0), deterministic=True)
    assert np.array_equal(again, np.repeat(best, 300))


def test_other_predictions_are_drawn_as_likely_as_the_policy_has_them(folder):
    agent, draws = Agent.load(folder), 2_000
    with torch.inference_mode():
        latent = agent.network.encode(torch.eye(5))
        likely = agent.network.policy_logits(agent.network.policy_features(latent)).softmax(1).numpy()
    assert np.ptp(likely) > 0.05  # chance is something else
    drawn, _ = agent.predict(np.repeat(np.eye(5, dtype=np.float32), draws, axis=0))
    shares = np.stack([np.bincount(part, minlength=5) / draws for part in drawn.reshape(5, draws)])
    assert np.abs(shares - likely).max() < 4 * 0.5 / draws**0.5  # four standard deviations


def test_draws_belong_to_the_seed(folder):
    states = np.repeat(np.eye(5, dtype=np.float32), 20, axis=0)
    first, second = (Agent.load(folder) for _ in range(2))
    drawn = first.predict(states)[0]
    assert np.array_equal(drawn, second.predict(states)[0])
    assert not np.array_equal(drawn, first.predict(states)[0])


@pytest.mark.parametrize("shape", [(4,), (2, 4), (2, 3, 5), ()])
def test_predict_refuses_another_shape(shape, learned):
    with pytest.raises(UsageError, match="observation has shape"):
        learned.predict(np.zeros(shape, np.float32))


def test_evaluations_say_what_they_found(learned):
    found = learned.evaluate(6)
    assert found.mean == pytest.approx(np.mean(found.scores)) and len(found.scores) == 6
    assert found.standard_error == pytest.approx(np.std(found.scores, ddof=1) / 6**0.5)
    assert found.interval[0] <= found.mean <= found.interval[1]
    assert str(found).startswith(f"{found.mean:.2f} (95% interval") and "6 episodes" in str(found)
    assert learned.evaluate(6).scores == found.scores
    assert learned.evaluate(6, seed=9).scores != found.scores
    assert learned.evaluate(6, greedy=True).scores != found.scores


def test_an_agent_whose_evaluation_is_greedy_evaluates_so(folder):
    agent = Agent.load(folder)
    plain, greedy = agent.evaluate(6).scores, agent.evaluate(6, greedy=True).scores
    other = make(settings=SETTINGS | {"eval.greedy": True})
    other._loaded = agent.network
    assert other.evaluate(6).scores == greedy != plain


@pytest.mark.parametrize("name", AGENT_CLASSES)
def test_every_agent_plays(name):
    agent = AGENT_CLASSES[name]("CartPole-v1")
    states = np.stack([agent.make_env().reset(seed=seed)[0] for seed in range(3)])
    assert agent.config.agent == name == agent.name
    assert set(agent.predict(states)[0]) <= {0, 1}
    assert agent.evaluate(1).mean >= 8  # a pole takes that long to fall


# --- keeping ---


def test_a_loaded_agent_scores_as_it_did(learned, folder, tmp_path):
    loaded = SACBBF.load(folder)
    assert type(loaded) is type(Agent.load(folder)) is SACBBF
    assert loaded.config == learned.config and loaded.steps == 0
    scores = learned.evaluate(5).scores
    assert loaded.evaluate(5).scores == scores
    assert run(["evaluate", str(folder), "--episodes", "5", "--json", str(tmp_path / "scores.json")]) == 0
    assert tuple(json.loads((tmp_path / "scores.json").read_text())["returns"]) == scores


def test_a_loaded_agent_is_saved_as_it_was(folder, content, tmp_path):
    assert kept(Agent.load(folder), tmp_path / "copy") == content
    assert (tmp_path / "copy/config.toml").read_bytes() == (folder / "config.toml").read_bytes()


def test_a_run_directory_can_be_loaded(finished_run):
    agent = Agent.load(finished_run.path)
    assert agent.evaluate(4).scores == tuple(json.loads(finished_run.result.read_text())["returns"])


def test_load_refuses_another_agent_and_a_folder_that_is_none(folder, tmp_path):
    with pytest.raises(UsageError, match="holds the agent 'sac-bbf': must be bbf"):
        BBF.load(folder)
    with pytest.raises(UsageError, match="is not a run directory"):
        Agent.load(tmp_path)


def test_save_does_not_write_among_other_files(learned, tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match="holds other files already"):
        learned.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("state", [False, True])
def test_save_does_not_write_over_a_run(state, learned, finished_run, tmp_path):
    """Whether it is finished, or still has a state to go on from."""
    out = shutil.copytree(finished_run.path, tmp_path / "run")
    if state:
        (out / "state.000001").mkdir()
        (out / "result.json").unlink()
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    with pytest.raises(UsageError, match="holds a run"):
        learned.save(out)
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before


def test_a_saved_agent_is_saved_anew(learned, content, tmp_path):
    make().save(tmp_path / "agent")
    assert kept(learned, tmp_path / "agent") == content


@pytest.mark.parametrize("words", [["resume"], ["train", IDENTITY, "--steps", "20", "--quiet", "--out"]])
def test_no_run_is_begun_where_an_agent_is_saved(words, learned, tmp_path, capsys):
    out = learned.save(tmp_path / "agent")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert run([*words, str(out)]) == 2
    assert f"out = {out}: holds a saved agent" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


# --- the package ---


def test_public_names_are_there():
    found = {name: getattr(sacbbf, name) for name in sacbbf.__all__}
    assert all(found[name].__name__ == name for name in found if name != "__version__")
    assert set(AGENT_CLASSES.values()) <= set(found.values())
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = sacbbf.Nothing
    assert dir(sacbbf) == sorted(sacbbf.__all__)


def test_importing_the_package_is_cheap():
    code = "import sys, sacbbf; print(sacbbf.__version__, *({'torch', 'numpy', 'gymnasium'} & sys.modules.keys()))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == [sacbbf.__version__]


def test_an_argument_that_is_a_setting_is_refused_with_the_setting_s_name():
    with pytest.raises(UsageError, match=r"learning_rate = 0.001: is no argument; .* did you mean optimiser\.lea"):
        SACBBF(IDENTITY, learning_rate=1e-3)
    with pytest.raises(UsageError, match=r"tensorbord_log = 'x': .*; did you mean tensorboard_log\?"):
        SACBBF(IDENTITY, tensorbord_log="x")
    with pytest.raises(UsageError, match=r"policy_kwargs = \{\}: .*; there are env, size, seed, .*, tensorboard_log$"):
        SACBBF(IDENTITY, policy_kwargs={})


def test_a_policy_s_name_before_the_environment_is_refused():
    with pytest.raises(UsageError, match=r"SACBBF\('MlpPolicy', 'toys/.*'\): must be SACBBF\(env\)"):
        SACBBF("MlpPolicy", IDENTITY)


def test_every_argument_of_a_new_agent_is_known_by_name():
    taken = inspect.signature(SACBBF).parameters.values()
    assert tuple(one.name for one in taken if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)) == ARGUMENTS
