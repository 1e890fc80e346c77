"""The page of results: its runs, its raw scores, its tables and figures.

    python experiments/results.py [NAME ...]     run what is not finished yet, collect raw scores, write the page
    python experiments/results.py --page         write the page alone, from the raw scores that are there

What is run and said is in results/sections.toml; NAME is a section there, all by default. Runs go to results/runs, raw
scores to results/raw, figures to docs/figures. Stopped at any moment, it goes on when it is started again.
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
from sacbbf.report.aggregate import Sampling
from sacbbf.report.contents import Report, build
from sacbbf.report.markdown import tables
from sacbbf.report.plots import write_plots
from sacbbf.report.scores import read_scores

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
    """Return the whole page."""
    parts = ["# Results", intro]
    for section in sections:
        parts += [f"## {section.title}", section.words, "\n".join(f"    {line}" for line in section.commands)]
        if section.raw:
            names = ", ".join(f"`{path.relative_to(TOP)}`" for path in section.raw)
            parts.append(f"Raw scores: {names}.")
            parts += [f"#{part}" if part.startswith("## ") else part for part in tables(report_on(section))]
        if section.figure.exists():
            parts.append(f"![Learning curves](figures/{section.figure.name})")
    return "\n\n".join(parts) + "\n"


def report_on(section: Section) -> Report:
    """Return the report on a section's raw scores, with the pairs of agents that it compares."""
    report = build(read_scores(section.raw), SAMPLING, section.compared)
    return report if section.compared else replace(report, pooled=None)


if __name__ == "__main__":
    main()
