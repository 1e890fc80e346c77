"""The page of results: its runs, its raw scores, its tables and figures.

    python experiments/results.py [NAME ...]     run what is not finished yet, collect raw scores, write the page
    python experiments/results.py --page         write the page and its tables alone, from the raw scores that are there

What is run and said is in results/sections.toml; NAME is a section there, all by default. Runs go to results/runs, raw
scores to results/raw, figures to docs/figures. docs/results.md has each section's words and one table of scores,
docs/results/NAME.md its commands and every other table. Stopped at any moment, it goes on when it is started again.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from collect import collect

from sacbbf.disk.files import write_atomically
from sacbbf.envs.games import SCORES
from sacbbf.report.aggregate import Estimate, Sampling, estimate, game_means, matrix
from sacbbf.report.cells import score, score_span
from sacbbf.report.contents import Report, build
from sacbbf.report.markdown import tables
from sacbbf.report.plots import write_plots
from sacbbf.report.raw import raw_tables
from sacbbf.report.scores import Agent, read_scores

TOP = Path(__file__).resolve().parent.parent
RESULTS = TOP / "results"
DOCS = TOP / "docs"
CURVES = "learning-curves"
SAMPLING = Sampling(reps=2_000)


@dataclass(frozen=True)
class Section:
    """One part of the page."""

    name: str
    title: str
    commands: tuple[str, ...]
    words: str  # what was asked, and what came out
    compared: tuple[str, ...] = ()  # agents that are set side by side with each of the others
    shown: tuple[str, ...] = ()  # agents in the page's table; all if none is named
    part_of: str = ""  # the section that leads to it, if it has no place on the page itself

    @property
    def runs(self) -> Path:
        """Where its runs are."""
        return RESULTS / "runs" / self.name

    @property
    def raw(self) -> list[Path]:
        """Its raw scores: its own runs', and what other commands wrote."""
        folder = RESULTS / "raw"
        return [*folder.glob(f"{self.name}.csv"), *sorted(folder.glob(f"{self.name}+*.csv"))]

    @property
    def tables(self) -> Path:
        """Its commands and all its tables."""
        return DOCS / "results" / f"{self.name}.md"

    @property
    def figure(self) -> Path:
        """Its learning curves."""
        return DOCS / "figures" / f"{self.name}.svg"


def main() -> None:
    """Run, collect, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="sections to run; all by default")
    parser.add_argument("--page", action="store_true", help="write the page alone")
    args = parser.parse_args()
    intro, sections = read()
    unknown = set(args.names) - {section.name for section in sections}
    if unknown:
        known = ", ".join(section.name for section in sections)
        parser.error(f"no section {', '.join(sorted(unknown))}: must be among {known}")
    if not args.page:
        for section in sections:
            if not args.names or section.name in args.names:
                run(section)
    write_atomically(DOCS / "results.md", page(intro, sections).encode())
    for section in sections:
        section.tables.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(section.tables, tables_page(section).encode())


def read() -> tuple[str, list[Section]]:
    """Return the page's first words and its sections."""
    found: dict[str, Any] = tomllib.loads((RESULTS / "sections.toml").read_text())
    sections = [
        Section(
            entry["name"],
            entry["title"],
            tuple(entry["commands"]),
            entry["words"].strip(),
            tuple(entry.get("compared", ())),
            tuple(entry.get("shown", ())),
            entry.get("part_of", ""),
        )
        for entry in found["section"]
    ]
    return found["words"].strip(), sections


def run(section: Section) -> None:
    """Carry out a section's commands, then collect its scores and draw its curves."""
    for command in section.commands:
        print(command, flush=True)
        program, *words = shlex.split(command)
        front = [sys.executable] if program == "python" else [sys.executable, "-m", "sacbbf"]
        subprocess.run([*front, *words], cwd=TOP, check=True)
    if section.runs.exists():
        collect(section.runs, RESULTS / "raw" / f"{section.name}.csv")
        draw(section)


def draw(section: Section) -> None:
    """Draw the learning curves of a section's runs."""
    folder = section.runs.parent / f"{section.name}-figures"
    for path in write_plots(build(read_scores([section.runs]), SAMPLING), folder):
        if path.name == f"{CURVES}.svg":
            section.figure.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(section.figure, path.read_bytes())


