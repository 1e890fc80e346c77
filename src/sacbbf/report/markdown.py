"""The report as Markdown: the same tables and notes as the page, without its pictures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from sacbbf.report.aggregate import METRICS
from sacbbf.report.cells import (
    ABOVE_HUMAN,
    DEFINITIONS,
    QUOTED,
    aggregate,
    heading,
    number,
    one_line,
    score,
    score_span,
)
from sacbbf.report.contents import Cell, Comparison, GameTable, Report
from sacbbf.report.grouping import command
from sacbbf.report.pairs import Improvement
from sacbbf.report.pooled import Pooled
from sacbbf.report.raw import RawTable

_MARKS = re.compile(r"[\\`\[\]|]")


def markdown(report: Report) -> str:
    """Return the whole report."""
    parts = [f"# {plain(report.title)}"]
    parts += _list("## Left out", report.left_out)
    parts += _list("## To know before reading", report.notes)
    parts += tables(report)
    parts += _commands(report)
    agents = (*report.agents, *report.references)
    parts += ["## Sources", _table(["agent", "source"], [[agent.name, agent.source] for agent in agents])]
    words = [f"- **{name}**: {text}" for name, text in DEFINITIONS.items()]
    drawn = f"Intervals are of {report.sampling.reps:,} samples, seed {report.sampling.seed}."
    parts += ["## Definitions", "\n".join(words), drawn]
    return "\n\n".join(parts) + "\n"


def tables(report: Report) -> Iterator[str]:
    """Return the report's tables, each under a heading."""
    for comparison in report.comparisons:
        yield from _comparison(comparison)
    if report.printed:
        rows = [
            [name, *(number(found[metric], metric) if metric in found else "-" for metric in METRICS)]
            for name, found in report.printed.items()
        ]
        yield "## As printed in the SAC-BBF paper"
        yield _table(["agent", *map(heading, METRICS)], rows)
    if report.raw:
        yield "## Environments without a human score"
        yield _raw(report.raw)
    if report.pooled is not None:
        yield from _pooled(report.pooled)
    if report.table.games:
        yield f"## Scores by game\n\nBest in bold, {ABOVE_HUMAN} above human."
        yield _games(report.table)


def _list(title: str, lines: Sequence[str]) -> list[str]:
    return [title, "\n".join(f"- {plain(line)}" for line in lines)] if lines else []


def _comparison(comparison: Comparison) -> Iterator[str]:
    yield f"## Human-normalised scores over {comparison.words}"
    if 1 < len(comparison.games) < 26:
        yield f"Games: {', '.join(comparison.games)}."
    rows = []
    for row in comparison.rows:
        cells = [row.agent.name]
        for metric in METRICS:
            shown = aggregate(row.metrics.get(metric), metric)
            cells.append(f"**{shown}**" if comparison.wins(row, metric) else shown)
        rows.append(cells)
    yield _table(["agent", *map(heading, METRICS)], rows)
    yield f"95% intervals in brackets; {QUOTED} quoted from a paper's table."
    if comparison.notes:
        yield "\n".join(f"- {plain(note)}" for note in comparison.notes)
    yield from _pairs(comparison.improvements)


def _pairs(found: Sequence[Improvement]) -> Iterator[str]:
    if found:
        yield "Two agents side by side:"
        rows = [[pair.first, pair.second, aggregate(pair.difference), aggregate(pair.probability)] for pair in found]
        yield _table(["agent", "over", "IQM difference", "probability of improvement"], rows)


def _pooled(found: Pooled) -> Iterator[str]:
    yield f"## Together, in units of the best: {plain(', '.join(found.environments))}"
    yield _table(["agent", "IQM"], [[name, aggregate(value)] for name, value in found.iqm.items()])
    yield from _pairs(found.improvements)


def _games(table: GameTable) -> str:
    rows = [[game, *(_cell(table.cells.get((game, agent.name))) for agent in table.agents)] for game in table.games]
    return _table(["game", *(agent.name for agent in table.agents)], rows)


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    value = score(cell.score.value)
    value = f"**{value}**" if cell.best else value
    interval = score_span(cell.score)
    return value + (f" {ABOVE_HUMAN}" if cell.above_human else "") + (f" ({interval})" if interval else "")


def _raw(tables: Sequence[RawTable]) -> str:
    rows = []
    for table in tables:
        for row in table.rows:
            value = f"**{score(row.score.value)}**" if row.best and len(table.rows) > 1 else score(row.score.value)
            gain = "-" if row.gain is None else f"{row.gain:.2f}"
            rows.append([table.environment, row.agent, value, score_span(row.score) or "-", str(row.runs), gain])
        for name, played in table.baselines.items():
            runs = f"measured in {played.runs}"
            cells = [f"{name} play", score(played.score), score_span(played.estimate), runs, "-"]
            rows.append([table.environment, *cells])
    head = ["environment", "agent", "mean score", "95% interval", "runs", "(score - random) / (blind - random)"]
    return _table(head, rows)


def _commands(report: Report) -> Iterator[str]:
    lines = [command(run.config) for agent in report.agents for run in agent.runs]
    if lines:
        yield "## Commands that reproduce the runs"
        yield "\n".join(f"    {one_line(line)}" for line in lines)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(plain(cell) for cell in line) + " |" for line in lines)


def plain(text: str) -> str:
    """Return a text in one line without elements, links, code, or the end of a cell; bold stays bold."""
    return _MARKS.sub(r"\\\g<0>", one_line(text)).replace("&", "&amp;").replace("<", "&lt;")
