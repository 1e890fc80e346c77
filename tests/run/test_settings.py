"""A run's configuration: resolved from a few words, stored, read back, compared."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest
import tomli_w

from sacbbf.agents.config import flatten
from sacbbf.agents.presets import SIZES, preset
from sacbbf.envs.base import UnknownEnvironment
from sacbbf.envs.make import EnvSettings
from sacbbf.errors import UsageError
from sacbbf.run.devices import resolve_device
from sacbbf.run.fitting import check_fit
from sacbbf.run.settings import (
    EvalConfig,
    check_run,
    differences,
    from_toml,
    overlay,
    read_spec,
    read_toml,
    resolve,
    to_toml,
)


@pytest.fixture
def config():
    return resolve("CartPole-v1")[0]


def test_a_vector_is_played_at_tiny_size_by_default(config):
    assert (config.size, config.steps, config.seed, config.stack) == ("tiny", SIZES["tiny"].steps, 0, 1)
    assert config.settings == preset("tiny", "vector", config.steps)


def test_an_atari_game_is_played_at_laptop_size_on_a_cpu():
    config, spec = resolve("ALE/Pong-v5", device="cpu")
    assert (config.env, config.size, spec.game) == ("Pong", "laptop", "Pong")
    assert config.stack == 4 and config.clip_rewards


def test_steps_scale_the_schedules():
    config, _ = resolve("CartPole-v1", size="tiny-paper", steps=50_000)
    assert config.settings.schedule.reset_every == 20_000
    assert config.settings.schedule.cycle == 5_000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"agent": "nobody"}, "agent = 'nobody': must be one of der, .*, random, blind"),
        ({"size": "huge"}, "size = 'huge': must be one of paper, laptop, tiny"),
        ({"steps": 0}, "steps = 0: must be at least 1"),
        ({"replay_ratio": 0}, "replay_ratio = 0: must be at least 1"),
        ({"device": "tpu"}, "device = 'tpu': must be auto, cpu, cuda, cuda:N or mps"),
    ],
)
def test_a_bad_word_is_named_with_what_it_takes(words, message):
    with pytest.raises(UsageError, match=message):
        resolve("CartPole-v1", **words)


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    assert resolve_device("auto") == "cpu"
    for device in ("cuda", "cuda:1", "mps"):
        with pytest.raises(UsageError, match=f"device = '{device}'"):
            resolve_device(device)


def test_an_unknown_environment_is_refused():
    with pytest.raises(UnknownEnvironment, match="did you mean Pong"):
        resolve("Pongg")


@pytest.mark.parametrize(
    "change",
    [
        {"seed": -1},
        {"stack": 0},
        {"steps": 0},
        {"threads": -1},
        {"threads": 10**6},
        {"log_every": 0},
        {"eval": EvalConfig(every=-1)},
        {"eval": EvalConfig(every_episodes=0)},
        {"eval": EvalConfig(episodes=0)},
        {"eval": EvalConfig(parallel=0)},
    ],
)
def test_a_setting_out_of_range_is_refused(change, config):
    check_run(config)
    (name,) = change
    with pytest.raises(UsageError, match=rf"{name}.* = -?\d+: must be"):
        check_run(replace(config, **change))


@pytest.mark.parametrize(("env", "encoder"), [("CartPole-v1", "impala"), ("toys/Catch-v0", "mlp")])
def test_an_encoder_for_other_observations_is_refused(env, encoder):
    config, spec = resolve(env)
    check_fit(config, spec)
    network = replace(config.settings.network, encoder=encoder)
    with pytest.raises(UsageError, match=f"network.encoder = '{encoder}'.*must be"):
        check_fit(replace(config, settings=replace(config.settings, network=network)), spec)


def test_an_encoder_that_nobody_has_registered_is_refused():
    config, spec = resolve("toys/Catch-v0")
    network = replace(config.settings.network, encoder="vit")
    with pytest.raises(
        UsageError, match=r"network\.encoder = 'vit': must be one of impala, nature, centred-nature, grid, mlp"
    ):
        check_fit(replace(config, settings=replace(config.settings, network=network)), spec)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pong", "toys/Catch-v0"])
def test_toml_gives_back_the_same_configuration(env, tmp_path):
    environment = EnvSettings(max_steps=77)
    config, _ = resolve(env, seed=3, steps=1_234, replay_ratio=4, environment=environment)
    config = replace(config, eval=EvalConfig(every=7, greedy=True))
    path = tmp_path / "config.toml"
    path.write_text(to_toml(config))
    assert from_toml(path) == config
    assert read_spec(config.env, from_toml(path).environment).max_steps == 77


def test_a_whole_configuration_lacks_nothing(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text('env = "CartPole-v1"\nagent = "random"\n')
    with pytest.raises(UsageError, match="lacks size, steps, seed"):
        from_toml(path)


def test_overlay_replaces_only_what_is_given(config):
    tables = {"seed": 4, "settings": {"network": {"hidden_dim": 33, "v_max": 5}}}
    changed = overlay(config, tables, "file")
    assert differences(config, changed) == {
        "seed": (0, 4),
        "settings.network.hidden_dim": (config.settings.network.hidden_dim, 33),
        "settings.network.v_max": (config.settings.network.v_max, 5.0),
    }
    assert isinstance(changed.settings.network.v_max, float)  # a whole number is a number too


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"sede": 1}, r"no setting sede; did you mean seed\?"),
        ({"zzz": 1}, "no setting zzz; there are env, agent"),
        (
            {"settings": {"network": {"hidden": 1}}},
            r"no setting settings.network.hidden; did you mean settings.network.hidden_dim\?",
        ),
        ({"steps": "many"}, "steps = 'many': must be a whole number"),
        ({"steps": 1.5}, "steps = 1.5: must be a whole number"),
        ({"seed": True}, "seed = True: must be a whole number"),
        ({"clip_rewards": 1}, "clip_rewards = 1: must be true or false"),
        ({"agent": []}, r"agent = \[\]: must be one of"),
        ({"settings": {"network": {"encoder": 3}}}, "encoder = 3: must be a string"),
        ({"environment": {"sticky": "x"}}, "environment.sticky = 'x': must be a number"),
        ({"environment": {"max_steps": 2.5}}, "environment.max_steps = 2.5: must be a whole number"),
        ({"eval": 3}, "eval = 3: must be a table"),
    ],
)
def test_an_unknown_or_ill_typed_setting_is_refused(tables, message, config):
    with pytest.raises(UsageError, match=f"file: .*{message}"):
        overlay(config, tables, "file")


def test_unreadable_files_are_refused(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read the configuration .*none\.toml"):
        read_toml(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("steps = = 3")
    with pytest.raises(UsageError, match=r"bad\.toml: it is not a configuration in TOML.*line 1"):
        read_toml(tmp_path / "bad.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is not a configuration"):
        read_toml(tmp_path / "bad.toml")


@pytest.mark.parametrize("number", ["0x" + "f" * 9_999, "9" * 9_999, "1" + "0" * 400])
def test_a_number_that_toml_does_not_have_is_refused(number, tmp_path):
    path = tmp_path / "config.toml"
    for line in (f"steps = {number}", f"learning_rate = [[{{ x = {number} }}]]"):
        path.write_text(line)
        with pytest.raises(UsageError, match=r"cannot read .*config\.toml: it is not a configuration in TOML: "):
            from_toml(path)


def test_equal_configurations_do_not_differ(config):
    assert differences(config, replace(config)) == {}
    assert flatten(config)["settings.schedule.n_start"] == 10


@pytest.mark.parametrize(("on_device", "frames"), [(False, "host"), (True, "device")])
def test_a_configuration_of_an_earlier_version_is_read(config, tmp_path, on_device, frames):
    config = replace(config, device="cpu")
    path = tmp_path / "config.toml"
    tables = tomllib.loads(to_toml(config))
    compute = tables["settings"]["compute"]
    del compute["frames"], compute["kernels"]
    compute |= {"frames_on_device": on_device, "precision": "float32"}
    path.write_text(tomli_w.dumps(tables))
    found = from_toml(path)
    assert differences(found, config) == {"settings.compute.frames": (frames, "auto")}


@pytest.mark.parametrize(
    ("env", "encoder", "then"),
    [
        ("my_games:Mine-v0", "impala", {"resize": 0, "pictures": "bytes"}),
        ("my_games:Mine-v0", "grid", {"resize": 0, "pictures": "bytes"}),
        ("CartPole-v1", "mlp", {}),
        ("MinAtar/Breakout-v1", "grid", {}),
        ("Pong", "impala", {}),
    ],
)
def test_what_an_earlier_version_saw_is_seen_again(config, tmp_path, env, encoder, then):
    path = tmp_path / "config.toml"
    tables = tomllib.loads(to_toml(config)) | {"env": env}
    tables["settings"]["network"]["encoder"] = encoder
    for name in ("resize", "pictures", "kwargs", "wrappers", "imports"):
        del tables["environment"][name]
    path.write_text(tomli_w.dumps(tables))
    assert from_toml(path).environment == EnvSettings(**then)


@pytest.mark.parametrize("value", ["one; two", ["one", "two"]])
def test_a_list_may_be_given_in_one_string(config, value):
    changed = overlay(config, {"environment": {"imports": value}}, "file")
    assert changed.environment.imports == ("one", "two")


@pytest.mark.parametrize("value", [3, ["one", 2], {"one": 1}])
def test_a_list_of_anything_but_strings_is_refused(config, value):
    with pytest.raises(UsageError, match=r"environment\.imports = .*: must be a list of strings"):
        overlay(config, {"environment": {"imports": value}}, "file")


def test_an_unknown_setting_is_still_refused(config, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(to_toml(config) + "no_such = 1\n")
    with pytest.raises(UsageError, match=r"no setting .*no_such"):
        from_toml(path)
