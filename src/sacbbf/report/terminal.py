"""The report in a terminal: aggregates, improvement, games, raw scores, and what to know of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sacbbf.report.aggregate import METRICS
from sacbbf.report.cells import ABOVE_HUMAN, QUOTED, aggregate, heading, number, one_line, score, score_span
from sacbbf.report.contents import Cell, Comparison, Report
from sacbbf.report.pairs import Improvement


def show(report: Report, console: Console) -> None:
    """Print the report's tables and notes."""
    for title, lines in (("left out", report.left_out), ("note", report.notes)):
        for line in lines:
            console.print(f"{title}: {one_line(line)}", highlight=False, markup=False)
    for comparison in report.comparisons:
        _comparison(comparison, console)
    if report.printed:
        rows = [
            [name, *(number(found[metric], metric) if metric in found else "-" for metric in METRICS)]
            for name, found in report.printed.items()
        ]
        console.print(_table("as printed in the SAC-BBF paper", ["agent", *map(heading, METRICS)], rows))
    if report.table.games:
        table = report.table
        cells = [
            [game, *(_cell(table.cells.get((game, agent.name))) for agent in table.agents)] for game in table.games
        ]
        title = f"mean score per game: best in bold, {ABOVE_HUMAN} above human"
        console.print(_table(title, ["game", *(escape(agent.name) for agent in table.agents)], cells))
    if report.raw:
        _raw(report, console)
    if report.pooled is not None:
        rows = [[escape(name), aggregate(value)] for name, value in report.pooled.iqm.items()]
        title = f"together, in units of the best agent's mean: {escape(', '.join(report.pooled.environments))}"
        console.print(_table(title, ["agent", "IQM"], rows))
        _pairs(report.pooled.improvements, console)
    words = f"95% intervals: stratified bootstrap, {report.sampling.reps:,} samples, seed {report.sampling.seed}"
    console.print(words, highlight=False)


def _comparison(comparison: Comparison, console: Console) -> None:
    rows = []
    for row in comparison.rows:
        cells = [escape(row.agent.name)]
        for metric in METRICS:
            shown = aggregate(row.metrics.get(metric), metric)
            cells.append(f"[bold]{shown}[/bold]" if comparison.wins(row, metric) else shown)
        rows.append(cells)
    title = f"human-normalised, over {comparison.words} ({QUOTED} quoted from a paper's table)"
    console.print(_table(title, ["agent", *map(heading, METRICS)], rows))
    for note in comparison.notes:
        console.print(f"note: {note}", highlight=False, markup=False)
    _pairs(comparison.improvements, console)


def _pairs(found: Sequence[Improvement], console: Console) -> None:
    if found:
        rows = [[escape(f.first), escape(f.second), aggregate(f.difference), aggregate(f.probability)] for f in found]
        head = ["agent", "over", "IQM difference", "probability of improvement"]
        console.print(_table("two agents side by side", head, rows))


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    value = score(cell.score.value) + (f" {ABOVE_HUMAN}" if cell.above_human else "")
    return f"[bold]{value}[/bold]" if cell.best else value


def _raw(report: Report, console: Console) -> None:
    rows = []
    for table in report.raw:
        for row in table.rows:
            gain = "-" if row.gain is None else f"{row.gain:.2f}"
            interval = score_span(row.score) or "-"
            rows.append(
                [escape(table.environment), escape(row.agent), score(row.score.value), interval, str(row.runs), gain]
            )
        for name, played in table.baselines.items():
            runs = f"measured in {played.runs}"
            cells = [f"{name} play", score(played.score), score_span(played.estimate), runs, "-"]
            rows.append([escape(table.environment), *cells])
    head = ["environment", "agent", "mean score", "95% interval", "runs", "(score - random) / (blind - random)"]
    console.print(_table("raw scores: no human score is known", head, rows))


def _table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(*headings, title=title, title_justify="left")
    for column in table.columns:
        column.overflow = "fold"  # names may hold settings: no letter of them is dropped
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    return table
