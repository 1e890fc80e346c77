"""The report in a terminal: aggregates, improvement, games, raw scores, and what to know of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sacbbf.report.aggregate import METRICS
from sacbbf.report.cells import ABOVE_HUMAN, QUOTED, aggregate, heading, number, one_line, score, score_span
from sacbbf.report.contents import Cell, Comparison, Report
from sacbbf.report.pairs import Improvement

BORDER = 3  # columns of the terminal between two of a table: a line and a blank on either side
LONGEST = 20  # of a word; longer ones, as settings in names may be, are broken


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
        print_table(console, "as printed in the SAC-BBF paper", ["agent", *map(heading, METRICS)], rows)
    if report.table.games:
        table = report.table
        cells = [
            [game, *(_cell(table.cells.get((game, agent.name))) for agent in table.agents)] for game in table.games
        ]
        title = f"mean score per game: best in bold, {ABOVE_HUMAN} above human"
        print_table(console, title, ["game", *(escape(agent.name) for agent in table.agents)], cells)
    if report.raw:
        _raw(report, console)
    if report.pooled is not None:
        rows = [[escape(name), aggregate(value)] for name, value in report.pooled.iqm.items()]
        title = f"together, in units of the best agent's mean: {escape(', '.join(report.pooled.environments))}"
        print_table(console, title, ["agent", "IQM"], rows)
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
    print_table(console, title, ["agent", *map(heading, METRICS)], rows)
    for note in comparison.notes:
        console.print(f"note: {note}", highlight=False, markup=False)
    _pairs(comparison.improvements, console)


def _pairs(found: Sequence[Improvement], console: Console) -> None:
    if found:
        rows = [[escape(f.first), escape(f.second), aggregate(f.difference), aggregate(f.probability)] for f in found]
        head = ["agent", "over", "IQM difference", "probability of improvement"]
        print_table(console, "two agents side by side", head, rows, names=2)


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
    print_table(console, "raw scores: no human score is known", head, rows, names=2)


def print_table(
    console: Console, title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1
) -> None:
    """Print a table whose lines break between words alone; one that is too wide comes in parts, below one another.

    Its first columns hold `names`, which every part repeats.
    """
    columns = [[head, *(row[index] for row in rows)] for index, head in enumerate(headings)]
    least = [min(LONGEST, max(map(_widest_word, column))) for column in columns]
    for part in parts_that_fit(least, console.width, names):
        shown = [columns[index] for index in part]
        full = [max(cell_len(_plain(cell)) for cell in column) for column in shown]
        widths = widened([least[index] for index in part], full, console.width)
        console.print(_table(title, shown, widths, names))
        title = ""


def parts_that_fit(widths: Sequence[int], room: int, names: int = 1) -> list[list[int]]:
    """Return which columns stand together so that their widths fit; the first ones, with names, are in every part."""
    parts: list[list[int]] = []
    for index, width in enumerate(widths[names:], names):
        taken = sum(widths[other] + BORDER for other in parts[-1]) + 1 if parts else room
        if taken + width + BORDER > room:
            parts.append(list(range(names)))
        parts[-1].append(index)
    return parts


def widened(least: Sequence[int], full: Sequence[int], room: int) -> list[int]:
    """Return columns' widths between the least and the full ones, the narrowest widened first while there is room."""
    widths = list(least)
    for _ in range(room - 1 - sum(width + BORDER for width in widths)):
        open_ = [index for index, width in enumerate(widths) if width < full[index]]
        if not open_:
            break
        widths[min(open_, key=lambda index: widths[index])] += 1
    return widths


def _plain(markup: str) -> str:
    return Text.from_markup(markup).plain


def _widest_word(markup: str) -> int:
    """Return the width of the longest stretch that no line may break; a mark belongs to its number."""
    return max(map(cell_len, re.split(rf" (?![{ABOVE_HUMAN}↑↓])", _plain(markup))))


def _table(title: str, columns: Sequence[Sequence[str]], widths: Sequence[int], names: int) -> Table:
    table = Table(title=title or None, title_justify="left")
    for index, (column, width) in enumerate(zip(columns, widths, strict=True)):
        # Names may hold settings: no letter of them is dropped.
        table.add_column(column[0], width=width, overflow="fold", justify="left" if index < names else "right")
    for row in zip(*(column[1:] for column in columns), strict=True):
        table.add_row(*row)
    return table
