"""Names that try to be more than names: markup, formulas, control sequences. They stay text in every kind of report."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import pytest
from made_runs import make_config, write_csv, write_run

from browsing import new_view
from sacbbf.cli import run
from sacbbf.envs.make import EnvSettings
from sacbbf.report.latex import escape
from sacbbf.report.markdown import plain

MARKUP = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "</td></tr></table><h1>out</h1>",
    '"><svg onload=alert(3)>',
    "</script><script>alert(4)</script>",
    "' style=position:fixed onmouseover=alert(5) x='",
    "javascript:alert(6)",
    "&lt;b&gt;",
    "{{7*7}} ${7*7} `id`",
)
FORMULAS = ("=HYPERLINK(\"http://evil.example\")", "+1+1", "-2+3", "@SUM(1)", "=cmd|' /C calc'!A0")  # fmt: skip
SEQUENCES = (r"\input{/etc/passwd}", r"\write18{id}", "%\\end{document}", "$\\bad$", "a^^M\\x", "{}}{", "#1 & _x ~")


def hostile_runs(top):
    """Runs whose environments, arguments and folders have hostile names."""
    for number, name in enumerate(MARKUP):
        environment = EnvSettings(kwargs=(f"x=a{name}",))
        for seed in (0, 1):
            config = make_config("CartPole-v1", seed, size="tiny")
            config = replace(config, env=f"{name} {number}", environment=environment)
            folder = re.sub("[/;]", "_", name) + f"-{number}"
            write_run(top / "runs" / folder / f"seed{seed}", config, 1.0 + seed, evaluations=3, mix=name, note=name)
    return top / "runs"


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory):
    top = tmp_path_factory.mktemp("hostile")
    runs = hostile_runs(top)
    rows = [(name, "Pong", seed, seed) for name in (*MARKUP, *FORMULAS, *SEQUENCES) for seed in (0, 1)]
    scores = write_csv(top / "<b>scores.csv", rows)
    out = top / "page.html"
    assert run(["report", str(runs), str(scores), "--html", str(out), "--reps", "100"]) == 0
    return out


def test_nothing_executes_and_nothing_breaks_out_of_its_cell(browser, hostile_page):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    view = new_view(context)
    page = view.page
    page.goto(hostile_page.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
    for button in page.locator("th button").all()[:3]:
        button.click()
    page.mouse.move(300, 300)
    assert view.messages == []
    assert [url for url in view.requests if not url.startswith("data:")] == [hostile_page.as_uri()]
    assert page.locator("script").count() == 1 and page.locator("h1").count() == 1
    assert page.locator("img, iframe, object, embed, form, a[href^='javascript']").count() == 0
    assert page.evaluate("[...document.querySelectorAll('*')].flatMap((one) => one.getAttributeNames()).filter("
                         "(name) => name.startsWith('on'))") == []  # fmt: skip
    widths = page.eval_on_selector_all(
        "table", "all => all.map((one) => [...new Set([...one.rows].map((row) => [...row.cells].reduce("
        "(sum, cell) => sum + cell.colSpan, 0)))].length)"
    )  # fmt: skip
    assert widths and set(widths) == {1}
    text = page.locator("body").text_content()
    assert all(name in text for name in (*MARKUP, *FORMULAS, *SEQUENCES))
    context.close()


def test_the_page_may_run_its_own_script_alone(hostile_page):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', hostile_page.read_text()).group(1)
    assert "default-src 'none'" in policy and re.search(r"script-src 'sha256-[\w+/=]{44}'$", policy)


def named_run(path, env):
    """Write a run of an environment that has any name; returns its folder."""
    return write_run(path, replace(make_config("CartPole-v1", size="tiny"), env=env), 1.0)


@pytest.mark.parametrize("name", [*FORMULAS, *MARKUP])
def test_a_spreadsheet_takes_no_name_for_a_formula(name, tmp_path):
    scores = write_csv(tmp_path / "scores.csv", [(name, "CartPole-v1", seed, -seed) for seed in (0, 1)])
    words = [str(scores), str(named_run(tmp_path / "run", name)), "--csv", str(tmp_path / "out.csv"), "--reps", "100"]
    assert run(["report", *words]) == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    words = {row[column] for row in rows for column in ("agent", "environment", "statistic", "source")}
    assert not any(word.startswith(("=", "+", "-", "@")) for word in words)
    for column in ("agent", "environment"):
        assert {row[column] for row in rows} & {name, f"'{name}"}
    assert any(row["value"].startswith("-") for row in rows)  # numbers are numbers


@pytest.mark.parametrize("name", SEQUENCES)
def test_latex_prints_names_and_follows_none(name, tmp_path):
    scores = write_csv(tmp_path / "scores.csv", [(name, "Pong", 0, 1)])
    words = [str(scores), str(named_run(tmp_path / "run", name)), "--latex", str(tmp_path / "out.tex"), "--reps", "100"]
    assert run(["report", *words]) == 0
    text = (tmp_path / "out.tex").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("%")]
    known = {"begin", "end", "centering", "resizebox", "ifdim", "width", "linewidth", "else", "fi", "toprule",
             "midrule", "bottomrule", "caption", "textbf", "uparrow", "downarrow", "quad", "scriptsize",
             "textbackslash", "textasciitilde", "textasciicircum", "textless", "textgreater", "dagger"}  # fmt: skip
    commands = {word for line in lines for word in re.findall(r"\\([a-zA-Z]+)", line)}
    assert commands <= known
    assert escape(name) in text
    assert all(
        line.count("{") - line.count(r"\{") == line.count("}") - line.count(r"\}") for line in lines if "&" in line
    )


def test_a_comment_of_latex_ends_with_its_line():
    assert escape("a\n\\input{x}\r\u2028b") == r"a \textbackslash{}input\{x\} b"


def test_markdown_keeps_names_in_their_cell():
    assert plain("a|b\n# c") == r"a\|b # c"
    assert plain("[x](javascript:y) <img> `id` &amp;") == r"\[x\](javascript:y) &lt;img> \`id\` &amp;amp;"
    assert plain("**1.0** (loss.variance_reduction=False)") == "**1.0** (loss.variance_reduction=False)"


@pytest.mark.parametrize("name", ["$\\bad$", "$", "[/b]", "[red]x", "<b>"])
@pytest.mark.parametrize("flag", [[], ["--plots", "plots"], ["--markdown", "out.md"]])
def test_every_other_output_takes_them(name, flag, working_directory, capsys):
    scores = write_csv(working_directory / "scores.csv", [(name, "Pong", seed, seed) for seed in (0, 1)])
    named_run(working_directory / "run", name)
    assert run(["report", str(scores), "run", *flag, "--reps", "100"]) == 0
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert flag or name in said.out


def test_letters_that_nobody_sees_are_refused(working_directory, capsys):
    write_csv(working_directory / "scores.csv", [("a\x1b]0;x\x07", "Pong", 0, 1)])
    assert run(["report", "scores.csv"]) == 2
    assert "scores.csv:2: agent of letters that cannot be printed" in capsys.readouterr().err
    path = write_run(working_directory / "run", make_config("CartPole-v1", size="tiny"), 1.0)
    text = (path / "config.toml").read_text()
    for letters in (r"\u001b[31m", r"\n", r"\u202e"):
        (path / "config.toml").write_text(text.replace("CartPole-v1", f"CartPole{letters}"))
        assert run(["report", "run"]) == 2
        assert "must be of letters that can be printed" in capsys.readouterr().err


def test_a_folder_may_be_called_anything(working_directory, capsys):
    import os

    name = os.fsdecode(b"r\xff\x1b[31m[/b]<b>")
    write_run(working_directory / name, make_config("CartPole-v1", size="tiny"), 1.0)
    for flag in ("--html", "--markdown", "--csv", "--latex"):
        assert run(["report", name, flag, "out"]) == 0
    assert b"\x1b" not in (working_directory / "out").read_bytes()
    (working_directory / name / "result.json").write_text("{")
    assert run(["report", name]) == 2
    assert "r\\udcff\\x1b[31m[/b]<b>" in capsys.readouterr().err
