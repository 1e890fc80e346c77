"""The report as Markdown: the same tables and notes as the page, without its pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sacbbf.bench.aggregate import METRICS
from sacbbf.bench.grouping import command
from sacbbf.bench.report.cells import ABOVE_HUMAN, DEFINITIONS, QUOTED, aggregate, heading, number, score, score_span
from sacbbf.bench.report.contents import Cell, Comparison, GameTable, Report
from sacbbf.bench.report.raw import RawTable


def markdown(report: Report) -> str:
    """Return the whole report."""
    parts = [f"# {report.title}"]
    parts += _list("## Left out", report.left_out)
    parts += _list("## To know before reading", report.notes)
    for comparison in report.comparisons:
        parts += _comparison(comparison)
    if report.printed:
        rows = [
            [name, *(number(found[metric], metric) if metric in found else "-" for metric in METRICS)]
            for name, found in report.printed.items()
        ]
        parts += ["## As printed in the SAC-BBF paper", _table(["agent", *map(heading, METRICS)], rows)]
    if report.raw:
        parts += ["## Environments without a human score", _raw(report.raw)]
    if report.table.games:
        parts += [f"## Scores by game\n\nBest in bold, {ABOVE_HUMAN} above human.", _games(report.table)]
    parts += _commands(report)
    agents = (*report.agents, *report.references)
    parts += ["## Sources", _table(["agent", "source"], [[agent.name, agent.source] for agent in agents])]
    words = [f"- **{name}**: {text}" for name, text in DEFINITIONS.items()]
    drawn = f"Intervals are of {report.sampling.reps:,} samples, seed {report.sampling.seed}."
    parts += ["## Definitions", "\n".join(words), drawn]
    return "\n\n".join(parts) + "\n"


def _list(title: str, lines: Sequence[str]) -> list[str]:
    return [title, "\n".join(f"- {line}" for line in lines)] if lines else []


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
        yield "\n".join(f"- {note}" for note in comparison.notes)
    if comparison.improvements:
        pairs = [[found.first, found.second, aggregate(found.probability)] for found in comparison.improvements]
        yield "Probability of improvement:"
        yield _table(["agent", "over", "probability"], pairs)


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
            rows.append([table.environment, f"{name} play", score(played.score), "-", runs, "-"])
    head = ["environment", "agent", "mean score", "95% interval", "runs", "(score - random) / (blind - random)"]
    return _table(head, rows)


def _commands(report: Report) -> Iterator[str]:
    lines = [command(run.config) for agent in report.agents for run in agent.runs]
    if lines:
        yield "## Commands that reproduce the runs"
        yield "\n".join(f"    {line}" for line in lines)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
