"""The documentation's site: built without a warning, with links that lead somewhere, and nothing from elsewhere."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
# Attributes and tags whose address a browser fetches by itself; of links, those of these kinds.
SOURCES = ("src", "srcset", "poster", "data")
TAGS = ("script", "img", "video", "audio", "source", "iframe", "embed", "object", "track")
LINKS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload", "manifest"}


class Addresses(HTMLParser):
    """Gathers what a page fetches, what it links to, and the names of its places."""

    def __init__(self, text):
        super().__init__()
        self.fetched, self.linked, self.names = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = {name: value or "" for name, value in attrs}
        self.names.add(found.get("id"))
        self.fetched += [found[name] for name in SOURCES if name in found and tag in TAGS]
        if tag == "link" and LINKS & set(found.get("rel", "").split()):
            self.fetched.append(found.get("href", ""))
        if tag == "a" and "href" in found:
            self.linked.append(found["href"])


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    for name in ("mkdocs", "material", "mkdocstrings"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: the site is not built")
    site = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    return site, subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def pages(built):
    site, done = built
    assert done.returncode == 0, done.stderr
    return {path: Addresses(path.read_text()) for path in site.rglob("*.html")}


def test_the_site_is_built_without_a_warning(built):
    site, done = built
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith(("WARNING", "ERROR"))] == []
    assert (site / "index.html").is_file()


def test_every_page_is_part_of_it(pages, built):
    sources = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    for source in sources:
        place = source.parent if source.stem in ("index", "README") else source.with_suffix("")
        assert built[0] / place / "index.html" in pages, source
    assert len(sources) > 15


def test_nothing_is_fetched_from_elsewhere(pages, built):
    for path, page in pages.items():
        assert [one for one in page.fetched if re.match(r"(https?:)?//", one)] == [], path
        assert len(page.fetched) >= 3  # a style, a script, an icon
        assert 'class="mermaid"' not in path.read_text()  # drawn by a script from elsewhere
    styles = list(built[0].rglob("*.css"))
    assert styles
    for path in styles:
        assert re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//[^)'\"]*", path.read_text()) == [], path


def test_links_within_the_site_lead_somewhere(pages, built):
    seen = 0
    for path, page in pages.items():
        if path.name == "404.html":
            continue
        for link in page.linked:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), (path, link)
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].names, (path, link)
            seen += 1
    assert seen > 100


def test_pages_lead_on_and_their_contents_repeat_nothing(built, pages):
    """Every page but the last of the way has a next one, and no entry of its contents repeats another or its title."""
    for path in pages:
        text = path.read_text()
        if path.name == "404.html" or path.parent.parent.name == "results":  # tables behind a page, not on the way
            continue
        assert "md-footer__link" in text and text.count('name="__palette"') == 2, path
        contents = re.search(r'<nav class="md-nav md-nav--secondary".*?</nav>\s*</div>', text, re.DOTALL)
        entries = re.findall(r'md-ellipsis">\s*(.*?)\s*</span>', contents.group(0), re.DOTALL) if contents else []
        title = re.search(r"<h1[^>]*>(.*?)(?:<a|</h1>)", text, re.DOTALL).group(1).strip()
        assert title not in entries and len(set(entries)) == len(entries), path


def test_fields_of_an_evaluation_are_explained(built):
    text = (built[0] / "api" / "index.html").read_text()
    for name in ("mean", "standard_error", "interval", "scores"):
        assert f'id="sacbbf.api.evaluation.Evaluation.{name}"' in text
