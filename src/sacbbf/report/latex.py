"""The report as one LaTeX table in the style of booktabs: games in rows, agents in columns, aggregates below."""

from __future__ import annotations

from sacbbf.report.aggregate import LOWER_IS_BETTER, METRICS
from sacbbf.report.cells import number, one_line, score, span
from sacbbf.report.contents import Comparison, GameTable, Report, Row

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip
_ARROWS = {metric: r"$\downarrow$" if metric in LOWER_IS_BETTER else r"$\uparrow$" for metric in METRICS}


def escape(text: str) -> str:
    """Return text as LaTeX prints it, in one line."""
    return "".join(_SPECIAL.get(letter, letter) for letter in one_line(text))


def _comment(text: str) -> str:
    """Return text as a comment, which ends with its line."""
    return f"% {one_line(text)}"


def latex(report: Report) -> str:
    """Return the table of games with the aggregates of the first comparison, and one of raw scores if there are any."""
    parts = [
        "% needs \\usepackage{booktabs, graphicx}",
        f"% intervals: stratified bootstrap, {report.sampling.reps} samples, seed {report.sampling.seed}",
    ]
    parts += map(_comment, (*report.left_out, *report.notes))
    for number_, comparison in enumerate(report.comparisons):
        parts += map(_comment, comparison.notes)
        parts += _games(report.table, comparison) if number_ == 0 else _aggregates(comparison)
    if report.raw:
        parts += _raw(report)
    return "\n".join(parts) + "\n"


def _games(table: GameTable, comparison: Comparison) -> list[str]:
    names = " & ".join(escape(agent.name) for agent in table.agents)
    lines = [*_begin(f"l{'r' * len(table.agents)}"), f"Game & {names} \\\\", r"\midrule"]
    for game in table.games:
        cells = []
        for agent in table.agents:
            cell = table.cells.get((game, agent.name))
            value = "--" if cell is None else _signed(score(cell.score.value))
            cells.append(f"\\textbf{{{value}}}" if cell is not None and cell.best else value)
        lines.append(f"{game} & {' & '.join(cells)} \\\\")
    lines.append(r"\midrule")
    rows = {row.agent.name: row for row in comparison.rows}
    for metric in METRICS:
        cells = [_metric(rows.get(agent.name), metric, comparison) for agent in table.agents]
        lines.append(f"{METRICS[metric]} {_ARROWS[metric]} & {' & '.join(cells)} \\\\")
        spans = [_span(rows.get(agent.name), metric) for agent in table.agents]
        if any(spans):
            lines.append(f"\\quad 95\\% interval & {' & '.join(spans)} \\\\")
    words = f"Mean scores and human-normalised aggregates over {comparison.words}"
    return [*lines, *_end(f"{words}, with 95\\% stratified bootstrap intervals; $^\\dagger$ quoted.")]


def _aggregates(comparison: Comparison) -> list[str]:
    lines = [*_begin(f"l{'r' * len(METRICS)}"), f"Agent & {' & '.join(METRICS.values())} \\\\", r"\midrule"]
    for row in comparison.rows:
        cells = [f"{_metric(row, metric, comparison)} {_span(row, metric)}".rstrip() for metric in METRICS]
        lines.append(f"{escape(row.agent.name)} & {' & '.join(cells)} \\\\")
    words = f"Human-normalised aggregates over {', '.join(comparison.games)}"
    return [*lines, *_end(f"{words}, with 95\\% stratified bootstrap intervals.")]


def _metric(row: Row | None, metric: str, comparison: Comparison) -> str:
    if row is None or metric not in row.metrics:
        return "--"
    found = row.metrics[metric]
    value = _signed(number(found.value, metric))
    if comparison.wins(row, metric):
        value = f"\\textbf{{{value}}}"
    return value + (r"$^\dagger$" if found.quoted else "")


def _span(row: Row | None, metric: str) -> str:
    interval = span(row.metrics[metric], metric) if row is not None and metric in row.metrics else ""
    return f"{{\\scriptsize {_signed(interval)}}}" if interval else ""


def _signed(text: str) -> str:
    return text.replace("-", "$-$")


def _raw(report: Report) -> list[str]:
    lines = [*_begin("llrrr"), r"Environment & Agent & Mean score & 95\% interval & Runs \\", r"\midrule"]
    for table in report.raw:
        for row in table.rows:
            value = _signed(score(row.score.value))
            value = f"\\textbf{{{value}}}" if row.best and len(table.rows) > 1 else value
            low, high = row.score.low, row.score.high
            interval = "--" if low is None or high is None else _signed(f"{score(low)} to {score(high)}")
            lines.append(f"{escape(table.environment)} & {escape(row.agent)} & {value} & {interval} & {row.runs} \\\\")
    return [*lines, *_end(r"Raw scores: means over runs with 95\% bootstrap intervals.")]


def _begin(columns: str) -> list[str]:
    head = [r"\begin{table}", r"\centering", r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"]
    return [*head, f"\\begin{{tabular}}{{{columns}}}", r"\toprule"]


def _end(caption: str) -> list[str]:
    return [r"\bottomrule", r"\end{tabular}}", f"\\caption{{{caption}}}", r"\end{table}"]
