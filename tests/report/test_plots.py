import pytest

from sacbbf.report.aggregate import Estimate
from sacbbf.report.charts import Line, Lines
from sacbbf.report.plots import draw_figure


@pytest.mark.parametrize("charts", [1, 3])
@pytest.mark.parametrize("letters", [5, 40, 90])
def test_the_legend_lies_within_the_figure(charts, letters):
    points = (Estimate(0.0, 0.0, 0.0), Estimate(1.0, 1.0, 1.0))
    name = ("sac-bbf tiny (schedule.beta_end=0.05, loss.variance_reduction=False) " * 2)[:letters]
    lines = tuple(Line(f"{number} {name}", (0.0, 1.0), points, number) for number in range(4))
    figure = draw_figure([Lines("title", "x", "y", lines)] * charts)
    figure.canvas.draw()
    box, (legend,) = figure.bbox, figure.legends
    found = legend.get_window_extent()
    assert box.x0 <= found.x0 and found.x1 <= box.x1
    assert box.y0 <= found.y0 and found.y1 <= box.y1
    assert min(axes.get_window_extent().height for axes in figure.axes) > box.height / 3
