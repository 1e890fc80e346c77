"""The report's figures as files, for papers and slides: PNG and SVG, drawn by matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sacbbf.report.cells import slug
from sacbbf.report.charts import COLOURS, Bar, Chart, Intervals, Line, Lines, all_charts
from sacbbf.report.contents import Report

GREY = "#555555"
STYLES = ("-", "--", ":", "-.")
SALT = "sacbbf"  # makes the names inside an SVG the same every time


def write_plots(report: Report, folder: Path) -> list[Path]:
    """Draw every figure into a folder; returns the files."""
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with matplotlib.rc_context(
        {"svg.hashsalt": SALT, "svg.fonttype": "none", "font.size": 9, "text.parse_math": False}
    ):
        for name, charts in all_charts(report):
            figure = draw_figure(charts)
            for ending in ("png", "svg"):
                path = folder / f"{slug(name)}.{ending}"
                metadata = {"Date": None} if ending == "svg" else {}
                figure.savefig(path, dpi=200, metadata=metadata)
                written.append(path)
    return written


def draw_figure(charts: Sequence[Chart]) -> Any:
    """Return a figure of charts side by side with one legend."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    handles = {line.name: _handle(line) for chart in charts if isinstance(chart, Lines) for line in chart.lines}
    rows, columns, (width, height) = _layout(charts)
    beside, needed, more = _legend_layout(list(handles), width)
    figure = Figure(figsize=(max(width, needed), height + more), layout="constrained")
    FigureCanvasAgg(figure)
    for number, chart in enumerate(charts):
        axes = figure.add_subplot(rows, columns, number + 1)
        if isinstance(chart, Intervals):
            _intervals(axes, chart, named=number % columns == 0)
        else:
            _lines(axes, chart)
        axes.set_title(chart.title, fontsize="medium")
        axes.spines[["top", "right"]].set_visible(False)
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=beside, frameon=False)
    return figure


def _legend_layout(names: Sequence[str], width: float) -> tuple[int, float, float]:
    """Return how many names stand beside each other, and the width and additional height they need, in inches."""
    if not names:
        return 1, 0.0, 0.0
    each = 0.8 + 0.075 * max(map(len, names))
    beside = 2 if 2 * each <= width else 1
    return beside, beside * each, 0.2 * max(0, math.ceil(len(names) / beside) - 2)


def _layout(charts: Sequence[Chart]) -> tuple[int, int, tuple[float, float]]:
    """Return rows, columns and size in inches: intervals of the same agents share their names along a row."""
    names = [tuple(bar.name for bar in chart.bars) for chart in charts if isinstance(chart, Intervals)]
    if not names:
        columns = min(len(charts), 3)
        rows = math.ceil(len(charts) / columns)
        return rows, columns, (5.0, 3.6) if len(charts) == 1 else (3.4 * columns, 2.4 * rows + 0.4)
    width = 0.075 * max(len(name) for found in names for name in found)
    if len(set(names)) == 1:
        return 1, len(names), (width + 2.0 * len(names) + (1.5 if len(names) == 1 else 0.0), 0.9 + 0.25 * len(names[0]))
    return len(names), 1, (width + 4.0, sum(0.9 + 0.25 * len(found) for found in names))


def _intervals(axes: Any, chart: Intervals, named: bool) -> None:
    for number, bar in enumerate(chart.bars):
        _bar(axes, bar, -number)
    labels = [bar.name if named else "" for bar in chart.bars]
    axes.set_yticks([-number for number in range(len(chart.bars))], labels, fontsize="small")
    axes.set_ylim(-len(chart.bars) + 0.5, 0.5)
    if chart.mark is not None:
        axes.axvline(chart.mark, color=GREY, linestyle=(0, (4, 3)), linewidth=0.8)
    if chart.x_range is not None:
        axes.set_xlim(*chart.x_range)
    axes.set_xlabel(chart.label)
    axes.grid(axis="x", alpha=0.3)


def _bar(axes: Any, bar: Bar, y: float) -> None:
    colour = GREY if bar.colour is None else COLOURS[bar.colour % len(COLOURS)]
    found = bar.estimate
    if found.low is not None:
        axes.hlines(y, found.low, found.high, color=colour, linewidth=4, alpha=0.5)
    inside = "white" if found.low is None else colour
    axes.plot(found.value, y, "o", color=colour, markerfacecolor=inside, markersize=5, clip_on=False)


def _lines(axes: Any, chart: Lines) -> None:
    for line in chart.lines:
        colour = COLOURS[line.colour % len(COLOURS)]
        style = STYLES[line.colour // len(COLOURS) % len(STYLES)]
        axes.plot(line.x, [point.value for point in line.points], color=colour, linestyle=style, linewidth=1.5)
        ends = [(x, p.low, p.high) for x, p in zip(line.x, line.points, strict=True) if p.low is not None]
        if ends:
            axes.fill_between(*zip(*ends, strict=True), color=colour, alpha=0.18, linewidth=0)
    for name, value in chart.rules:
        axes.axhline(value, color=GREY, linestyle=(0, (4, 3)), linewidth=0.8)
        axes.annotate(name, (1, value), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize="x-small")
    if chart.root_x:
        axes.set_xscale("function", functions=(lambda x: abs(x) ** 0.5, lambda x: x**2))
        axes.set_xticks([0, 0.25, 0.5, 1, 2, 4, 8], ["0", "0.25", "0.5", "1", "2", "4", "8"])
    if chart.y_range:
        axes.set_ylim(*chart.y_range)
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    axes.grid(alpha=0.3)


def _handle(line: Line) -> Any:
    from matplotlib.lines import Line2D

    style: Any = STYLES[line.colour // len(COLOURS) % len(STYLES)]
    return Line2D([], [], color=COLOURS[line.colour % len(COLOURS)], linestyle=style)
