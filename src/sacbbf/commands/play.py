"""`sacbbf play`: a video of what a trained policy does, with action probabilities and value beside the game."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from sacbbf.commands.parsing import check_file, parse
from sacbbf.envs.base import Pixels
from sacbbf.errors import UsageError
from sacbbf.run.display import Display
from sacbbf.run.settings import playable
from sacbbf.run.video import write_video
from sacbbf.run.zoo import find_run, zoo_name

if TYPE_CHECKING:
    from sacbbf.run.watching import Moment

EXAMPLES = """\
  sacbbf play RUN
  sacbbf play zoo:MinAtar-Breakout
  sacbbf play RUN --episodes 3 --out three.gif
  sacbbf play RUN --window --greedy
"""


@dataclass(frozen=True)
class PlayArgs:
    """Play the policy of a run and record it: the game beside action probabilities and value.

    An environment that draws no pictures gets the panel alone.
    Episode 0 is the first that `sacbbf evaluate` plays with the same seed.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run directory, a folder that an agent was saved in, or `zoo:NAME` (`sacbbf zoo` lists them)."""
    out: Path | None = None
    """The video, an .mp4 or a .gif; by default RUN/video.mp4, which `sacbbf report` shows, or NAME.mp4 of the zoo's."""
    window: bool = False
    """Show it in a window instead, where there is a screen."""
    episode: int = 0
    """Number of the episode, or of the first of several."""
    episodes: int = 1
    """How many episodes, one after the other."""
    seed: int | None = None
    """Root of the episodes' seeds; by default the run's own."""
    greedy: bool = False
    """Take the most likely action instead of drawing one."""
    fps: float | None = None
    """Steps shown in a second; by default 15 on Atari, as fast as a person plays, and 10 elsewhere."""
    max_steps: int = 3_000
    """Stop an episode after this many steps."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps."""
    trust: bool = False
    """Import modules that the run names and that are not installed, also from the working directory."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    args = parse(PlayArgs, argv, "play", EXAMPLES)
    for name, least in {"episode": 0, "episodes": 1, "max_steps": 1}.items():
        if getattr(args, name) < least:
            raise UsageError(f"{name} = {getattr(args, name)}: must be at least {least}")
    if args.seed is not None and args.seed < 0:
        raise UsageError(f"seed = {args.seed}: must be at least 0")
    if args.fps is not None and not 0 < args.fps <= 240:
        raise UsageError(f"fps = {args.fps}: must be above 0 and at most 240")
    check_file("out", args.out)
    run = find_run(args.run)
    config = playable(run.config, args.trust)
    from sacbbf.run.torch_setup import torch_set_up
    from sacbbf.run.watching import Film, Wish

    wish = Wish(args.episode, args.episodes, args.seed, args.greedy, args.max_steps, args.device)
    out = args.out or (run.path / "video.mp4" if zoo_name(args.run) is None else Path(f"{run.path.name}.mp4"))
    with Display(Console(stderr=True), None) as display, torch_set_up(config):
        display.begin("playing", args.episodes)
        film = Film(run, config, wish, lambda moment: follow(display, moment))
        rate = args.fps or film.rate
        if args.window:
            show(film.pictures(), rate)
        else:
            write_video(out, film.pictures(), rate)
    console = Console(soft_wrap=True)
    if not args.window:
        console.print(f"video {out}", highlight=False, markup=False)
    for number, last in film.ends.items():
        name = f"episode {number}: " if args.episodes > 1 else ""
        words = f"{name}score {last.score:g} after {last.step:,} steps"
        console.print(words, highlight=False, markup=False)
    return 0


def follow(display: Display, moment: Moment) -> None:
    """Show how far an episode has come."""
    display.advance(f"step {moment.step:,}, score {moment.score:g}", parts=int(moment.over))


def show(film: Iterator[Pixels], rate: float) -> None:
    """Show pictures in a window until they end or it is closed."""
    try:
        import tkinter
    except ImportError as error:
        raise UsageError("window: this Python has no tkinter; --out FILE.mp4 records a video") from error
    try:
        root = tkinter.Tk()
    except tkinter.TclError as error:
        raise UsageError(f"window: there is no screen here ({error}); --out FILE.mp4 records a video") from error
    root.title("sacbbf play")
    label = tkinter.Label(root)
    label.pack()
    try:
        for picture in film:
            began = time.monotonic()
            height, width = picture.shape[:2]
            image = tkinter.PhotoImage(data=b"P6 %d %d 255 " % (width, height) + picture.tobytes())
            label.configure(image=image)
            root.update()
            time.sleep(max(0.0, 1 / rate - (time.monotonic() - began)))
        root.destroy()
    except tkinter.TclError:  # the window was closed
        return
