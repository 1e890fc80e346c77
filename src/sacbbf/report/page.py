"""The report as one HTML page that needs nothing else: no network, no library, readable on a phone and in the dark."""

from __future__ import annotations

from importlib import resources

from sacbbf import __version__
from sacbbf.report import markup as m
from sacbbf.report.cells import DEFINITIONS, run_words
from sacbbf.report.charts import COLOURS
from sacbbf.report.contents import Report
from sacbbf.report.page_runs import configuration, media, runs
from sacbbf.report.page_scores import (
    cards,
    comparison_section,
    game_section,
    learning_section,
    printed_section,
    raw_section,
)

# Should a name ever break out of its cell, it still loads and runs nothing.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:; base-uri 'none';"


def page(report: Report) -> str:
    """Return the whole page."""
    sections = [
        *(comparison_section(found, report, number) for number, found in enumerate(report.comparisons)),
        printed_section(report),
        raw_section(report),
        game_section(report),
        learning_section(report),
        media(report),
        configuration(report),
        runs(report),
        _sources(report),
        _definitions(report),
    ]
    shown = [section for section in sections if section is not None]
    links = m.join(m.tag("li", m.tag("a", m.text(found.short), href=f"#{found.id}")) for found in shown)
    body = m.join(
        [
            m.tag("a", "Skip to the report", href="#report", class_="skip"),
            m.tag("header", m.join([m.tag("h1", m.text(report.title)), _summary(report), cards(report)])),
            m.tag("nav", m.tag("ul", links), aria_label="Sections"),
            m.tag("main", m.join([_notes(report), *(found.html for found in shown)]), id="report"),
            m.tag("footer", m.tag("p", f"sacbbf {__version__}, sacbbf report")),
        ]
    )
    return document(report.title, body)


def document(title: str, body: str) -> str:
    """Return a page with its style and script in it."""
    script = "\n" + _file("page.js")
    series = "".join(f".c{number}{{--series:{colour}}}" for number, colour in enumerate(COLOURS))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY} script-src {m.permit(script)}">\n'
        f"<title>{m.text(title)}</title>\n<style>\n{_file('page.css')}{series}\n</style>\n</head>\n"
        f"<body>\n{body}\n<script>{script}</script>\n</body>\n</html>\n"
    )


def _file(name: str) -> str:
    return (resources.files("sacbbf.report") / name).read_text(encoding="utf-8")


def _summary(report: Report) -> str:
    if not report.agents:
        return m.tag("p", "From packaged data alone: nothing was trained for this page.", class_="lead")
    agents = f"{len(report.agents)} agent{'s' * (len(report.agents) > 1)}"
    count = sum(len(scores) for agent in report.agents for scores in agent.scores.values())
    environments = len({name for agent in report.agents for name in agent.scores})
    words = f"{agents}, {count} run{'s' * (count > 1)}, {environments} environment{'s' * (environments > 1)}"
    beside = ", beside what has been published for Atari 100K" if report.references else ""
    return m.tag("p", m.text(f"{words}{beside}."), class_="lead")


def _notes(report: Report) -> str:
    """What is missing and what was left out, before any number is read."""
    parts = []
    if report.left_out:
        items = m.join(m.tag("li", m.text(line)) for line in report.left_out)
        parts.append(m.tag("h2", f"Left out ({len(report.left_out)})") + m.tag("ul", items))
    if report.notes:
        items = m.join(m.tag("li", m.text(line)) for line in report.notes)
        parts.append(m.tag("h2", "To know before reading") + m.tag("ul", items))
    return m.tag("section", m.join(parts), class_="notes", aria_label="Notes") if parts else ""


def _sources(report: Report) -> m.Section | None:
    agents = (*report.agents, *report.references)
    words = {agent.name: f"{agent.source}; {run_words(agent.scores)}" for agent in report.agents}
    rows = [[m.name(agent.name), m.text(words.get(agent.name, agent.source))] for agent in agents]
    table = m.table("Where the scores come from", ["Agent", "Source"], rows)
    return m.section("sources", "Sources", "Sources", table)


def _definitions(report: Report) -> m.Section:
    words = dict(DEFINITIONS)
    drawn = f" {report.sampling.reps:,} samples, of curves and profiles at most 2,000; seed {report.sampling.seed}."
    words["95% interval"] += drawn
    items = m.join(m.tag("dt", m.text(name)) + m.tag("dd", m.text(text)) for name, text in words.items())
    return m.section("definitions", "Definitions", "Definitions", m.tag("dl", items))
