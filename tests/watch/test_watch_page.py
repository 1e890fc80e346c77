"""The watching page in a real browser: whole at both widths and in both schemes, up to date, and nobody's script."""

from __future__ import annotations

import re

import pytest

from browsing import VIEWS, new_view

ROWS = "#runs tr"


@pytest.fixture
def look(browser, serve):
    """Function that opens the page for a directory."""
    contexts = []

    def open_page(top, width=1280, scheme="light"):
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme))
        view = new_view(contexts[-1])
        address = serve(top)
        view.page.goto(f"{address}/")
        return view, address

    yield open_page
    for context in contexts:
        context.close()


def shown(page, name):
    """Wait until a run is shown in full."""
    page.locator("#detail-title", has_text=re.compile(f"^{re.escape(name)}$")).wait_for()


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
def test_the_page_is_whole_at_every_width_and_in_both_schemes(look, top, width, scheme):
    (top / "pole/video.mp4").unlink()  # the bytes there are none that a browser could show
    view, address = look(top, width, scheme)
    page = view.page
    page.get_by_role("button", name="pole", exact=True).click()
    shown(page, "pole")
    page.wait_for_selector("#media img")
    page.evaluate("() => document.querySelector('#media img').decode()")
    assert page.locator(ROWS).count() == 4
    assert page.locator("#where").text_content() == str(top)
    charts = page.locator("#charts svg")
    assert charts.count() == 4
    for chart in charts.all():
        box = chart.bounding_box()
        assert box["width"] > 250 and box["height"] > 100
        points = chart.locator("path.line").get_attribute("d").split("L")
        assert len(points) >= 3 and not any("NaN" in point for point in points)
        assert " at step " in chart.get_attribute("aria-label")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 22, 26)"
    assert dark == (scheme == "dark")
    assert view.messages == []
    elsewhere = [url for url in view.requests if not url.startswith((f"{address}/", "data:"))]
    assert elsewhere == [] and len(view.requests) >= 4


def test_a_click_shows_a_run_and_the_address_keeps_it(look, top):
    view, _ = look(top)
    page = view.page
    page.get_by_role("button", name="again/pole").click()
    shown(page, "again/pole")
    assert page.locator(f"{ROWS}[aria-selected=true] button").all_text_contents() == ["again/pole"]
    assert "77.50" in page.locator(ROWS, has_text="again/pole").text_content()
    page.reload()
    shown(page, "again/pole")
    assert view.messages == []


def test_new_episodes_appear_by_themselves(look, top, grow):
    view, _ = look(top / "pole")
    page = view.page
    page.wait_for_selector("#latest tr")
    before = page.locator("#latest tr td").first.text_content()
    step = grow(top / "pole", 1, 1234.5)
    page.locator("#latest", has_text="1,234.5").wait_for(timeout=10_000)
    assert page.locator("#latest tr td").first.text_content() == f"{step:,}" != before
    assert "1,234.5" in page.locator(ROWS).text_content()


def paths(page):
    """Runs in the order of the table."""
    return page.locator(f"{ROWS} td:first-child button").all_text_contents()


def test_runs_are_sorted_by_a_click_on_a_heading(look, top):
    view, _ = look(top)
    page = view.page
    page.wait_for_selector(ROWS)
    page.get_by_role("button", name="Run", exact=True).click()
    rising = paths(page)
    assert rising == sorted(rising, key=str.lower)
    assert page.locator("#columns th").first.get_attribute("aria-sort") == "ascending"
    page.get_by_role("button", name="Run", exact=True).click()
    assert paths(page) == rising[::-1]
    page.get_by_role("button", name="Score").click()
    assert "77.50" in page.locator(ROWS).first.text_content()  # the best first, runs without a score last
    assert view.messages == []


def test_the_run_that_begins_to_run_is_opened_until_another_is_clicked(look, top, browser):
    view, _ = look(top)
    page = view.page
    page.wait_for_selector("#latest tr")
    running = {"name": "again/pole"}

    def answer(route):
        found = route.fetch()
        content = found.json()
        for run in content["runs"]:
            run["state"] = "running" if run["path"] == running["name"] else run["state"]
        route.fulfill(response=found, json=content)

    page.route("**/api/overview", answer)
    shown(page, "again/pole")
    page.get_by_role("button", name="pole", exact=True).click()
    shown(page, "pole")
    with page.expect_response("**/api/overview"):
        pass
    shown(page, "pole")


