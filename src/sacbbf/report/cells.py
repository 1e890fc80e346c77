"""How numbers are set, the same in every format: scores, estimates with intervals, marks for what is quoted."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sacbbf.errors import printable
from sacbbf.report.aggregate import METRICS, Estimate

QUOTED = "†"
ABOVE_HUMAN = "▲"
ARROWS = {"iqm": "↑", "median": "↑", "mean": "↑", "optimality_gap": "↓", "games_above_human": "↑"}
DEFINITIONS = {
    "Human-normalised score": "(score - random) / (human - random) of a run in a game: 0 is random play, 1 a human. "
    "Known for the 26 games of Atari 100K.",
    "IQM": "Interquartile mean: the mean of the middle half of all runs of all games, pooled.",
    "Median, mean": "Of the games' means over their runs: each game weighs the same.",
    "Optimality gap": "1 minus the mean over all runs of min(score, 1): how far from human level; lower is better.",
    "Games above human": "Games in which the mean over runs is above the human score.",
    "Probability of improvement": "That a run of one agent scores higher than a run of the other in the same game, "
    "ties counting half, averaged over games.",
    "IQM difference": "One agent's IQM minus the other's. An interval that holds 0 leaves open which is better.",
    "Units of the best": "Where no human score is known: (score - random) / (best - random) of a run, where best is "
    "the highest mean of the agents compared in that environment, and random is 0 where no run measured it.",
    "Performance profile": "Share of all runs that score above a threshold.",
    "95% interval": "Percentiles of a stratified bootstrap: each game's runs are drawn again with replacement, as many "
    "as it has, and the statistic is computed anew. It holds the uncertainty from seeds, not from the choice of games.",
    "Unequal numbers of runs": "Each game is resampled from its own runs. IQM, optimality gap and profiles pool the "
    "runs as they are, so a game with more runs weighs more; the notes give the IQM with equal weights.",
    f"{QUOTED} quoted": "As printed in a paper: the runs behind it are not published, and means alone do not give it.",
}


def number(value: float, metric: str = "") -> str:
    """Return an aggregate: three decimals, or a whole number of games."""
    return f"{value:.0f}" if metric == "games_above_human" else f"{value:.3f}"


def score(value: float) -> str:
    """Return a score in points."""
    return f"{value:,.1f}"


def span(estimate: Estimate, metric: str = "") -> str:
    """Return an aggregate's interval, or nothing."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{number(estimate.low, metric)} to {number(estimate.high, metric)}"


def score_span(estimate: Estimate) -> str:
    """Return a score's interval, or nothing; large ones without decimals."""
    if estimate.low is None or estimate.high is None:
        return ""
    if max(abs(estimate.low), abs(estimate.high)) >= 1000:
        return f"{estimate.low:,.0f} to {estimate.high:,.0f}"
    return f"{score(estimate.low)} to {score(estimate.high)}"


def run_words(scores: Mapping[str, tuple[float, ...]]) -> str:
    """Return how many runs there are per environment, in words."""
    counts = sorted({len(found) for found in scores.values()})
    if len(counts) > 1:
        return f"{counts[0]} to {counts[-1]} runs per environment"
    return f"{counts[0]} run{'s' * (counts[0] > 1)} per environment"


def aggregate(estimate: Estimate | None, metric: str = "") -> str:
    """Return an aggregate with its interval, or its mark, in one line."""
    if estimate is None:
        return "-"
    interval = span(estimate, metric)
    mark = QUOTED if estimate.quoted else ""
    return f"{number(estimate.value, metric)}{mark}" + (f" ({interval})" if interval else "")


def heading(metric: str) -> str:
    """Return a metric's name with the direction that is better."""
    return f"{METRICS[metric]} {ARROWS[metric]}"


def one_line(text: str) -> str:
    """Return a text in one line, with all that nobody sees spelled out."""
    return printable(" ".join(text.split()))


def slug(text: str) -> str:
    """Return a text as the name of a file or an anchor."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