def page(intro: str, sections: list[Section]) -> str:
    """Return the page: of each section its words, one table and its learning curves."""
    parts = ["# Results", intro]
    for section in sections:
        if section.part_of:
            continue
        links = [f"[commands and all tables](results/{section.name}.md)"]
        links += [f"[{each.title}](results/{each.name}.md)" for each in sections if each.part_of == section.name]
        parts += [f"## {section.title}", f"{section.words}\nMore: {', '.join(links)}."]
        if section.raw:
            parts.append(score_table(section))
        if section.figure.exists():
            parts.append(f"![Learning curves](figures/{section.figure.name})")
    return "\n\n".join(parts) + "\n"


def score_table(section: Section) -> str:
    """Return the mean scores of a section's agents with their intervals, a column for each environment."""
    agents = read_scores(section.raw).agents
    places = sorted({place for agent in agents for place in agent.scores})
    lines = [["agent", *places, "runs"], ["---", *["---:"] * (len(places) + 1)]]
    for agent in agents:
        if not section.shown or agent.name in section.shown:
            counts = sorted({len(found) for found in agent.scores.values()})
            runs = " to ".join(str(count) for count in sorted({counts[0], counts[-1]}))
            lines.append([agent.name, *(shown(mean(agent, place)) for place in places), runs])
    for name, played in baselines(agents).items():
        lines.append([name, *(shown(played.get(place)) for place in places), "-"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def mean(agent: Agent, place: str) -> Estimate | None:
    """Return an agent's mean score in an environment, if it has been there."""
    if place not in agent.scores:
        return None
    return estimate(game_means, matrix([agent.scores[place]]), sampling=SAMPLING)[0]


def baselines(agents: tuple[Agent, ...]) -> dict[str, dict[str, Estimate]]:
    """Return random and blind play by environment: as the runs measured them, in Atari as published, with a human."""
    found: dict[str, dict[str, Estimate]] = {}
    for table in raw_tables(agents, SAMPLING):
        for name, played in table.baselines.items():
            found.setdefault(f"{name} play", {})[table.environment] = played.estimate
    for game in sorted({game for agent in agents for game in agent.games}):
        found.setdefault("random play (published)", {})[game] = Estimate(SCORES[game].random)
        found.setdefault("human (published)", {})[game] = Estimate(SCORES[game].human)
    return found


def shown(found: Estimate | None) -> str:
    """Return a score with its interval as a table has it."""
    if found is None:
        return "-"
    interval = score_span(found)
    return score(found.value) + (f" ({interval})" if interval else "")


def tables_page(section: Section) -> str:
    """Return the page of a section's commands, of every run's score, and of all tables."""
    parts = [f"# {section.title}", section.words if section.part_of else "", "Back to the [results](../results.md)."]
    parts += ["## Commands", "\n".join(f"    {line}" for line in section.commands)]
    if section.raw:
        names = ", ".join(f"`{path.relative_to(TOP)}`" for path in section.raw)
        parts += ["## Each run", f"The mean score of its episodes, in the order of the seeds. Raw scores: {names}."]
        parts += [run_table(section), *tables(report_on(section))]
    return "\n\n".join(filter(None, parts)) + "\n"


def run_table(section: Section) -> str:
    """Return the score of each run."""
    lines = ["| agent | environment | seeds | scores |", "| --- | --- | --- | --- |"]
    for agent in read_scores(section.raw).agents:
        for place, found in agent.scores.items():
            seeds = ", ".join(map(str, agent.seeds.get(place, ())))
            lines.append(f"| {agent.name} | {place} | {seeds} | {', '.join(f'{value:,.2f}' for value in found)} |")
    return "\n".join(lines)


def report_on(section: Section) -> Report:
    """Return the report on a section's raw scores, with the pairs of agents that it compares."""
    report = build(read_scores(section.raw), SAMPLING, section.compared)
    return report if section.compared else replace(report, pooled=None)


if __name__ == "__main__":
    main()
