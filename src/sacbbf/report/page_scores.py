"""The sections of the page that show scores: aggregates, figures, games, environments without a human score, curves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sacbbf.report import markup as m
from sacbbf.report.aggregate import METRICS, Estimate
from sacbbf.report.cells import ABOVE_HUMAN, QUOTED, aggregate, heading, number, score, score_span, span
from sacbbf.report.charts import (
    efficiency_chart,
    improvement_charts,
    learning_charts,
    metric_charts,
    profile_chart,
)
from sacbbf.report.contents import Cell, Comparison, Report, Row
from sacbbf.report.pairs import Improvement
from sacbbf.report.svg import swatch

MOST_CARDS = 4


def cards(report: Report) -> str:
    """Return the first thing to see: the IQM of each agent, or its score where there is no human to compare with."""
    found = []
    if report.comparisons:
        main = report.comparisons[0]
        rows = [row for row in main.rows if row.agent in report.agents]
        if not report.agents:
            rows = [
                row for row in main.rows if row.agent.name in report.colours or row.agent.name.startswith("SAC-BBF")
            ]
        found = [_card(row, main) for row in rows]
    if not found:
        for table in report.raw:
            best = next(row for row in table.rows if row.best)
            detail = f"mean score of {best.agent}, {best.runs} run{'s' * (best.runs > 1)}"
            found.append(_card_html(table.environment, score(best.score.value), score_span(best.score), detail))
    return m.tag("div", m.join(found[:MOST_CARDS]), class_="cards") if found else ""


def _card(row: Row, comparison: Comparison) -> str:
    if "iqm" not in row.metrics:
        return ""
    found, above = row.metrics["iqm"], row.metrics["games_above_human"].value
    mark = QUOTED if found.quoted else ""
    detail = f"IQM over {comparison.words}, {above:.0f} above human"
    return _card_html(row.agent.name, f"{number(found.value)}{mark}", span(found), detail)


def _card_html(name: str, value: str, interval: str, detail: str) -> str:
    small = m.text(f"95%: {interval}") if interval else "no interval"
    parts = [
        m.tag("p", m.text(name), class_="card-name"),
        m.tag("p", m.text(value), class_="card-value"),
        m.tag("p", small, class_="card-span"),
        m.tag("p", m.text(detail), class_="card-detail"),
    ]
    return m.tag("div", m.join(parts), class_="card")


# --- aggregates ---------------------------------------------------------------------------------------------------


def comparison_section(comparison: Comparison, report: Report, place: int) -> m.Section:
    """Return the aggregates over one set of games: table, figures, what to know of them."""
    id = "aggregates" if place == 0 else f"aggregates-{place + 1}"
    short = "Aggregates" if place == 0 else f"On {comparison.words}"
    listed = "" if len(comparison.games) in (1, 26) else m.tag("p", m.text(f"Games: {', '.join(comparison.games)}."))
    notes = m.join(m.tag("li", m.text(note)) for note in comparison.notes)
    content = [
        listed,
        _aggregate_table(comparison, report),
        m.tag("ul", notes, class_="remarks") if notes else "",
        m.figure(
            metric_charts(comparison, report),
            f"Aggregates over {comparison.words} with 95% stratified bootstrap intervals. Hollow: no interval, because "
            "the value is quoted, or computed from published means, or from one run per game. Dashed: human level.",
        ),
    ]
    content.append(m.tag("div", m.join(_figures(comparison, report)), class_="beside"))
    content.append(_pairs_table(comparison.improvements, comparison.words))
    return m.section(id, short, f"Human-normalised scores over {comparison.words}", *content)


def _pairs_table(found: Sequence[Improvement], words: str) -> str:
    """Return how far two agents lie apart, for each pair."""
    if not found:
        return ""
    rows = [
        [m.name(pair.first), m.name(pair.second), aggregate(pair.difference), aggregate(pair.probability)]
        for pair in found
    ]
    headings = ["Agent", "Over", "IQM difference", "Probability of improvement"]
    return m.table(f"Two agents side by side, over {words}", headings, rows, "numbers two-names")


def _figures(comparison: Comparison, report: Report) -> Iterator[str]:
    """Profiles, probability of improvement and sample efficiency, as far as there are any."""
    chart = profile_chart(comparison, report)
    if chart:
        caption = "The share of runs above each score, with pointwise 95% bands; higher is better."
        yield m.figure([chart], caption, _legend([line.name for line in chart.lines], report))
    better = improvement_charts(comparison, report)
    if better:
        yield m.figure(better, "How likely a run of one agent beats a run of the other in the same game.")
    efficiency = efficiency_chart(comparison, report)
    if efficiency:
        caption = (
            "IQM of the evaluations during training and of the final one, at the steps that all runs of an agent "
            "share, with 95% bands."
        )
        yield m.figure([efficiency], caption, _legend([line.name for line in efficiency.lines], report))


def _aggregate_table(comparison: Comparison, report: Report) -> str:
    head = m.tag("tr", "".join(m.tag("th", m.text(name), scope="col") for name in ("Agent", *map(heading, METRICS))))
    body = []
    for row in comparison.rows:
        kind = "published" if row.agent.published and report.agents else None
        cells = [_metric_cell(row.metrics.get(metric), metric, comparison.wins(row, metric)) for metric in METRICS]
        name = m.name(row.agent.name)
        if row.agent.name in report.colours:
            name = f"{swatch(report.colours[row.agent.name])} {name}"
        body.append(m.tag("tr", m.tag("th", name, scope="row") + "".join(cells), class_=kind))
    words = f"95% intervals below the values; best in bold; {QUOTED} quoted from a paper's table."
    return m.framed(
        f"Aggregates over {comparison.words}",
        m.tag("thead", head) + m.tag("tbody", m.join(body)),
        "numbers",
        f". {words}",
    )


def _metric_cell(found: Estimate | None, metric: str, wins: bool) -> str:
    if found is None:
        return m.tag("td", "-")
    value = f"{number(found.value, metric)}{QUOTED if found.quoted else ''}"
    if wins:
        value = m.tag("b", value)
    interval = span(found, metric)
    return m.tag("td", value + (m.tag("small", interval) if interval else ""))


def _legend(names: Iterable[str], report: Report) -> str:
    items = m.join(m.tag("li", f"{swatch(report.colours[name])} {m.text(name)}") for name in names)
    return m.tag("ul", items, class_="legend")


def printed_section(report: Report) -> m.Section | None:
    """Return the paper's aggregate rows as it prints them, to hold the computed ones against."""
    if not report.printed:
        return None
    rows = [
        [m.text(name), *(number(found[metric], metric) if metric in found else "-" for metric in METRICS)]
        for name, found in report.printed.items()
    ]
    table = m.table(
        "Aggregate rows of the SAC-BBF paper's main table, as printed",
        ["Agent", *map(heading, METRICS)],
        rows,
        "numbers",
    )
    words = (
        "Values computed above from published means or runs may differ from these in the last digit: the means are "
        "rounded, and some rows of the paper are cut off rather than rounded."
    )
    return m.section("printed", "As printed", "The same as printed in the paper", m.tag("p", words), table)


