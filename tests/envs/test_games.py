"""Facts about the games: scores, normalisation, and the names that lead to them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sacbbf.envs import games


def test_the_26_games() -> None:
    assert len(games.GAMES) == 26
    assert list(games.GAMES) == sorted(games.GAMES)
    assert set(games.GAMES) <= set(games.atari_games())


def test_known_scores() -> None:
    assert (games.SCORES["Pong"].random, games.SCORES["Pong"].human) == (-20.7, 14.6)
    assert (games.SCORES["Alien"].random, games.SCORES["UpNDown"].human) == (227.8, 11693.2)


@pytest.mark.parametrize("game", games.GAMES)
def test_normalisation_puts_random_at_0_and_human_at_1(game: str) -> None:
    scores = games.SCORES[game]
    assert games.human_normalised(game, scores.random) == 0.0
    assert games.human_normalised(game, scores.human) == pytest.approx(1.0)


def test_normalisation_by_hand() -> None:
    # Breakout: random 1.7, human 30.5.
    assert games.human_normalised("Breakout", 327.044) == pytest.approx((327.044 - 1.7) / 28.8)


def test_games_outside_the_26_have_no_normalised_score() -> None:
    assert "Tetris" in games.atari_games()
    with pytest.raises(ValueError, match="'Tetris' has no human-normalised score"):
        games.human_normalised("Tetris", 1.0)


def test_published_scores() -> None:
    assert games.PUBLISHED_AGENTS == (
        "sac_discrete", "sr_spr", "efficientzero", "bbf_rr2", "bbf_rr8", "sac_bbf_rr2",
    )  # fmt: skip
    assert games.SCORES["Breakout"].published["sac_bbf_rr2"] == 327.044
    assert "sac_discrete" not in games.SCORES["Boxing"].published  # an empty cell is no score of 0
    assert all("sac_bbf_rr2" in scores.published for scores in games.SCORES.values())


def test_all_games_have_roms_and_are_spelled_as_registered() -> None:
    import ale_py
    import gymnasium

    gymnasium.register_envs(ale_py)
    registered = {id for id in gymnasium.registry if id.startswith("ALE/")}
    assert {games.ale_id(game) for game in games.atari_games()} == registered
    paths = [ale_py.roms.get_rom_path(games.rom_id(game)) for game in games.GAMES]
    assert all(path.exists() for path in paths)


@pytest.mark.parametrize(
    ("given", "game"),
    [
        ("Pong", "Pong"),
        ("pong", "Pong"),
        ("PONG", "Pong"),
        ("ALE/Pong-v5", "Pong"),
        ("ale/pong-v5", "Pong"),
        ("ms_pacman", "MsPacman"),
        ("Ms Pacman", "MsPacman"),
        ("up_n_down", "UpNDown"),
        ("tic_tac_toe_3d", "TicTacToe3D"),
        ("Pongg", None),
        ("ALE/Pong-v4", None),
        ("Pong-v5", None),
        ("combat", None),  # no single-player game
        ("", None),
    ],
)
def test_names_that_lead_to_a_game(given: str, game: str | None) -> None:
    assert games.find_game(given) == game


def test_ids() -> None:
    assert games.rom_id("MsPacman") == "ms_pacman"
    assert games.ale_id("MsPacman") == "ALE/MsPacman-v5"
    with pytest.raises(ValueError, match=r"'MsPackman' is not an Atari game; did you mean MsPacman"):
        games.rom_id("MsPackman")


def test_nearest_names() -> None:
    assert games.nearest("Brakeout", games.atari_games())[0] == "Breakout"
    assert games.nearest("qqqqqq", games.atari_games()) == []
    assert games.suggestion([]) == ""
    assert games.suggestion(["A"]) == "; did you mean A?"
    assert games.suggestion(["A", "B", "C"]) == "; did you mean A, B or C?"


def test_scores_need_no_third_party_package() -> None:
    code = "import sys, sacbbf.envs.games; print(sorted({'ale_py', 'numpy', 'torch'} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
