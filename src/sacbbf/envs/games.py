"""The Atari games: the 26 of Atari 100K with their scores, normalisation, and every game's three names."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

# ROMs without a single-player game: the emulator ends the whole process when it is asked to load one.
_NOT_PLAYABLE = frozenset({"combat", "joust", "maze_craze", "warlords"})


@dataclass(frozen=True)
class GameScores:
    """Scores of one game, in points: a random agent's, a human's, and published means by agent."""

    random: float
    human: float
    published: Mapping[str, float]  # only the agents that were published for this game


def _read_scores() -> tuple[dict[str, GameScores], tuple[str, ...]]:
    """The packaged table: scores by game, in its order, and the agents; cells without a score are empty."""
    table = resources.files("sacbbf") / "data" / "published" / "atari100k_mean_scores.csv"
    scores: dict[str, GameScores] = {}
    rows = csv.DictReader(table.read_text(encoding="utf-8").splitlines())
    for row in rows:
        game, random, human = row.pop("game"), float(row.pop("random")), float(row.pop("human"))
        published = {agent: float(score) for agent, score in row.items() if score}
        scores[game] = GameScores(random, human, MappingProxyType(published))
    _, _, _, *agents = rows.fieldnames or ()  # after game, random and human
    return scores, tuple(agents)


_scores, _agents = _read_scores()
SCORES: Mapping[str, GameScores] = MappingProxyType(_scores)
GAMES: tuple[str, ...] = tuple(SCORES)  # the 26 games of Atari 100K, in alphabetical order
PUBLISHED_AGENTS: tuple[str, ...] = _agents  # the table's columns, the paper's order


def human_normalised(game: str, score: float) -> float:
    """(score - random) / (human - random): 0 for a random agent, 1 for a human; for the 26 games only."""
    if game not in SCORES:
        raise ValueError(
            f"{game!r} has no human-normalised score: random and human scores are known for the "
            f"{len(GAMES)} games of Atari 100K, {', '.join(GAMES)}"
        )
    scores = SCORES[game]
    return (score - scores.random) / (scores.human - scores.random)


@cache
def _roms() -> Mapping[str, str]:
    """Name of each game that ale-py can play -> its ROM id (`MsPacman` -> `ms_pacman`), by name."""
    from ale_py import roms  # not at the top: the scores above must be readable without the emulator

    playable = (rom for rom in roms.get_all_rom_ids() if rom not in _NOT_PLAYABLE)
    # ale-py registers its environments under the same spelling.
    names = {rom.title().replace("_", ""): rom for rom in playable}
    return MappingProxyType(dict(sorted(names.items())))


def _key(name: str) -> str:
    """What is left of a name when case and word breaks do not count."""
    return name.casefold().replace("_", "").replace(" ", "")


@cache
def _names_by_key() -> Mapping[str, str]:
    return MappingProxyType({_key(name): name for name in _roms()})


def atari_games() -> tuple[str, ...]:
    """Every game that can be played, in camel case and alphabetical order; the 26 are among them."""
    return tuple(_roms())


def find_game(name: str) -> str | None:
    """A game's name in camel case, from `Pong`, `pong`, `ALE/Pong-v5` or a ROM id; None if there is none."""
    if name.casefold().startswith("ale/"):
        name = name[len("ale/") :]
        if not name.casefold().endswith("-v5"):
            return None
        name = name[: -len("-v5")]
    return _names_by_key().get(_key(name))


def rom_id(game: str) -> str:
    """The ROM id of a game given in camel case: `MsPacman` -> `ms_pacman`."""
    if game not in _roms():
        hint = nearest(game, atari_games())
        raise ValueError(f"game = {game!r} is not an Atari game{suggestion(hint)}")
    return _roms()[game]


def ale_id(game: str) -> str:
    """The Gymnasium id of a game given in camel case: `MsPacman` -> `ALE/MsPacman-v5`."""
    rom_id(game)
    return f"ALE/{game}-v5"


def nearest(name: str, candidates: Iterable[str], count: int = 3) -> list[str]:
    """Up to `count` candidates that are spelled like `name`, nearest first; case does not count."""
    spelled: dict[str, str] = {}
    for candidate in candidates:
        spelled.setdefault(_key(candidate), candidate)
    return [spelled[key] for key in difflib.get_close_matches(_key(name), spelled, n=count, cutoff=0.7)]


def suggestion(names: list[str]) -> str:
    """The end of an error message: `; did you mean A, B or C?`, or nothing."""
    if not names:
        return ""
    rest = f"{', '.join(names[:-1])} or " if len(names) > 1 else ""
    return f"; did you mean {rest}{names[-1]}?"
