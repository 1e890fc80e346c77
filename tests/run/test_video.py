"""Videos: as many pictures as went in, in their size, whole or not there; and the commands that make them."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageSequence
from resuming import signal_at

from sacbbf.cli import run
from sacbbf.errors import UsageError
from sacbbf.run import watching
from sacbbf.run.video import write_video

ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="imageio-ffmpeg is not installed")


@pytest.fixture
def film(drawn_run, tmp_path):
    """A copy of a run that has pictures."""
    return Path(shutil.copytree(drawn_run.path, tmp_path / "film"))


def pictures(count, size=(64, 48), fail_at=None):
    for number in range(count):
        if number == fail_at:
            raise RuntimeError("the game is broken")
        yield np.full((size[1], size[0], 3), 40 * number, np.uint8)


def read(path):
    """Size, rate and pictures of a video."""
    reader = ffmpeg.read_frames(str(path))
    facts = next(reader)
    width, height = facts["size"]
    return facts, [np.frombuffer(frame, np.uint8).reshape(height, width, 3) for frame in reader]


# --- files ---


def test_a_video_holds_the_pictures(tmp_path):
    path = tmp_path / "film.mp4"
    assert write_video(path, pictures(6), rate=5.0) == 6
    facts, frames = read(path)
    assert facts["size"] == (64, 48) and facts["fps"] == 5.0 and "h264" in facts["codec"]
    assert [round(frame.mean() / 40) for frame in frames] == [0, 1, 2, 3, 4, 5]
    assert [found.name for found in tmp_path.iterdir()] == ["film.mp4"]


def test_a_gif_holds_the_pictures(tmp_path):
    path = tmp_path / "film.gif"
    assert write_video(path, pictures(6, size=(63, 47)), rate=5.0) == 6
    with Image.open(path) as film:
        assert (film.format, film.size, film.n_frames, film.info["duration"]) == ("GIF", (63, 47), 6, 200)
        shades = [np.asarray(frame.convert("L")).mean() for frame in ImageSequence.Iterator(film)]
    assert shades == pytest.approx([0, 40, 80, 120, 160, 200], abs=3)
    assert [found.name for found in tmp_path.iterdir()] == ["film.gif"]


def test_a_failure_in_the_middle_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError, match="the game is broken"):
        write_video(tmp_path / "film.mp4", pictures(6, fail_at=3), rate=5.0)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_the_video_that_was_there(tmp_path):
    path = tmp_path / "film.mp4"
    path.write_bytes(b"the old one")
    with pytest.raises(RuntimeError):
        write_video(path, pictures(6, fail_at=3), rate=5.0)
    assert path.read_bytes() == b"the old one"


def test_no_pictures_make_no_file(tmp_path):
    assert write_video(tmp_path / "film.mp4", iter(()), rate=5.0) == 0
    assert list(tmp_path.iterdir()) == []


def test_another_format_is_refused_before_anything_is_played(tmp_path):
    played = iter([1])
    with pytest.raises(UsageError, match=r"must end in \.mp4 or \.gif"):
        write_video(tmp_path / "film.avi", played, rate=5.0)
    assert list(played) == [1]


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(UsageError, match=r"sacbbf\[video\]"):
        write_video(tmp_path / "film.mp4", pictures(2), rate=5.0)


# --- sacbbf play ---


def test_play_films_the_first_episode_of_the_evaluation(film, capsys):
    assert run(["play", str(film)]) == 0
    said = capsys.readouterr().out
    score = json.loads((film / "result.json").read_text())["returns"][0]
    assert f"video {film / 'video.mp4'}" in said and f"score {score:g} after 10 steps" in said
    facts, frames = read(film / "video.mp4")
    assert len(frames) == 11 and facts["fps"] == 10.0  # ten steps and how it ended


def test_play_goes_by_its_flags(film, tmp_path, capsys):
    out = tmp_path / "best.mp4"
    words = ["--out", str(out), "--episode", "2", "--seed", "5", "--greedy", "--fps", "30", "--max-steps", "4"]
    assert run(["play", str(film), *words]) == 0
    assert "after 4 steps" in capsys.readouterr().out and not (film / "video.mp4").exists()
    facts, frames = read(out)
    assert len(frames) == 5 and facts["fps"] == 30.0


def test_play_uses_as_many_threads_as_the_run(film, monkeypatch):
    path, before = film / "config.toml", torch.get_num_threads()
    path.write_text(path.read_text().replace("threads = 1", "threads = 2"))
    seen, choose = [], watching.choose
    monkeypatch.setattr(watching, "choose", lambda *words: (seen.append(torch.get_num_threads()), choose(*words))[1])
    assert run(["play", str(film), "--max-steps", "3"]) == 0
    assert set(seen) == {2} and torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fps", "0"], "fps = 0.0: must be above 0 and at most 240"),
        (["--fps", "241"], "fps = 241.0"),
        (["--fps", "nan"], "fps = nan"),
        (["--episodes", "0"], "episodes = 0: must be at least 1"),
        (["--episode", "-1"], "episode = -1: must be at least 0"),
        (["--max-steps", "0"], "max_steps = 0: must be at least 1"),
        (["--seed", "-1"], "seed = -1: must be at least 0"),
        (["--device", "tpu"], "device = 'tpu'"),
        (["--out", "film.avi"], "must end in .mp4"),
    ],
)
def test_play_refuses(words, message, film, capsys):
    assert run(["play", str(film), *words]) == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
    assert not (film / "video.mp4").exists()


def test_play_without_a_screen_says_so(film, capsys, monkeypatch):
    pytest.importorskip("tkinter", reason="this Python has no tkinter")
    monkeypatch.delenv("DISPLAY", raising=False)
    assert run(["play", str(film), "--window"]) == 2
    error = capsys.readouterr().err
    assert "there is no screen here" in error and "--out FILE.mp4 records a video" in error


def test_an_environment_without_pictures_gets_the_panel(finished_run, tmp_path, capsys):
    out = tmp_path / "film.mp4"
    assert run(["play", str(finished_run.path), "--out", str(out)]) == 0
    facts, frames = read(out)
    assert facts["size"] == (watching.PANEL, watching.HEIGHT) and len(frames) == 11
    assert max(int(frame.max()) for frame in frames) > 200  # it is not empty


def test_several_episodes_make_one_film(film, tmp_path, capsys):
    out = tmp_path / "three.gif"
    assert run(["play", str(film), "--episode", "1", "--episodes", "3", "--out", str(out)]) == 0
    returns = json.loads((film / "result.json").read_text())["returns"]
    with Image.open(out) as found:
        assert found.n_frames == 3 * 11
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("episode ")]
    assert [int(line.split(":")[0].removeprefix("episode ")) for line in said] == [1, 2, 3]
    assert said[0] == f"episode 1: score {returns[1]:g} after 10 steps"


def test_classic_control_is_filmed(tmp_path):
    """It draws by pygame."""
    out = tmp_path / "run"
    words = ["--steps", "70", "--eval.episodes", "2", "--eval.no-baselines", "--quiet", "--video"]
    assert run(["train", "CartPole-v1", "--out", str(out), *words]) == 0
    facts, frames = read(out / "video.mp4")
    assert facts["size"][0] > watching.PANEL and frames[0][:, : -watching.PANEL].std() > 10


def test_what_draws_pictures_and_is_missing_is_named_before_training(tmp_path, monkeypatch, capsys):
    for name in [name for name in sys.modules if name.partition(".")[0] == "pygame"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pygame", None)
    out = tmp_path / "run"
    assert run(["train", "CartPole-v1", "--out", str(out), "--video"]) == 2
    error = capsys.readouterr().err
    assert "CartPole-v1 cannot draw its pictures: pygame is not installed" in error and "sacbbf[video]" in error
    assert not out.exists()


# --- sacbbf train --video ---

SHORT = [
    "--steps", "70", "--schedule.n-start", "5", "--network.hidden-dim", "8", "--eval.episodes", "2",
    "--eval.no-baselines", "--quiet", "--video",
]  # fmt: skip


def test_train_films_what_it_learned(tmp_path):
    out = tmp_path / "run"
    assert run(["train", "toys/Drawn-v0", "--out", str(out), *SHORT]) == 0
    assert len(read(out / "video.mp4")[1]) == 11


def test_the_score_is_told_before_the_film_is_made(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sacbbf.commands.train.write_video", lambda path, *rest: print(f"filming {path}"))
    out = tmp_path / "run"
    assert run(["train", "toys/Drawn-v0", "--out", str(out), *SHORT]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("score ") and last == f"filming {out / 'video.mp4'}"


def test_where_the_film_lies_is_told(tmp_path, capsys):
    words = [word for word in SHORT if word != "--quiet"]
    out = tmp_path / "run"
    assert run(["train", "toys/Drawn-v0", "--out", str(out), *words]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"video {out / 'video.mp4'}"


def test_an_interrupted_run_is_not_filmed(tmp_path, armed, capsys):
    out = tmp_path / "run"
    signal_at("training: warm-up step", 30)
    assert run(["train", "toys/Drawn-v0", "--out", str(out), *SHORT]) == 130
    assert "stopped by interrupt" in capsys.readouterr().out
    assert (out / "policy.safetensors").exists() and not (out / "video.mp4").exists()


def test_train_refuses_a_video_that_cannot_be_made_before_it_trains(tmp_path, monkeypatch, capsys):
    out = tmp_path / "run"
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert run(["train", "toys/Drawn-v0", "--out", str(out), *SHORT]) == 2
    assert "sacbbf[video]" in capsys.readouterr().err
    assert not out.exists()
