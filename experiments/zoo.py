"""Put a finished run's policy into the zoo, the trained policies that come with the package.

    python experiments/zoo.py RUN [--name NAME] [--words "The best of five seeds."]

Writes configuration, policy, result, a still of an episode and a card to src/sacbbf/data/zoo/NAME; NAME is by default
the environment's, with - for /. What was there by that name is replaced.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import cv2

from sacbbf.disk.files import write_atomically
from sacbbf.report.grouping import command
from sacbbf.run.certainty import certainty_and_count
from sacbbf.run.records import RunDirectory
from sacbbf.run.settings import RunConfig, from_toml, playable
from sacbbf.run.sharing import check_shared, copy_shared
from sacbbf.run.watching import Film, Wish
from sacbbf.run.zoo import FOLDER, PREFIX

KEPT = ("config.toml", "policy.safetensors", "result.json")
MOMENT = 60  # step of the first episode that the still shows, or its last


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--name")
    parser.add_argument("--words", default="", help="what else the card is to say of the score")
    args = parser.parse_args()
    run = RunDirectory(args.run).require()
    config, result = from_toml(run.config), run.read_result()
    if result is None or not result.get("finished"):
        parser.error(f"{run.path} is not finished")
    check_shared(run.path)
    name = args.name or config.env.replace("/", "-").removesuffix("-v1")
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    copy_shared(run.path, folder, KEPT)
    write_atomically(folder / "README.md", card(name, config, result, args.words).encode())
    write_atomically(folder / "still.png", still(run))
    print(f"{PREFIX}{name}: {folder}, {sum(path.stat().st_size for path in folder.iterdir()) / 1e6:.2f} MB")


def card(name: str, config: RunConfig, result: dict[str, Any], more: str) -> str:
    """Return a policy's page."""
    words = certainty_and_count(result["interval_95"], result["episodes"])
    played = [f"{who} play {other['score']:.2f}" for who, other in result.get("baselines", {}).items()]
    commit = result["versions"].get("commit")
    lines = [
        f"# {name}",
        f"Score {result['score']:.2f} ({words}){''.join(f'; {one}' for one in played)}. {more}".rstrip(),
        f"{config.agent} at the {config.size} size after {config.steps:,} steps, seed {config.seed}, "
        f"{result['wall_seconds'] / 60:.0f} minutes on {result['machine']['threads']} thread of an "
        f"{result['machine']['cpu']} machine{f', commit {commit}' if commit else ''}:",
        f"    {command(config)}\n    sacbbf play {PREFIX}{name}",
        "![A moment of an episode](still.png)",
    ]
    return "\n\n".join(lines) + "\n"


def still(run: RunDirectory) -> bytes:
    """Return a moment of the first episode as PNG."""
    film = Film(run, playable(run.config, False), Wish(max_steps=MOMENT))
    picture = list(film.pictures())[-1]
    return cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))[1].tobytes()


if __name__ == "__main__":
    main()