# --- games --------------------------------------------------------------------------------------------------------


def game_section(report: Report) -> m.Section | None:
    """Return the table of games, sortable by each column."""
    table = report.table
    if not table.games:
        return None
    headings = ["Game", *(agent.name for agent in table.agents)]
    head = "".join(
        m.tag("th", m.tag("button", m.name(name), type="button"), scope="col", aria_sort=order)
        for name, order in zip(headings, ["ascending", *["none"] * len(table.agents)], strict=True)
    )
    # Numbers of runs stand in the cells only where they differ.
    uneven = {agent.name for agent in report.agents if len({len(found) for found in agent.scores.values()}) > 1}
    body = []
    for game in table.games:
        cells = [_game_cell(table.cells.get((game, agent.name)), agent.name in uneven) for agent in table.agents]
        body.append(m.tag("tr", m.tag("th", m.text(game), scope="row", data_value=game) + "".join(cells)))
    content = m.tag("thead", m.tag("tr", head)) + m.tag("tbody", m.join(body))
    mark = m.tag("span", ABOVE_HUMAN, class_="above", aria_hidden="true")
    words = f". Best in bold, {mark} above human; a column's heading sorts by it."
    framed = m.framed("Mean score per game", content, "numbers sortable", words)
    status = m.tag("p", "", class_="hidden", role="status", id="sorted")
    return m.section("games", "Games", "Scores by game", framed, status)


