"""Names that lead to an environment, and what is said when they do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sacbbf.envs
from sacbbf.envs import games
from sacbbf.envs.atari import AtariEnvironment
from sacbbf.envs.base import EnvError, Environment, UnknownEnvironment
from sacbbf.envs.make import EnvSettings, known_environments, make_env
from sacbbf.envs.minatar import MinAtarEnvironment


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("Pong", "Pong"),
        ("ms_pacman", "MsPacman"),
        ("ALE/Pong-v5", "Pong"),
        ("MinAtar/Breakout-v1", "MinAtar/Breakout-v1"),
        ("CartPole-v1", "CartPole-v1"),
    ],
)
def test_names_lead_to_environments_that_are_found_again(name: str, id: str) -> None:
    env = make_env(name)
    assert isinstance(env, Environment)
    assert env.spec.id == id
    assert games.find_game(id) == env.spec.game


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Pongg", "Pong"),
        ("breakot", "Breakout"),
        ("ALE/Pongg-v5", "ALE/Pong-v5"),
        ("ALE/Pong-v4", "ALE/Pong-v5"),
        ("MinAtar/Breakot-v1", "MinAtar/Breakout-v1"),
        ("MinAtar/breakout-v1", "MinAtar/Breakout-v1"),
        ("MinAtar/Breakout", "MinAtar/Breakout-v0"),
        ("minatar/Asterix-v1", "MinAtar/Asterix-v1"),
        ("CartPol-v1", "CartPole-v1"),
        ("cartpole-v1", "CartPole-v1"),
        ("CartPole-v7", "CartPole-v1"),
    ],
)
def test_misspelled_names_are_named_and_the_nearest_suggested(name: str, meant: str) -> None:
    with pytest.raises(UnknownEnvironment) as caught:
        make_env(name)
    message = str(caught.value)
    assert message.startswith(f"env = {name!r} is not an environment")
    assert meant in message.partition("did you mean")[2]


@pytest.mark.parametrize("name", ["", "qqqqqqqqqq", "no such: thing/!", "a/b/c"])
def test_names_like_nothing_get_no_suggestion(name: str) -> None:
    with pytest.raises(UnknownEnvironment) as caught:
        make_env(name)
    assert "did you mean" not in str(caught.value)


def test_a_module_in_front_is_imported_and_may_register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gymnasium

    (tmp_path / "own_games.py").write_text(
        "import gymnasium\ngymnasium.register('Own-v0', 'gymnasium.envs.classic_control.cartpole:CartPoleEnv')\n"
    )
    (tmp_path / "broken_games.py").write_text("import a_package_that_is_not_there\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        assert make_env("own_games:Own-v0").spec.frame_shape == (4,)
    finally:
        gymnasium.registry.pop("Own-v0", None)
    with pytest.raises(UnknownEnvironment, match="there is no module 'absent_games' to import"):
        make_env("absent_games:Own-v0")
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_not_there"):
        make_env("broken_games:Own-v0")


def test_other_atari_ids_are_referred_to_the_games_name() -> None:
    with pytest.raises(EnvError, match=r"'PongNoFrameskip-v4': Atari is played .* as Pong"):
        make_env("PongNoFrameskip-v4")


def test_settings_reach_the_environments() -> None:
    settings = EnvSettings(sticky=0.3, ramping=False, max_steps=11, max_noops=2, life_loss=False)
    atari = make_env("Pong", settings=settings)
    assert isinstance(atari, AtariEnvironment)
    reached = atari._settings
    assert (reached.sticky, reached.max_steps, reached.max_noops, reached.life_loss) == (0.3, 11, 2, False)
    minatar = make_env("MinAtar/Asterix-v1", settings=settings)
    assert isinstance(minatar, MinAtarEnvironment)
    small = minatar._settings
    assert (small.sticky, small.ramping, small.max_steps) == (0.3, False, 11)


def test_unset_settings_leave_each_environment_its_own() -> None:
    atari, minatar = make_env("Pong"), make_env("MinAtar/Asterix-v1")
    assert isinstance(atari, AtariEnvironment)
    assert isinstance(minatar, MinAtarEnvironment)
    assert (atari._settings.sticky, minatar._settings.sticky) == (0.0, 0.1)
    assert (atari.spec.max_steps, minatar.spec.max_steps) == (27_000, 5_000)


def test_sticky_actions_are_refused_where_there_are_none() -> None:
    with pytest.raises(EnvError, match=r"CartPole-v1: sticky = 0\.25 is for Atari and MinAtar"):
        make_env("CartPole-v1", settings=EnvSettings(sticky=0.25))
    make_env("CartPole-v1", settings=EnvSettings(sticky=0.0))


@pytest.mark.parametrize(("setting", "value"), [("sticky", 2.0), ("max_steps", 0), ("max_noops", -1)])
def test_settings_out_of_range_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(EnvError, match=rf"{setting} must be .*, got {value}"):
        EnvSettings(**{setting: value})


def test_what_is_no_environment_is_refused() -> None:
    with pytest.raises(EnvError, match=r"name, a gymnasium\.Env, or a function that makes one, got int"):
        make_env(3)  # type: ignore[arg-type]


def test_known_environments_are_grouped_and_found() -> None:
    known = known_environments()
    assert list(known) == ["Atari 100K", "Atari", "MinAtar", "Gymnasium"]
    assert len(known["Atari 100K"]) == 26
    assert "Tetris" in known["Atari"]
    assert not set(known["Atari 100K"]) & set(known["Atari"])
    assert len(known["MinAtar"]) == 10
    assert "CartPole-v1" in known["Gymnasium"]
    assert not any("Pong" in name for name in known["Gymnasium"])


def test_no_file_of_the_environments_imports_torch() -> None:
    files = list(Path(sacbbf.envs.__file__).parent.glob("*.py"))
    assert len(files) >= 11
    for file in files:
        assert "import torch" not in file.read_text()
        assert "from torch" not in file.read_text()


def test_the_package_offers_make_env_without_loading_torch():
    code = "import sys, sacbbf; sacbbf.make_env('CartPole-v1'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
