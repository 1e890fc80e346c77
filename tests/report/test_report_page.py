"""The page in a real browser: offline, sortable by mouse and keyboard, readable at both widths and in both schemes."""

from __future__ import annotations

import pytest
from made_runs import make_config, write_csv, write_run

from browsing import VIEWS, new_view
from sacbbf.cli import run

# The contrast of every piece of text with what lies behind it; text in charts may lie on a shaded row.
CONTRAST = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = rgb(getComputedStyle(node).backgroundColor);
      if (colour.length < 4 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const probe = document.createElement("div");
  probe.style.backgroundColor = "var(--panel)";
  document.body.append(probe);
  const shade = rgb(getComputedStyle(probe).backgroundColor);
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    const words = walker.currentNode.textContent.trim();
    if (!words || ["SCRIPT", "STYLE"].includes(parent.tagName) || parent.closest(".hidden, .skip")) continue;
    const style = getComputedStyle(parent);
    const inside = parent.closest("svg");
    const colour = rgb(inside ? style.fill : style.color);
    const against = inside ? [behind(inside), shade] : [behind(parent)];
    found.push([Math.min(...against.map((one) => ratio(colour, one))), words.slice(0, 40)]);
  }
  probe.remove();
  return found;
}"""


def open_page(browser, path, width=1280, scheme="light"):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    view = new_view(context)
    view.page.route("**/*", lambda route: route.continue_() if route.request.url.startswith("file:") else route.abort())
    view.page.goto(path.as_uri())
    return view


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
@pytest.mark.parametrize("which", ["page_file", "published_file"])
def test_the_page_is_whole_at_every_width_and_in_both_schemes(browser, request, which, width, scheme):
    path = request.getfixturevalue(which)
    view = open_page(browser, path, width, scheme)
    page = view.page
    page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
    assert view.messages == []
    assert [url for url in view.requests if not url.startswith("data:")] == [path.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    charts = page.query_selector_all("svg.chart")
    assert len(charts) >= (35 if which == "page_file" else 8)
    for chart in charts:
        box = chart.bounding_box()
        assert box["width"] > 250 and box["height"] > 60
        paths = chart.eval_on_selector_all("path", "found => found.map((one) => one.getAttribute('d'))")
        assert len(paths) >= 4 and not any("nan" in one.lower() or "undefined" in one for one in paths)
        assert chart.get_attribute("role") == "img" and len(chart.get_attribute("aria-label")) > 20
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 22, 26)"
    assert dark == (scheme == "dark")
    contrasts = page.evaluate(CONTRAST)
    assert len(contrasts) > 100
    weak = [(round(ratio, 2), words) for ratio, words in contrasts if ratio < 4.5]
    assert weak == []
    page.context.close()


def column(page, number):
    cells = page.eval_on_selector_all(
        "table.sortable tbody tr", f"rows => rows.map((row) => row.cells[{number}].dataset.value)"
    )
    return [None if value == "" else value if number == 0 else float(value) for value in cells]


def orders(page):
    return page.eval_on_selector_all("table.sortable thead th", "all => all.map((one) => one.ariaSort)")


def test_the_table_sorts_by_click(browser, page_file):
    page = open_page(browser, page_file).page
    names = column(page, 0)
    assert len(set(names)) == len(set(column(page, 1))) == 26
    button = page.locator("table.sortable thead button").nth(1)
    button.click()
    assert column(page, 1) == sorted(column(page, 1), reverse=True) and orders(page)[:2] == ["none", "descending"]
    button.click()
    assert column(page, 1) == sorted(column(page, 1)) and orders(page)[1] == "ascending"
    page.locator("table.sortable thead button").first.click()
    assert column(page, 0) == names == sorted(names) and orders(page)[0] == "ascending"
    assert page.locator("#sorted").text_content() == "sorted by Game, ascending"


def test_the_table_sorts_by_keyboard_with_missing_scores_last(browser, published_file):
    page = open_page(browser, published_file).page
    headings = page.locator("table.sortable thead button").all_text_contents()
    place = headings.index("SAC-Discrete")  # published for 17 games
    page.locator("table.sortable thead button").nth(place - 1).focus()
    page.keyboard.press("Tab")
    for key, backwards in (("Enter", True), ("Space", False)):
        page.keyboard.press(key)
        found = column(page, place)
        assert found[17:] == [None] * 9 and found[:17] == sorted(found[:17], reverse=backwards)
    assert orders(page)[place] == "ascending"


def test_everything_can_be_reached_by_keyboard(browser, page_file):
    page = open_page(browser, page_file).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"
    regions = page.eval_on_selector_all("[role=region]", "all => all.map((one) => [one.tabIndex, one.ariaLabel])")
    assert len(regions) >= 4 and all(index == 0 and label for index, label in regions)
    anchors = page.eval_on_selector_all("nav a", "all => all.map((one) => one.getAttribute('href').slice(1))")
    assert {"aggregates", "games", "curves", "configuration", "runs", "sources", "definitions"} <= set(anchors)
    assert page.evaluate("names => names.filter((one) => !document.getElementById(one))", anchors) == []


def test_figures_have_captions_and_tables_have_headings(browser, page_file):
    page = open_page(browser, page_file).page
    captions = page.eval_on_selector_all(
        "figure", "all => all.map((one) => one.querySelector('figcaption').textContent)"
    )
    scopes = page.eval_on_selector_all("th", "all => all.map((one) => one.scope)")
    headings = page.eval_on_selector_all("table", "all => all.map((one) => one.caption.textContent)")
    assert len(captions) >= 5 and all(captions)
    assert len(scopes) > 26 and set(scopes) == {"col", "row"}
    assert len(headings) >= 4 and all(headings)


def test_the_best_is_bold_and_human_level_is_marked(browser, published_file):
    page = open_page(browser, published_file).page
    row = page.locator("table.sortable tbody tr", has_text="Breakout")
    assert row.locator("b").all_text_contents() == ["414.1"]  # EfficientZero
    assert row.locator(".above").count() == 6


def test_configurations_and_commands_are_there(page_file):
    text = page_file.read_text()
    assert "<mark><code>False</code></mark>" in text  # variance reduction, the one setting off its preset
    assert "sacbbf train Pong --agent sac-bbf --size paper --steps 100000 --seed 0 --device cpu</code>" in text


def test_pictures_and_videos_are_embedded(browser, tmp_path):
    path = write_run(tmp_path / "run", make_config("CartPole-v1", size="tiny"), 100.0)
    from matplotlib.figure import Figure

    Figure(figsize=(2, 1)).savefig(path / "curve.png")
    (path / "video.mp4").write_bytes(b"not a video, but bytes")
    out = tmp_path / "page.html"
    assert run(["report", str(tmp_path / "run"), "--html", str(out)]) == 0
    page = open_page(browser, out).page
    page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
    page.wait_for_function("document.querySelector('.gallery img').naturalWidth > 0")
    assert page.locator("video[src^='data:video/mp4;base64,']").count() == 1


def test_names_are_text_and_never_markup(browser, tmp_path):
    rows = [("<img src=x onerror=alert(1)>", "Pong", seed, seed) for seed in (0, 1)]
    out = tmp_path / "page.html"
    assert run(["report", str(write_csv(tmp_path / "scores.csv", rows)), "--html", str(out), "--reps", "100"]) == 0
    view = open_page(browser, out)
    assert view.messages == [] and view.page.locator("img").count() == 0
    assert "<img src=x" in view.page.locator("h1").text_content()


def test_without_a_human_score_cards_are_titled_by_environment(browser, tmp_path):
    """And the last column of the raw scores is named by its formula."""
    for agent, score in (("sac-bbf", 30.0), ("bbf", 20.0)):
        for seed in range(2):
            config = make_config("CartPole-v1", seed, agent=agent, size="tiny")
            write_run(tmp_path / f"{agent}{seed}", config, score + seed)
    assert run(["report", str(tmp_path), "--html", str(tmp_path / "page.html"), "--reps", "100"]) == 0
    page = open_page(browser, tmp_path / "page.html").page
    assert page.locator(".card .card-name").all_text_contents() == ["CartPole-v1"]
    assert page.locator(".card .card-value").all_text_contents() == ["30.5"]
    assert page.locator(".card .card-detail").all_text_contents() == ["mean score of sac-bbf tiny, 2 runs"]
    headings = page.locator("#raw thead").first.locator("th").all_text_contents()
    assert headings[-1] == "(score - random) / (blind - random)"
