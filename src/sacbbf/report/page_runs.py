"""The sections of the page that show runs: pictures and videos, configurations, and the commands to run them again."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from sacbbf.agents.config import flatten
from sacbbf.disk.reading import Unreadable, read_file
from sacbbf.report import markup as m
from sacbbf.report.cells import score
from sacbbf.report.contents import Report
from sacbbf.report.grouping import changes, command
from sacbbf.report.run_scores import RunScore
from sacbbf.report.scores import Agent

MEDIA = {"video.mp4": "video/mp4", "curve.png": "image/png"}
MOST_BYTES = 24_000_000  # of pictures and videos in a page; what does not fit is named
APART = ("env", "seed")  # settings that are told run by run


def media(report: Report) -> m.Section | None:
    """Return the pictures and videos that runs have, agent by agent, as far as they fit."""
    groups, left, missed = [], MOST_BYTES, []
    for agent in report.agents:
        figures = []
        for run in agent.runs:
            for name, kind in MEDIA.items():
                path = run.directory.path / name
                try:
                    content = read_file(path, left)
                except FileNotFoundError:
                    continue
                except Unreadable:
                    missed.append(str(path))
                    continue
                left -= len(content)
                figures.append(_picture(content, kind, name, run))
        if figures:
            title = m.tag("summary", m.text(f"{agent.name}: {len(figures)}"))
            groups.append(m.tag("details", title + m.tag("div", m.join(figures), class_="gallery")))
    if not groups and not missed:
        return None
    more = (
        m.tag("p", m.text(f"Not embedded, for want of room or because they are no files: {', '.join(missed)}."))
        if missed
        else ""
    )
    return m.section("pictures", "Pictures", "Pictures and videos of the runs", *groups, more)


def _picture(content: bytes, kind: str, name: str, run: RunScore) -> str:
    words = f"{run.config.env}, seed {run.config.seed}: {name.rpartition('.')[0]}"
    data = f"data:{kind};base64,{base64.b64encode(content).decode()}"
    if kind.startswith("video"):
        shown = m.tag("video", m.text(words), src=data, controls="", preload="metadata", aria_label=words)
    else:
        shown = f'<img src="{data}" alt="{m.text(words)}, score {score(run.score)}">'
    return m.tag("figure", shown + m.tag("figcaption", m.text(words)))


def configuration(report: Report) -> m.Section | None:
    """Return every agent's settings side by side: those that differ first, then all of them."""
    agents = [agent for agent in report.agents if agent.runs]
    if not agents:
        return None
    settings = {agent.name: _settings(agent) for agent in agents}
    changed = {agent.name: {name for run in agent.runs for name in changes(run.config)} for agent in agents}
    names = list(dict.fromkeys(name for found in settings.values() for name in found))
    differing = [name for name in names if len({settings[agent.name].get(name) for agent in agents}) > 1]
    differing += [name for name in names if name not in differing and any(name in found for found in changed.values())]
    headings = ["Setting", *(agent.name for agent in agents)]

    def rows(chosen: list[str]) -> Iterator[list[str]]:
        for name in chosen:
            cells = [_setting(settings[agent.name].get(name, "-"), name in changed[agent.name]) for agent in agents]
            yield [m.tag("code", m.text(name)), *cells]

    parts = []
    if differing:
        words = "Settings that differ between agents, or from the preset (highlighted)"
        parts.append(m.table(words, headings, rows(differing), "settings"))
    else:
        parts.append(m.tag("p", "Every setting is the preset's."))
    everything = m.table(
        "Every setting; several values stand for several environments", headings, rows(names), "settings"
    )
    parts.append(m.tag("details", m.tag("summary", f"All {len(names)} settings") + everything))
    return m.section("configuration", "Configuration", "Configuration", *parts)


def _settings(agent: Agent) -> dict[str, str]:
    """Return an agent's settings as text; where its environments have different presets, all values."""
    values: dict[str, list[Any]] = {}
    for run in agent.runs:
        for name, value in flatten(run.config).items():
            short = name.removeprefix("settings.")
            if short not in APART and value not in values.setdefault(short, []):
                values[short].append(value)
    return {
        name: " / ".join("not set" if value is None else str(value) for value in found)
        for name, found in values.items()
    }


def _setting(value: str, changed: bool) -> str:
    shown = m.tag("code", m.text(value))
    return m.tag("mark", shown) if changed else shown


def runs(report: Report) -> m.Section | None:
    """Return each run with its score and the command that reproduces it."""
    groups = []
    for agent in report.agents:
        if not agent.runs:
            words = (
                f"{agent.name}: scores from {agent.source}, without run directories; how to train it is not known here."
            )
            groups.append(m.tag("p", m.text(words)))
            continue
        title = m.tag("summary", m.text(f"{agent.name}: {len(agent.runs)} run{'s' * (len(agent.runs) > 1)}"))
        items = m.join(_run(run) for run in agent.runs)
        groups.append(
            m.tag("details", title + m.tag("ul", items, class_="runs"), open="" if len(agent.runs) < 6 else None)
        )
    return m.section("runs", "Commands", "Runs, and the commands that reproduce them", *groups) if groups else None


def _run(run: RunScore) -> str:
    result = run.result
    facts = [
        f"{run.config.env}, seed {run.config.seed}: score {score(run.score)}",
        f"{result['steps']:,} steps" + ("" if run.finished else f" of {run.config.steps:,}, unfinished"),
        str(run.directory.path),
    ]
    line = m.tag("p", m.text(", ".join(facts)))
    return m.tag("li", line + m.tag("pre", m.tag("code", m.text(command(run.config))), tabindex="0"))
