"""What is listed as playable can be made, and what it lacks is named."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest
from gymnasium import spaces

from sacbbf.envs import playable
from sacbbf.envs.base import MissingExtra


def needs_swimming(**_: Any) -> Any:
    raise gymnasium.error.DependencyNotInstalled('no Water, run `pip install "gymnasium[water]"`')


def needs_a_module(**_: Any) -> Any:
    raise ModuleNotFoundError("No module named 'boats.oars'", name="boats.oars")


class Steering(gymnasium.Env[Any, Any]):
    observation_space = spaces.Discrete(3)
    action_space = spaces.Box(-1.0, 1.0, (1,))


class Failing(Steering):
    def __init__(self) -> None:
        raise RuntimeError("give me a map")


def test_environments_are_listed_by_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {
        "Swim-v0": needs_swimming,
        "Row-v0": needs_a_module,
        "Steer-v0": Steering,
        "Fail-v0": Failing,
    }
    for name, entry in own.items():
        gymnasium.register(name, entry)
    names = {"Atari": ("Pong",), "MinAtar": ("MinAtar/A-v0", "MinAtar/A-v1"), "Gymnasium": ("FrozenLake-v1", *own)}
    monkeypatch.setattr(playable, "known_environments", lambda: names)
    make_env = playable.make_env

    def without_minatar(name: str) -> Any:
        if name.startswith("MinAtar/"):
            raise MissingExtra("MinAtar's games need the package MinAtar: pip install sacbbf[minatar]")
        return make_env(name)

    monkeypatch.setattr(playable, "make_env", without_minatar)
    try:
        found = playable.playable()
    finally:
        for name in own:
            del gymnasium.registry[name]
    assert found.names == {"Atari": ("Pong",), "MinAtar": (), "Gymnasium": ("FrozenLake-v1",)}
    assert found.lacking == {
        "sacbbf[minatar]": ("MinAtar/A-v0", "MinAtar/A-v1"),
        "gymnasium[water]": ("Swim-v0",),
        "boats.oars": ("Row-v0",),
    }
