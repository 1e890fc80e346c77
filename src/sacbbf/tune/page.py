"""The result of a tuning as one page that works offline, in the style of the report."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from sacbbf import __version__
from sacbbf.report import markup as m
from sacbbf.report.aggregate import Estimate
from sacbbf.report.cells import score, score_span
from sacbbf.report.charts import Bar, Intervals, Line, Lines
from sacbbf.report.page import document
from sacbbf.tune.compare import mean_interval
from sacbbf.tune.findings import Findings, budget_words, value_words
from sacbbf.tune.study import Trial

DEFAULT_COLOUR, BEST_COLOUR = 6, 0
FEW = 20  # trials below which shares of importance are hardly more than guesses


def page(found: Findings, best: Path, toml: str) -> str:
    """Return the page; the configuration that was found lies at a path and reads `toml`."""
    title = f"Tuning of {found.tuning.agent} on {found.tuning.env}"
    sections = [_comparison(found), _trials(found), _settings(found), _budget(found), _configuration(found, best, toml)]
    links = m.join(m.tag("li", m.tag("a", m.text(one.short), href=f"#{one.id}")) for one in sections)
    head = [m.tag("h1", m.text(title)), m.tag("p", m.text(f"{_capital(found.verdict)}."), class_="lead"), _cards(found)]
    body = [
        m.tag("a", "Skip to the result", href="#report", class_="skip"),
        m.tag("header", m.join(head)),
        m.tag("nav", m.tag("ul", links), aria_label="Sections"),
        m.tag("main", m.join(one.html for one in sections), id="report"),
        m.tag("footer", m.tag("p", f"sacbbf {__version__}, sacbbf tune")),
    ]
    return document(title, m.join(body))


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _cards(found: Findings) -> str:
    if found.comparison is None:
        return ""
    shown = {
        "default": mean_interval(found.comparison.default),
        f"trial {found.best.number}": mean_interval(found.comparison.best),
        "difference": found.comparison.difference,
    }
    words = f"mean score, {len(found.comparison.seeds)} fresh seeds"
    cards = [
        m.join(
            [
                m.tag("p", m.text(name), class_="card-name"),
                m.tag("p", score(value.value), class_="card-value"),
                m.tag("p", m.text(f"95%: {score_span(value)}"), class_="card-span"),
                m.tag("p", m.text(words), class_="card-detail"),
            ]
        )
        for name, value in shown.items()
    ]
    return m.tag("div", m.join(m.tag("div", card, class_="card") for card in cards), class_="cards")


def _comparison(found: Findings) -> m.Section:
    parts = [m.tag("p", m.text(f"{_capital(found.verdict)}."))]
    comparison = found.comparison
    if comparison is not None:
        name = f"trial {found.best.number}"
        bars = (
            Bar("default", mean_interval(comparison.default), DEFAULT_COLOUR),
            Bar(name, mean_interval(comparison.best), BEST_COLOUR),
        )
        caption = "Mean scores over fresh seeds, which no trial was trained on, with Student's 95% intervals."
        parts.append(m.figure([Intervals("Final comparison", "score, higher is better", bars)], caption))
        triples = zip(comparison.seeds, comparison.default, comparison.best, strict=True)
        rows = [[str(seed), score(one), score(two), score(two - one)] for seed, one, two in triples]
        ends = [mean_interval(comparison.default), mean_interval(comparison.best), comparison.difference]
        rows.append(["mean", *(f"{score(end.value)}<small>{score_span(end)}</small>" for end in ends)])
        headings = ["Fresh seed", "default", name, "difference"]
        parts.append(m.table("Scores on each fresh seed; 95% intervals of the means below", headings, rows, "numbers"))
        first, best = found.first.score, found.best.score
        if first is not None and best is not None:
            words = (
                f"On the tuning seeds, by which it was chosen, the trial scored {score(best)} and the default "
                f"{score(first)}. The best of many is partly the luckiest, so only the fresh seeds count."
            )
            parts.append(m.tag("p", m.text(words)))
    return m.section("comparison", "Comparison", "The best trial against the default", *parts)


def _trials(found: Findings) -> m.Section:
    names = [axis.name for axis in found.tuning.space]
    order = sorted(found.trials, key=lambda one: -1e300 if one.score is None else one.score, reverse=True)
    rows = [[m.text(_name(one)), _state(one), *(_value(found, one, name) for name in names)] for one in order]
    words = f"Mean scores over {found.tuning.seeds} tuning seeds, best first; highlighted: not as in the default"
    table = m.table(words, ["Trial", "Score", *names], rows, "numbers")
    parts = [m.figure([_progress(found)], "The best score so far, trial by trial.")] if _progress(found).lines else []
    return m.section("trials", "Trials", "Trials", *parts, table)


def _name(trial: Trial) -> str:
    return f"{trial.number}" if trial.number else "0, default"


def _state(trial: Trial) -> str:
    if trial.score is not None:
        return score(trial.score)
    if trial.points:
        step, reached = max(trial.points.items())
        return m.text(trial.state) + m.tag("small", m.text(f"{score(reached)} at {step:,} steps"))
    return m.text(trial.state) + (m.tag("small", m.text(trial.why)) if trial.why else "")


def _value(found: Findings, trial: Trial, name: str) -> str:
    value = found.settings_of(trial)[name]
    words = m.text(value_words(value))
    return words if value == found.default[name] else m.tag("mark", words)


def _progress(found: Findings) -> Lines:
    scores = [(one.number, one.score) for one in found.trials if one.score is not None]
    best = [max(score for _, score in scores[: place + 1]) for place in range(len(scores))]
    points = tuple(Estimate(value) for value in best)
    lines = (Line("best so far", tuple(float(number) for number, _ in scores), points, BEST_COLOUR),) * (
        len(scores) > 1
    )
    rules = () if found.first.score is None else (("default", found.first.score),)
    return Lines("Best trial so far", "trial", "score", lines, rules)


def _settings(found: Findings) -> m.Section:
    rows = list(_setting_rows(found))
    headings = ["Setting", "Searched", "Default", "Best trial", "Score by value (trials)", "Importance"]
    table = m.table("What was tuned, and how finished trials scored by the value of each setting", headings, rows)
    few = f" From {len(found.trials)} trials such shares are rough." if len(found.trials) < FEW else ""
    words = (
        "Importance is a setting's share in what sets the better half of the finished trials apart from all of them "
        f"(PED-ANOVA).{few} Scores by value mix the other settings in; thirds of the trials where there is a range."
    )
    return m.section("settings", "Settings", "Settings", table, m.tag("p", m.text(words)))


def _setting_rows(found: Findings) -> Iterator[list[str]]:
    best = found.settings_of(found.best)
    for axis in sorted(found.tuning.space, key=lambda one: -found.importance.get(one.name, 0.0)):
        groups = [
            f"{one.words}: {score(sum(one.scores) / len(one.scores))} ({len(one.scores)})"
            for one in found.stretches(axis)
        ]
        share = found.importance.get(axis.name)
        yield [
            m.name(axis.name),
            m.text(axis),
            m.text(value_words(found.default[axis.name])),
            m.text(value_words(best[axis.name])),
            "<br>".join(map(m.text, groups)),
            "-" if share is None else f"{share:.0%}",
        ]


def _budget(found: Findings) -> m.Section:
    states = [one.state for one in found.trials]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    spent = found.spent
    rows = [
        ["Trials", f"{len(found.trials)} of {'any number' if spent.trials is None else spent.trials}: {counts}"],
        ["Hours", f"{spent.hours_used:.2f} of {'any number' if spent.hours is None else f'{spent.hours:g}'}"],
        ["Steps of each run", f"{found.tuning.steps:,}"],
        ["Tuning seeds of each trial", str(found.tuning.seeds)],
        ["Fresh seeds of the comparison", str(found.tuning.fresh_seeds)],
        ["Runs at a time", str(spent.workers)],
    ]
    table = m.table(
        "What the tuning was given, and took", ["Budget", "Used"], [[m.text(cell) for cell in row] for row in rows]
    )
    return m.section("budget", "Budget", "Budget", m.tag("p", m.text(f"{budget_words(found)}.")), table)


def _configuration(found: Findings, best: Path, toml: str) -> m.Section:
    command = m.tag("pre", m.tag("code", m.text(f"sacbbf train --config {shlex.quote(str(best))}")), tabindex="0")
    whole = m.tag(
        "details", m.tag("summary", "The configuration") + m.tag("pre", m.tag("code", m.text(toml)), tabindex="0")
    )
    words = (
        f"The settings are those of trial {found.best.number}, tuned for {found.tuning.steps:,} steps; another number "
        "of --steps scales their schedules, and is not what was compared here."
    )
    return m.section("configuration", "Configuration", "Train with it", command, m.tag("p", m.text(words)), whole)
