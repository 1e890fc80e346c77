"""What is drawn, without saying how: charts of intervals and of lines, which the page and the plot files both draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sacbbf.envs import games
from sacbbf.report.aggregate import LOWER_IS_BETTER, METRICS, THRESHOLDS, Estimate
from sacbbf.report.cells import aggregate
from sacbbf.report.contents import Comparison, Report
from sacbbf.report.curves import EPISODES, Curve

# Okabe-Ito, told apart by everybody; ordered by contrast on white, dashes tell apart what is drawn after seven.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777")
DASHES = ("", "6 3", "2 3", "8 3 2 3")


@dataclass(frozen=True)
class Bar:
    """A value with its interval, in a row of its own."""

    name: str
    estimate: Estimate
    colour: int | None  # None: grey, without runs


@dataclass(frozen=True)
class Intervals:
    """A chart of one metric, a row per agent."""

    title: str
    label: str
    bars: tuple[Bar, ...]
    mark: float | None = None  # a vertical line
    metric: str = ""  # how its numbers are set
    x_range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Line:
    """A curve with its band."""

    name: str
    x: tuple[float, ...]
    points: tuple[Estimate, ...]
    colour: int


@dataclass(frozen=True)
class Lines:
    """A chart of curves."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    rules: tuple[tuple[str, float], ...] = ()  # horizontal lines to compare with
    root_x: bool = False  # a square-root axis
    y_range: tuple[float, float] | None = None
    wide: bool = True  # a figure of its own, not one of many


Chart = Intervals | Lines


def metric_charts(comparison: Comparison, report: Report) -> list[Intervals]:
    """Return a chart for each metric: every agent with its interval, quoted values without."""
    charts = []
    for metric, name in METRICS.items():
        rows = [row for row in comparison.rows if metric in row.metrics and row.agent.name not in ("Random", "Human")]
        bars = tuple(Bar(row.agent.name, row.metrics[metric], report.colours.get(row.agent.name)) for row in rows)
        better = "lower is better" if metric in LOWER_IS_BETTER else "higher is better"
        mark = 1.0 if metric in ("iqm", "median", "mean") else None
        charts.append(Intervals(name, better, bars, mark, metric))
    return charts


def improvement_charts(comparison: Comparison, report: Report) -> list[Intervals]:
    """Return the probabilities of improvement, a chart for each agent that is compared with others."""
    charts = []
    for first in dict.fromkeys(found.first for found in comparison.improvements):
        bars = tuple(
            Bar(f"over {found.second}", found.probability, report.colours[first])
            for found in comparison.improvements
            if found.first == first
        )
        title, label = f"Probability of improvement: {first}", "above 0.5: more likely better"
        charts.append(Intervals(title, label, bars, 0.5, x_range=(0.0, 1.0)))
    return charts


def profile_chart(comparison: Comparison, report: Report) -> Lines | None:
    """Return the performance profiles of all agents with runs."""
    x = tuple(THRESHOLDS.tolist())
    lines = tuple(Line(name, x, points, report.colours[name]) for name, points in comparison.profiles.items())
    if not lines:
        return None
    return Lines(
        "Performance profiles",
        "human-normalised score (square-root axis)",
        "share of runs above it",
        lines,
        root_x=True,
        y_range=(0.0, 1.0),
    )


def efficiency_chart(comparison: Comparison, report: Report) -> Lines | None:
    """Return the IQM by step, of the agents that were evaluated while they trained."""
    lines = tuple(_line(curve, report) for curve in comparison.efficiency)
    if not lines:
        return None
    return Lines("Sample efficiency", "environment steps", "IQM, human-normalised", lines, (("human", 1.0),))


def learning_charts(report: Report) -> Iterator[tuple[str, Lines]]:
    """Return a chart for each environment with the words for where its curves come from."""
    by_environment: dict[str, list[Curve]] = {}
    for curve in report.curves:
        by_environment.setdefault(curve.environment, []).append(curve)
    for environment, curves in by_environment.items():
        lines = tuple(_line(curve, report) for curve in curves)
        words = " and ".join(sorted({curve.source for curve in curves}))
        label = "training score" if all(curve.source == EPISODES for curve in curves) else "score"
        rules = tuple(_rules(environment, report))
        yield words, Lines(environment, "environment steps", label, lines, rules, wide=False)


def _line(curve: Curve, report: Report) -> Line:
    return Line(curve.agent, curve.steps, curve.points, report.colours[curve.agent])


def _rules(environment: str, report: Report) -> Iterator[tuple[str, float]]:
    """What a curve compares with: published scores, or random and blind play as the runs measured them."""
    if environment in games.GAMES:
        yield "random", games.SCORES[environment].random
        yield "human", games.SCORES[environment].human
    for table in report.raw:
        if table.environment == environment:
            yield from ((name, played.score) for name, played in table.baselines.items())


def describe(chart: Chart) -> str:
    """Return the text alternative of a chart: what it shows, with its values."""
    if isinstance(chart, Intervals):
        values = "; ".join(f"{bar.name} {aggregate(bar.estimate, chart.metric)}" for bar in chart.bars)
        return f"{chart.title}: {values}."
    ends = "; ".join(f"{line.name} from {_end(line, 0)} to {_end(line, -1)}" for line in chart.lines)
    rules = "".join(f"; {name} {value:,.4g}" for name, value in chart.rules)
    return f"{chart.title}, {chart.y_label} against {chart.x_label}: {ends}{rules}."


def _end(line: Line, place: int) -> str:
    return f"{line.points[place].value:,.4g} at {line.x[place]:,.0f}"


def all_charts(report: Report) -> Iterator[tuple[str, Sequence[Chart]]]:
    """Return every figure of the report by its name, for files: the charts that stand in it."""
    for number, comparison in enumerate(report.comparisons):
        suffix = "" if number == 0 else f" {len(comparison.games)} games {number + 1}"
        yield f"aggregates{suffix}", metric_charts(comparison, report)
        if comparison.improvements:
            yield f"probability of improvement{suffix}", improvement_charts(comparison, report)
        for chart in (make(comparison, report) for make in (profile_chart, efficiency_chart)):
            if chart is not None:
                yield f"{chart.title}{suffix}", [chart]
    curves = [chart for _, chart in learning_charts(report)]
    if curves:
        yield "learning curves", curves
