"""Pages in a real browser: how one is started, and what is noted while a page is open."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
VIEWS = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]


@dataclass
class View:
    """An opened page, and what went wrong on it."""

    page: Any
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


def start_browser() -> Iterator[Any]:
    """Yield a browser until it is no longer needed; skips where there is none, and says so."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no page is opened")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("there is no chromium on the path: the page is not opened in a browser")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


def new_view(context: Any) -> View:
    """Return an empty page of a browser's context that notes messages, errors, dialogs and requests."""
    view = View(context.new_page())
    view.page.on("console", lambda message: view.messages.append(message.text))
    view.page.on("pageerror", lambda error: view.messages.append(str(error)))
    view.page.on("dialog", lambda dialog: (view.messages.append(dialog.message), dialog.dismiss()))
    view.page.on("request", lambda request: view.requests.append(request.url))
    return view
