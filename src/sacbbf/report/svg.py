"""Charts as small inline SVG: text and axes take the page's colour, so that they are crisp in light and dark alike."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from sacbbf.report.aggregate import Estimate
from sacbbf.report.cells import QUOTED, number
from sacbbf.report.charts import COLOURS, DASHES, Bar, Chart, Intervals, Line, Lines, describe

WIDTH = 380  # units of a chart; at most a phone's width in pixels
ROW = 36  # height of a row of intervals: a line of text above the bar
LONGEST = 46  # letters of a name that fit beside a value


@dataclass(frozen=True)
class _Axes:
    """Where data lies on the drawing."""

    left: float
    right: float
    top: float
    bottom: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    root_x: bool = False

    def x(self, value: float) -> float:
        low, high = self.x_range
        share = (value - low) / (high - low)
        share = math.sqrt(max(share, 0.0)) if self.root_x else share
        return self.left + share * (self.right - self.left)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return self.bottom - (value - low) / (high - low) * (self.bottom - self.top)


def draw(chart: Chart) -> str:
    """Return a chart as an SVG element with its text alternative."""
    height, body = _intervals(chart) if isinstance(chart, Intervals) else _lines(chart)
    label = html.escape(describe(chart))
    return f'<svg class="chart" role="img" viewBox="0 0 {WIDTH} {height}" aria-label="{label}">{"".join(body)}</svg>'


def swatch(colour: int) -> str:
    """Return a short stroke in a series' colour and dashes, for a legend."""
    return (
        f'<svg class="swatch" viewBox="0 0 28 10" aria-hidden="true"><path d="M1 5H27" class="{_class(colour)}" '
        f'fill="none" stroke-width="2.5"{_dash(colour)}/></svg>'
    )


# --- rows of intervals --------------------------------------------------------------------------------------------


def _intervals(chart: Intervals) -> tuple[int, list[str]]:
    height = 8 + ROW * len(chart.bars) + 38
    low, high = chart.x_range or _spread([bar.estimate for bar in chart.bars], chart.mark)
    ticks = nice_ticks(low, high, 5)
    axes = _Axes(10, WIDTH - 12, 8, height - 38, (min(low, ticks[0]), max(high, ticks[-1])), (0, 1))
    rows = range(0, len(chart.bars), 2)  # every other row shaded, so that name and bar are seen to belong together
    body = [f'<path class="shade" d="M0 {axes.top + ROW * row}H{WIDTH}v{ROW}H0z"/>' for row in rows]
    body += _x_axis(axes, ticks, chart.label, grid=True)
    if chart.mark is not None:
        body.append(f'<path class="mark" d="M{axes.x(chart.mark):.1f} {axes.top}V{axes.bottom}"/>')
    for row, bar in enumerate(chart.bars):
        body += _bar(bar, axes, axes.top + ROW * row, chart.metric)
    return height, body


def _bar(bar: Bar, axes: _Axes, top: float, metric: str) -> list[str]:
    name = bar.name if len(bar.name) <= LONGEST else f"{bar.name[: LONGEST - 1]}…"
    y, style, found = top + 26, _class(bar.colour), bar.estimate
    value = number(found.value, metric) + (QUOTED if found.quoted else "")
    parts = [
        f'<text x="{axes.left}" y="{top + 14:.1f}">{html.escape(name)}</text>',
        f'<text x="{axes.right}" y="{top + 14:.1f}" text-anchor="end">{value}</text>',
    ]
    if found.low is not None and found.high is not None:
        left, right = axes.x(found.low), axes.x(found.high)
        parts.append(f'<path class="{style} whisker" d="M{left:.1f} {y:.1f}H{right:.1f}"/>')
    x = axes.x(found.value)
    hollow = " hollow" if found.low is None else ""
    parts.append(f'<path class="{style} dot{hollow}" d="M{x - 4.5:.1f} {y:.1f}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0"/>')
    return parts


def _spread(estimates: Sequence[Estimate], mark: float | None) -> tuple[float, float]:
    ends = [end for found in estimates for end in (found.low, found.high, found.value) if end is not None]
    low, high = min([*ends, *([mark] if mark is not None else [])]), max([*ends, *([mark] if mark is not None else [])])
    room = 0.04 * (high - low) or 0.05 * max(abs(high), 1.0)
    return low - room, high + room


# --- curves -------------------------------------------------------------------------------------------------------


def _lines(chart: Lines) -> tuple[int, list[str]]:
    height = 280 if chart.wide else 220
    xs = [x for line in chart.lines for x in line.x]
    y_low, y_high = chart.y_range or _y_range(chart)
    y_ticks = nice_ticks(y_low, y_high, 5)
    x_range = (0.0, max(xs)) if min(xs) >= 0 else (min(xs), max(xs))
    left = 18 + 6.4 * max(len(short(tick)) for tick in y_ticks)
    axes = _Axes(left + 8, WIDTH - 14, 10, height - 40, x_range, (y_low, y_high), chart.root_x)
    x_ticks = [0, 0.5, 1, 2, 4, 8] if chart.root_x else nice_ticks(*x_range, 4)
    body = [*_y_axis(axes, y_ticks, chart.y_label), *_x_axis(axes, x_ticks, chart.x_label, grid=False)]
    body += _rules(chart, axes)
    body += [_band(line, axes) for line in chart.lines]
    body += [_curve(line, axes) for line in chart.lines]
    return height, body


