"""Tables of the report in a terminal: no number is broken, and none is lost, however narrow it is."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sacbbf.report.terminal import parts_that_fit, print_table, widened

HEAD = ["game", "SAC-BBF RR2, paper", "Random", "BBF (loss.spr_weight=2.0, optimiser.learning_rate=0.0001)"]
ROWS = [["ChopperCommand", "[bold]112,450.3 ▲[/bold]", "811.0", "1,000.0 ▲"], ["Pong", "-20.7", "0.0", "-"]]


def printed(width):
    out = io.StringIO()
    print_table(Console(file=out, width=width), "scores", HEAD, ROWS)
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 160])
def test_numbers_and_names_stay_whole_whatever_the_width(width):
    text = printed(width)
    assert max(map(len, text.splitlines())) <= width
    for word in ("ChopperCommand", "112,450.3 ▲", "811.0", "1,000.0 ▲", "-20.7", "SAC-BBF", "paper"):
        assert word in text
    assert text.count("scores") == 1


def test_a_table_that_is_too_wide_comes_in_parts_that_repeat_the_names():
    assert printed(160).count("ChopperCommand") == 1
    assert printed(60).count("ChopperCommand") == 2


def test_parts_have_as_many_columns_as_fit():
    """A column takes its width and 3 more, and a table one line at its end: 10 + 3 + 2 x (5 + 3) + 1 = 30."""
    assert parts_that_fit([10, 5, 5, 5], 38) == [[0, 1, 2, 3]]
    assert parts_that_fit([10, 5, 5, 5], 30) == [[0, 1, 2], [0, 3]]
    assert parts_that_fit([10, 5, 5, 5], 30, names=2) == [[0, 1, 2], [0, 1, 3]]
    assert parts_that_fit([10, 50, 5], 30) == [[0, 1], [0, 2]]  # too wide in any case: alone


def test_room_goes_to_the_narrowest_column_that_lacks_some():
    assert widened([4, 2, 3], [4, 9, 9], 22) == [4, 4, 4]
    assert widened([4, 2], [4, 3], 80) == [4, 3]
    assert widened([4, 2], [9, 9], 5) == [4, 2]
