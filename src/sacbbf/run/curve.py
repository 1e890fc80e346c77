"""The learning curve as a picture: training episodes, evaluations, the final score, and what to compare it with."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from sacbbf.envs import games
from sacbbf.run.records import RunDirectory, read_lines

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"  # Okabe-Ito: told apart by everybody


def draw_curve(run: RunDirectory, title: str, game: str | None, result: dict[str, Any]) -> bytes:
    """Return the picture, as PNG, that a run's records and its result make."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    episodes = list(read_lines(run.record("episodes")))
    if episodes:
        _draw_training(axes, episodes)
    evaluations = list(read_lines(run.record("evaluations")))
    if evaluations:
        steps, means = [line["step"] for line in evaluations], [line["mean"] for line in evaluations]
        errors = [1.96 * line["standard_error"] for line in evaluations]
        axes.errorbar(steps, means, errors, fmt="o-", color=ORANGE, capsize=3, label="evaluation, 95% interval")
    if result["score"] is not None:
        label = f"final score {result['score']:,.2f}, 95% interval"
        error = [1.96 * result["standard_error"]]
        axes.errorbar([result["steps"]], [result["score"]], error, fmt="D", color=GREEN, capsize=5, label=label)
    for name, style in (("random", ":"), ("blind", "-.")):
        if name in result.get("baselines", {}):
            axes.axhline(result["baselines"][name]["score"], color=GREY, linestyle=style, label=f"{name} play")
    if game in games.GAMES:
        axes.axhline(games.SCORES[game].random, color=GREY, linestyle=":", label="random (published)")
        axes.axhline(games.SCORES[game].human, color=GREY, linestyle="--", label="human (published)")
    axes.set(title=title, xlabel="environment steps", ylabel="score of an episode")
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:  # nothing to name in a run that was stopped at once
        axes.legend(loc="best", fontsize="small")
    picture = io.BytesIO()
    FigureCanvasAgg(figure).print_png(picture)  # type: ignore[no-untyped-call]
    return picture.getvalue()


def _draw_training(axes: Any, episodes: list[dict[str, Any]]) -> None:
    steps = np.array([line["step"] for line in episodes])
    scores = np.array([line["score"] for line in episodes], np.float64)
    axes.plot(steps, scores, ".", color=BLUE, alpha=0.25, markersize=4, label="training episode")
    window = max(1, min(20, len(scores) // 5))
    smooth = np.convolve(scores, np.ones(window) / window, mode="valid")
    axes.plot(steps[window - 1 :], smooth, color=BLUE, label=f"mean of {window} episodes")