def _game_cell(cell: Cell | None, counted: bool) -> str:
    if cell is None:
        return m.tag("td", "-", data_value="")
    value = m.text(score(cell.score.value))
    value = m.tag("b", value) if cell.best else value
    if cell.above_human:
        value += m.tag("span", ABOVE_HUMAN, class_="above", aria_hidden="true") + m.tag(
            "span", " above human", class_="hidden"
        )
    interval = score_span(cell.score)
    detail = ", ".join(filter(None, [interval, f"n={cell.runs}" if counted else ""]))
    return m.tag("td", value + (m.tag("small", detail) if detail else ""), data_value=repr(cell.score.value))


# --- environments without a human score ---------------------------------------------------------------------------


def raw_section(report: Report) -> m.Section | None:
    """Return raw scores with random and blind play beside them."""
    if not report.raw:
        return None
    rows = []
    for table in report.raw:
        for row in table.rows:
            value = m.text(score(row.score.value))
            value = m.tag("b", value) if row.best and len(table.rows) > 1 else value
            interval = score_span(row.score) or "-"
            gain = "-" if row.gain is None else f"{row.gain:.2f}"
            rows.append([m.name(table.environment), m.name(row.agent), value, interval, str(row.runs), gain])
        for name, played in table.baselines.items():
            interval, runs = score_span(played.estimate), f"measured in {played.runs}"
            rows.append([m.name(table.environment), f"{m.text(name)} play", score(played.score), interval, runs, "-"])
    words = (
        "No human score is known here, so scores are raw: the mean over runs with its 95% bootstrap interval. Random "
        "and blind play are those that the runs measured, with normal intervals over episodes. In the last column "
        "random play is 0 and the best blind play 1; it is given only where blind play is clearly above random play."
    )
    headings = ["Environment", "Agent", "Mean score", "95% interval", "Runs", "(score - random) / (blind - random)"]
    return m.section(
        "raw", "Raw scores", "Environments without a human score", m.tag("p", words),
        m.table("Raw scores by environment", headings, rows, "numbers two-names"), *_pooled_tables(report),
    )  # fmt: skip


def _pooled_tables(report: Report) -> Iterator[str]:
    """Return all these environments together, where several agents share them."""
    if report.pooled is not None:
        words = ", ".join(report.pooled.environments)
        rows = [[m.name(name), aggregate(value)] for name, value in report.pooled.iqm.items()]
        yield m.table(f"In units of the best agent's mean, over {words}", ["Agent", "IQM"], rows, "numbers")
        yield _pairs_table(report.pooled.improvements, words)


def learning_section(report: Report) -> m.Section | None:
    """Return a small learning curve for each environment."""
    found = list(learning_charts(report))
    if not found:
        return None
    charts = [chart for _, chart in found]
    names = list(dict.fromkeys(line.name for chart in charts for line in chart.lines))
    sources = sorted({words for words, _ in found})
    caption = (
        f"Mean score over runs with 95% bands, from {' or '.join(sources)}. Evaluations: at the steps that all runs "
        "share, and the final one. Training episodes: means of those that ended in each twentieth of the run. Thin "
        "dashed lines: scores to compare with."
    )
    return m.section("curves", "Learning curves", "Learning curves", m.figure(charts, caption, _legend(names, report)))
