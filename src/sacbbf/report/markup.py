"""A few words of HTML: elements, sections, tables, figures. Text is escaped where it enters, once."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sacbbf.errors import printable
from sacbbf.report.charts import Chart
from sacbbf.report.svg import draw


@dataclass(frozen=True)
class Section:
    """A part of the page with its anchor and its name in the navigation."""

    id: str
    short: str
    html: str


def text(value: object) -> str:
    """Return a value as HTML text."""
    return html.escape(printable(str(value)))


def name(value: str) -> str:
    """Return an agent's name as HTML text that may be broken where its settings have a mark."""
    return re.sub(r"([._=/])", r"\1<wbr>", text(value))


def permit(script: str) -> str:
    """Return what a page's policy says of the one script that it may run."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def join(parts: Iterable[str]) -> str:
    """Return parts one after the other, a line each."""
    return "\n".join(part for part in parts if part)


def tag(element: str, content: str = "", **attributes: str | None) -> str:
    """Return an element; `class_` and `aria_label` stand for class and aria-label, None for no attribute."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{element}{given}>{content}</{element}>"


def section(id: str, short: str, title: str, *content: str) -> Section:
    """Return a section under a heading."""
    body = join([tag("h2", text(title), id=f"{id}-title"), *content])
    return Section(id, short, tag("section", body, id=id, aria_labelledby=f"{id}-title"))


def table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]], class_: str | None = None) -> str:
    """Return a plain table that scrolls in its own frame; the first cell of a row names it."""
    head = tag("tr", "".join(tag("th", name(heading), scope="col") for heading in headings))
    body = join(
        tag("tr", tag("th", row[0], scope="row") + "".join(tag("td", cell) for cell in row[1:])) for row in rows
    )
    return framed(caption, tag("thead", head) + tag("tbody", body), class_)


def framed(caption: str, content: str, class_: str | None = None, about: str = "") -> str:
    """Return a table with its caption inside a frame that can be scrolled by touch and by keyboard."""
    # The caption stands outside the frame, or it would scroll away with the columns.
    words = tag("p", text(caption) + about, class_="caption")
    inner = tag("table", tag("caption", text(caption), class_="hidden") + content, class_=class_)
    return words + tag("div", inner, class_="frame", role="region", aria_label=caption, tabindex="0")


def figure(charts: Sequence[Chart], caption: str, legend: str = "") -> str:
    """Return charts side by side, their titles above them, with a legend above and a caption below."""
    within, above = (legend, "") if len(charts) == 1 else ("", legend)
    drawn = [
        tag("div", tag("p", text(chart.title), class_="panel-title") + within + draw(chart), class_="panel")
        for chart in charts
    ]
    grid = tag("div", join(drawn), class_="panels")
    return tag("figure", join([above, grid, tag("figcaption", text(caption))]))
