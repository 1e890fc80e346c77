"""The policy's mean entropy over a run beside the schedule that a learned beta follows, as a figure.

    python experiments/entropy.py RUN [RUN ...]     keep the runs' entropies in results/entropy.csv, draw the figure
    python experiments/entropy.py                   draw docs/figures/entropy.svg again from results/entropy.csv

Entropies are shares of the largest there can be, log of the number of actions.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from pathlib import Path

import matplotlib.pyplot as plt

from sacbbf.envs.make import make_env
from sacbbf.learner.schedules import wanted_entropy
from sacbbf.run.records import RunDirectory
from sacbbf.run.settings import from_toml

TOP = Path(__file__).resolve().parents[1]
TABLE, FIGURE = TOP / "results/entropy.csv", TOP / "docs/figures/entropy.svg"
COLUMNS = ("run", "step", "mean", "wanted")


def rows(run: RunDirectory) -> list[dict[str, object]]:
    """Return a run's entropies by step, and those that its schedule asks for."""
    config = from_toml(run.config)
    env = make_env(config.env, settings=config.environment)
    largest = math.log(env.spec.num_actions)
    env.close()
    schedule, found = config.settings.schedule, []
    for text in run.record("metrics").read_text().splitlines():
        line = json.loads(text)
        if "policy/entropy" in line:
            wanted = wanted_entropy(schedule, line["step"], config.steps) if schedule.temperature == "target" else ""
            mean = round(line["policy/entropy"] / largest, 4)
            name = f"{config.env}, {config.size}, beta {'learned' if wanted else 'annealed'}"
            found.append({"run": name, "step": line["step"], "mean": mean, "wanted": wanted and round(wanted, 4)})
    return found


def draw(table: list[dict[str, str]]) -> None:
    """Draw a panel for each run."""
    names = list(dict.fromkeys(line["run"] for line in table))
    figure, panels = plt.subplots(1, len(names), figsize=(4 * len(names), 3), sharey=True, squeeze=False)
    for name, panel in zip(names, panels[0], strict=True):
        lines = [line for line in table if line["run"] == name]
        steps = [int(line["step"]) for line in lines]
        panel.plot(steps, [float(line["mean"]) for line in lines], label="policy")
        if lines[0]["wanted"]:
            panel.plot(steps, [float(line["wanted"]) for line in lines], "--", color="grey", label="wanted")
        panel.set(title=name, xlabel="environment steps", ylim=(0, 1.02))
        panel.title.set_fontsize(9)
    panels[0][0].set_ylabel("mean entropy / log A")
    panels[0][0].legend()
    figure.tight_layout()
    plt.rcParams["svg.hashsalt"] = "entropy"
    figure.savefig(FIGURE, metadata={"Date": None})


def main() -> None:
    """Read runs if there are any, then draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    args = parser.parse_args()
    if args.runs:
        with TABLE.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(line for path in args.runs for line in rows(RunDirectory(path)))
    with TABLE.open(newline="") as file:
        draw(list(csv.DictReader(file)))


if __name__ == "__main__":
    main()
