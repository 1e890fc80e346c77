"""From a name to an environment: Atari games, MinAtar, and whatever Gymnasium knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sacbbf.envs import configured, games
from sacbbf.envs.base import (
    EnvError,
    Environment,
    EnvSpec,
    UnknownEnvironment,
    check_at_least,
    check_sticky,
)
from sacbbf.envs.trust import CUSTOM

if TYPE_CHECKING:
    import gymnasium


SIZE = 84  # pixels of a side that pictures are shrunk to


@dataclass(frozen=True)
class EnvSettings:
    """What can be set in an environment; each kind takes what it has and leaves the rest."""

    sticky: float | None = None
    """Probability of repeating the last action; None: Atari 0, MinAtar 0.1."""
    ramping: bool = True
    """MinAtar: whether games get harder as they go."""
    max_steps: int | None = None
    """Agent steps after which an episode is cut off; None: Atari 27,000, MinAtar 5,000, else its own limit."""
    max_noops: int = 30
    """Atari: 0 to max_noops - 1 no-op agent steps begin an episode."""
    life_loss: bool = True
    """Atari: whether a lost life ends the frame skip and is reported."""
    resize: int = SIZE
    """Pixels; a picture's longer sides are shrunk to it by area; 0: kept (not Atari's)."""
    pictures: Literal["auto", "bytes", "none"] = "auto"
    """Gymnasium: what is a picture. auto: pixels of 20 or more a side; bytes: all uint8, as version 0.1.0 had it."""
    kwargs: tuple[str, ...] = ()
    """Gymnasium: KEY=VALUE, arguments the environment is made with."""
    wrappers: tuple[str, ...] = ()
    """Gymnasium: module:Class, put on in order."""
    imports: tuple[str, ...] = ()
    """Modules to import first, for what they register."""

    def __post_init__(self) -> None:
        if self.sticky is not None:
            check_sticky(self.sticky)
        if self.max_steps is not None:
            check_at_least("max_steps", self.max_steps, 1)
        check_at_least("max_noops", self.max_noops, 0)
        check_at_least("resize", self.resize, 0)
        if self.pictures not in ("auto", "bytes", "none"):
            raise EnvError(f"pictures must be auto, bytes or none, got {self.pictures!r}")
        for name in ("kwargs", "wrappers", "imports"):
            value = getattr(self, name)
            if not isinstance(value, tuple) or not all(isinstance(text, str) for text in value):
                raise EnvError(f"{name} must be a tuple of strings, got {value!r}")
        configured.read_kwargs(self.kwargs)
        for text in self.wrappers:
            configured.check_wrapper(text)
        for text in self.imports:
            configured.check_module(text)

    def given(self, *names: str) -> dict[str, Any]:
        """Those of the named settings that have a value."""
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def refuse(self, names: Sequence[str], env: str, reason: str) -> None:
        """Refuse those of the named settings that are not at their defaults."""
        for name in names:
            value = getattr(self, name)
            if value != getattr(EnvSettings, name):
                shown = ", ".join(value) if isinstance(value, tuple) else value
                raise EnvError(f"{env}: environment.{name} = {shown}: {reason}")

    def refuse_resize(self, spec: EnvSpec) -> None:
        """Refuse another size of pictures where none are seen."""
        if spec.kind != "image" and self.resize != 0:
            self.refuse(["resize"], spec.id, f"it shows a {spec.kind}, and only pictures are resized")


_BY_NAME = ("kwargs", "wrappers")  # for environments that Gymnasium makes from an id


def make_env(
    env: str | gymnasium.Env[Any, Any],
    *,
    settings: EnvSettings | None = None,
    render: bool = False,
    name: str | None = None,
    owned: bool = False,
) -> Environment:
    """The environment of that name, or a Gymnasium object made ready for the project.

    Names: an Atari game (`Pong`, `pong`, `ALE/Pong-v5`: always under the Atari 100K protocol),
    `MinAtar/Breakout-v1` (v1: the game's own actions; v0: all six), or a Gymnasium id, with the
    module that registers it in front if need be (`my_package:MyGame-v0`).
    `render=True` where pictures are wanted; Atari and MinAtar always have them.
    An object goes by `name` in its spec, and is closed with the environment only if it is `owned`.
    """
    settings = settings or EnvSettings()
    configured.import_all(settings.imports)
    if not isinstance(env, str):
        return _make_object(env, settings, render, name, owned)
    if name is not None or owned:
        raise EnvError(f"env = {env!r}: name and owned go with an object, not with a name")
    if env.startswith(CUSTOM):
        raise EnvError(
            f"env = {env!r}: this environment was handed in and cannot be made from its name; "
            "give it again, as in load(path, env=...)"
        )
    if game := games.find_game(env):
        return _make_atari(game, settings)
    if env.startswith("MinAtar/"):
        return _make_minatar(env, settings)
    return _make_registered(env, settings, render)


def known_environments() -> dict[str, tuple[str, ...]]:
    """Names that make_env takes, by group: `Atari 100K`, `Atari`, `MinAtar` and `Gymnasium`.

    The last is Gymnasium's registry as it stands, without Atari: what in it has continuous actions is
    refused only when it is made.
    """
    from sacbbf.envs import minatar

    others = tuple(name for name in games.atari_games() if name not in games.GAMES)
    return {
        "Atari 100K": games.GAMES,
        "Atari": others,
        "MinAtar": minatar.NAMES,
        "Gymnasium": tuple(sorted(_registered_ids())),
    }


def _registered_ids() -> list[str]:
    import gymnasium

    own = ("ale_py", "minatar")  # played without Gymnasium
    return [id for id, spec in gymnasium.registry.items() if not str(spec.entry_point).startswith(own)]


def _make_atari(game: str, settings: EnvSettings) -> Environment:
    from sacbbf.envs.atari import AtariEnvironment, AtariSettings

    settings.refuse([*_BY_NAME, "pictures"], game, "is for Gymnasium's environments; Atari's protocol is fixed")
    if settings.resize == 0:
        raise EnvError(f"{game}: environment.resize = 0: frames of Atari need a size, {SIZE} under the protocol")
    given = settings.given("sticky", "max_steps", "max_noops", "life_loss")
    return AtariEnvironment(game, AtariSettings(size=settings.resize, **given))


def _make_minatar(name: str, settings: EnvSettings) -> Environment:
    from sacbbf.envs.minatar import NAMES, MinAtarEnvironment, MinAtarSettings

    if name not in NAMES:
        raise _unknown(name)
    settings.refuse([*_BY_NAME, "pictures", "resize"], name, "is for Gymnasium's environments; MinAtar's are grids")
    return MinAtarEnvironment(name, MinAtarSettings(**settings.given("sticky", "ramping", "max_steps")))


def _make_object(
    env: gymnasium.Env[Any, Any], settings: EnvSettings, render: bool, name: str | None, owned: bool
) -> Environment:
    import gymnasium

    from sacbbf.envs.gymnasium import make_gymnasium

    if not isinstance(env, gymnasium.Env):
        raise refuse_foreign(env)
    inner = env.unwrapped
    if type(inner).__module__.startswith("ale_py"):
        raise _other_protocol("a Gymnasium object of Atari", str(getattr(inner, "_game", "")) or str(env))
    kind = type(inner).__name__
    _refuse_sticky(settings, kind)
    settings.refuse(_BY_NAME, kind, "goes with an environment's name; give the object as it is to be played")
    return make_gymnasium(env, settings, name=name, render=render, owned=owned)


def refuse_foreign(env: object) -> EnvError:
    """Return what to say of something that is no environment."""
    kind = f"{type(env).__module__}.{type(env).__qualname__}".removeprefix("builtins.")
    mro = [f"{parent.__module__}.{parent.__qualname__}" for parent in type(env).__mro__]
    hint = ""
    if any(name.startswith(("gymnasium.vector.", "stable_baselines3.")) for name in mro):
        hint = "; a vector environment is several at once: give one of them, or a function that makes one"
    elif any(name.startswith("gym.") for name in mro):
        hint = "; an environment of the old package gym can be converted by shimmy.GymV26CompatibilityV0"
    return EnvError(
        f"env must be an environment's name, a gymnasium.Env, or a function that makes one, got {kind}{hint}"
    )


def _other_protocol(words: str, game: str) -> EnvError:
    found = games.find_game(game) or game
    return EnvError(f"env = {words}: Atari is played under the Atari 100K protocol, as {found}")


def _make_registered(name: str, settings: EnvSettings, render: bool) -> Environment:
    from sacbbf.envs.gymnasium import make_gymnasium

    id = _find_registered(name)
    _refuse_sticky(settings, name)
    return make_gymnasium(id, settings, name=name, render=render)


def _find_registered(name: str) -> str:
    """Return the id that Gymnasium knows; a `module:` in front is imported first, which may register it."""
    import gymnasium

    module, _, id = name.rpartition(":")
    if module:
        configured.import_module(module, f"env = {name!r}")
    try:
        spec = gymnasium.spec(id)
    except gymnasium.error.Error as error:
        raise _unknown(name) from error
    if str(spec.entry_point).startswith("ale_py"):  # `Pong-v4` and the like: other protocols, other frames
        raise _other_protocol(repr(name), str(spec.kwargs["game"]))
    return id


def _refuse_sticky(settings: EnvSettings, name: str) -> None:
    if settings.sticky:
        raise EnvError(f"{name}: sticky = {settings.sticky} is for Atari and MinAtar; leave it out or set it to 0")


def _unknown(name: str) -> UnknownEnvironment:
    from sacbbf.envs import minatar

    atari = games.atari_games()
    if name.casefold().startswith("ale/"):
        atari = tuple(games.ale_id(game) for game in atari)
    hint = games.nearest(name, [*atari, *minatar.NAMES, *_registered_ids()])
    return UnknownEnvironment(
        f"env = {name!r} is not an environment: it takes an Atari game (Pong), one of MinAtar's "
        f"(MinAtar/Breakout-v1) or a Gymnasium id (CartPole-v1, module:id){games.suggestion(hint)}"
    )