def _rules(chart: Lines, axes: _Axes) -> list[str]:
    """Horizontal lines with their names; lines too close for two names share one."""
    body: list[str] = []
    names: list[tuple[float, list[str]]] = []
    for name, value in sorted(chart.rules, key=lambda rule: -rule[1]):
        y = axes.y(value)
        body.append(f'<path class="mark" d="M{axes.left:.1f} {y:.1f}H{axes.right}"/>')
        if names and y - names[-1][0] < 12:
            names[-1][1].append(name)
        else:
            names.append((y, [name]))
    for y, found in names:
        words = html.escape(", ".join(found))
        body.append(f'<text class="rule" x="{axes.right - 2}" y="{y - 3:.1f}" text-anchor="end">{words}</text>')
    return body


def _y_range(chart: Lines) -> tuple[float, float]:
    estimates = [point for line in chart.lines for point in line.points]
    low, high = _spread(estimates, None)
    for _, value in chart.rules:
        low, high = min(low, value), max(high, value)
    room = 0.06 * (high - low)
    return low - room, high + room


def _band(line: Line, axes: _Axes) -> str:
    ends = [(x, p.low, p.high) for x, p in zip(line.x, line.points, strict=True) if p.low is not None]
    upper = _path(axes, [(x, high) for x, _, high in ends if high is not None])
    lower = _path(axes, [(x, low) for x, low, _ in reversed(ends) if low is not None])
    return f'<path class="{_class(line.colour)} band" d="M{upper}L{lower}Z"/>' if ends else ""


def _curve(line: Line, axes: _Axes) -> str:
    points = _path(axes, [(x, point.value) for x, point in zip(line.x, line.points, strict=True)])
    return f'<path class="{_class(line.colour)} line" d="M{points}"{_dash(line.colour)}/>'


def _path(axes: _Axes, points: Sequence[tuple[float, float]]) -> str:
    return "L".join(f"{axes.x(x):.1f} {axes.y(y):.1f}" for x, y in points)


# --- axes ---------------------------------------------------------------------------------------------------------


def _x_axis(axes: _Axes, ticks: Sequence[float], label: str, grid: bool) -> list[str]:
    parts = [f'<path class="axis" d="M{axes.left:.1f} {axes.bottom}H{axes.right}"/>']
    for tick in ticks:
        x = axes.x(tick)
        end = f"{axes.top}" if grid else f"{axes.bottom + 4}"
        parts.append(f'<path class="{"grid" if grid else "axis"}" d="M{x:.1f} {axes.bottom}V{end}"/>')
        anchor = "end" if x > WIDTH - 24 else "middle"
        parts.append(f'<text x="{x:.1f}" y="{axes.bottom + 15}" text-anchor="{anchor}">{short(tick)}</text>')
    middle = (axes.left + axes.right) / 2
    parts.append(f'<text x="{middle:.1f}" y="{axes.bottom + 32}" text-anchor="middle" class="label">{label}</text>')
    return parts


def _y_axis(axes: _Axes, ticks: Sequence[float], label: str) -> list[str]:
    parts = []
    for tick in ticks:
        y = axes.y(tick)
        parts.append(f'<path class="grid" d="M{axes.left:.1f} {y:.1f}H{axes.right}"/>')
        parts.append(f'<text x="{axes.left - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{short(tick)}</text>')
    middle = (axes.top + axes.bottom) / 2
    turned = f'transform="rotate(-90 11 {middle:.1f})"'
    parts.append(f'<text x="11" y="{middle:.1f}" text-anchor="middle" class="label" {turned}>{label}</text>')
    return parts


def nice_ticks(low: float, high: float, about: int) -> list[float]:
    """Return round numbers within a range, about as many as asked for."""
    raw = (high - low) / max(about - 1, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(step for step in (power, 2 * power, 2.5 * power, 5 * power, 10 * power) if step >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)] or [low]


def short(value: float) -> str:
    """Return a tick's number in few letters."""
    if abs(value) >= 10_000:
        return f"{value / 1000:,.4g}k"
    return f"{value:,.4g}".replace("-", "\u2212")


def _class(colour: int | None) -> str:
    return "plain" if colour is None else f"c{colour % len(COLOURS)}"


def _dash(colour: int) -> str:
    dash = DASHES[(colour // len(COLOURS)) % len(DASHES)]
    return f' stroke-dasharray="{dash}"' if dash else ""