def test_a_narrow_page_shows_progress_and_score(look, top):
    view, _ = look(top, width=390)
    row = view.page.locator(ROWS, has_text="77.50")
    row.wait_for()
    seen = [cell.bounding_box() for cell in row.locator("td").all() if cell.is_visible()]
    assert len(seen) == 3 and all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in seen)
    assert row.locator(".bar").is_visible()


def test_slow_answers_do_not_pile_up(look, top):
    """While an answer is awaited nothing else is asked, however long it takes and whatever is clicked."""
    view, _ = look(top)
    page = view.page
    page.clock.install()
    page.reload()
    page.wait_for_selector("#latest tr")
    held, slow = [], True
    page.route("**/api/**", lambda route: held.append(route) if slow else route.continue_())
    page.get_by_role("button", name="pole", exact=True).click()
    page.wait_for_timeout(300)
    page.clock.run_for(60_000)
    page.get_by_role("button", name="again/pole").click()
    page.get_by_role("button", name="pole", exact=True).click()
    page.clock.run_for(60_000)
    page.wait_for_timeout(300)
    assert len(held) == 1
    slow = False
    held[0].continue_()
    shown(page, "pole")
    with page.expect_response("**/api/overview"):
        page.clock.run_for(3_100)
    assert view.messages == []


def test_names_are_text_and_never_markup(look, top):
    view, _ = look(top)
    page = view.page
    page.get_by_role("button", name="<script>alert(1)").click()
    shown(page, "<script>alert(1)")
    assert page.locator("script").count() == 1  # the page's own
    assert view.messages == []


def test_a_run_that_cannot_be_read_says_why(look, top):
    view, _ = look(top)
    row = view.page.locator(ROWS, has_text="broken")
    row.wait_for()
    assert "is not a configuration in TOML" in row.locator(".unreadable").text_content()


def test_an_empty_directory_says_what_makes_a_run(look, tmp_path):
    (tmp_path / "empty").mkdir()
    view, _ = look(tmp_path / "empty")
    view.page.wait_for_selector("#none:not([hidden])")
    assert "sacbbf train" in view.page.locator("#none").text_content()
    assert view.page.locator("#detail").is_hidden() and view.page.locator("#sweeps").is_hidden()
    assert view.messages == []


def test_a_server_that_has_gone_is_told(look, top):
    view, _ = look(top / "pole")
    page = view.page
    page.wait_for_selector("#latest tr")
    page.route("**/api/**", lambda route: route.abort())
    page.locator("#when", has_text="not reached").wait_for(timeout=10_000)
    assert page.locator("#latest tr").count() == 12  # what was seen stays


def test_names_of_environments_agents_and_notes_stay_text(look, top):
    """Whatever a configuration says; letters that nobody sees are refused before."""
    name = "<img src=x onerror=alert(1)> </td></tr>"
    config = (top / "pole/config.toml").read_text()
    (top / "pole/config.toml").write_text(config.replace('env = "toys/Identity-v0"', f'env = "{name}"'))
    (top / "broken/config.toml").write_text('env = "<script>alert(2)</script>\\u001b"')
    (top / "swept").mkdir()
    (top / "swept/sweep.json").write_text('{"format": "<script>alert(3)</script>"}')
    view, address = look(top)
    page = view.page
    page.get_by_role("button", name="pole", exact=True).click()
    shown(page, "pole")
    assert name in page.locator("#facts").text_content() and name in page.locator("#runs").text_content()
    assert "<script>alert(3)</script>" in page.locator("#sweep-list").text_content()
    assert page.locator("#runs tr").count() == 4 and page.locator("#runs img").count() == 0
    assert page.locator("script").count() == 1
    assert [word for word in view.messages if "alert" in word or word.isdigit()] == []
    assert all(url.startswith((f"{address}/", "data:")) for url in view.requests)
