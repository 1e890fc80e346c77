"""The report as one tidy CSV: a line per agent, statistic and environment, with interval and source."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from sacbbf.envs import games
from sacbbf.report.aggregate import Estimate
from sacbbf.report.cells import one_line
from sacbbf.report.contents import Report
from sacbbf.report.pairs import Improvement

COLUMNS = ("agent", "statistic", "environment", "value", "low", "high", "runs", "how", "source")
WORDS = ("agent", "statistic", "environment", "source")  # which may be anybody's; all others are numbers
FORMULA = ("=", "+", "-", "@")  # how a formula begins in a spreadsheet


def table(report: Report) -> str:
    """Return the whole table."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    for line in (*_aggregates(report), *_games(report), *_raw(report)):
        writer.writerow({name: _cell(value) if name in WORDS else value for name, value in line.items()})
    return out.getvalue()


def _cell(value: Any) -> str:
    """Return words in one line that no spreadsheet takes for a formula."""
    words = one_line(str(value))
    return f"'{words}" if words.startswith(FORMULA) else words


def _line(agent: str, statistic: str, environment: str, found: Estimate, **rest: Any) -> dict[str, Any]:
    values = {"value": found.value, "low": found.low, "high": found.high}
    numbers = {name: "" if value is None else repr(value) for name, value in values.items()}
    how = {"how": "quoted" if found.quoted else "computed"}
    return {"agent": agent, "statistic": statistic, "environment": environment, **numbers, **how, **rest}


def _aggregates(report: Report) -> Iterator[dict[str, Any]]:
    for comparison in report.comparisons:
        for row in comparison.rows:
            runs = "" if row.agent.means_only else sum(len(row.agent.scores[game]) for game in comparison.games)
            for metric, found in row.metrics.items():
                yield _line(row.agent.name, metric, comparison.words, found, runs=runs, source=row.agent.source)
        yield from _pairs(comparison.improvements, comparison.words)


def _pairs(found: Sequence[Improvement], words: str) -> Iterator[dict[str, Any]]:
    for pair in found:
        yield _line(pair.first, f"probability_of_improvement over {pair.second}", words, pair.probability)
        yield _line(pair.first, f"iqm_difference over {pair.second}", words, pair.difference)


def _games(report: Report) -> Iterator[dict[str, Any]]:
    sources = {agent.name: agent.source for agent in report.table.agents}
    for (game, agent), cell in report.table.cells.items():
        rest = {"runs": "" if cell.runs is None else cell.runs, "source": sources[agent]}
        yield _line(agent, "score", game, cell.score, **rest)
        low, high = (
            None if end is None else games.human_normalised(game, end) for end in (cell.score.low, cell.score.high)
        )
        scaled = Estimate(games.human_normalised(game, cell.score.value), low, high)
        yield _line(agent, "human_normalised", game, scaled, **rest)


def _raw(report: Report) -> Iterator[dict[str, Any]]:
    for table in report.raw:
        for row in table.rows:
            yield _line(row.agent, "score", table.environment, row.score, runs=row.runs, source="runs")
        for name, played in table.baselines.items():
            source = "measured by the runs, normal interval over episodes"
            yield _line(f"{name} play", "score", table.environment, played.estimate, runs=played.runs, source=source)
    if report.pooled is not None:
        words = ", ".join(report.pooled.environments)
        for agent, found in report.pooled.iqm.items():
            yield _line(agent, "iqm in units of the best", words, found)
        yield from _pairs(report.pooled.improvements, words)
