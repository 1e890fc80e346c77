"""`sacbbf report` as a user meets it: what it prints and writes, that it repeats itself, how it refuses."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys

import pytest
from made_runs import random_rows, write_csv
from rich.console import Console

from sacbbf.cli import run
from sacbbf.envs import games
from sacbbf.report.aggregate import Sampling
from sacbbf.report.contents import build
from sacbbf.report.scores import read_scores
from sacbbf.run.display import Display

FEW = ["--reps", "100"]


@pytest.fixture
def scores(tmp_path):
    rows = random_rows("A_1", dict.fromkeys(games.GAMES, 2)) + random_rows("B & C", dict.fromkeys(games.GAMES[:5], 3))
    return write_csv(tmp_path / "scores.csv", rows)


def test_published_results_are_printed_with_nothing_trained(capsys):
    assert run(["report", "--published", *FEW]) == 0
    text = capsys.readouterr().out
    for figure in ("0.940 (", "2.175 (", "0.377 (", "1.012 (", "1.088†"):
        assert figure in text, figure
    assert "52, 56, 60 runs per game" in text and "as printed in the SAC-BBF paper" in text


def test_without_an_output_option_the_report_is_printed(scores, capsys):
    assert run(["report", str(scores), *FEW]) == 0
    text = capsys.readouterr().out
    assert "the 26 games of Atari 100K" in text and "5 of the 26 games" in text
    assert "A_1" in text and "probability of improvement" in text and "B & C: 5 of the 26 games" in text


def test_every_output_is_written_and_named(scores, tmp_path, capsys):
    files = {name: tmp_path / f"report.{name}" for name in ("html", "markdown", "csv", "latex")}
    words = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    assert run(["report", str(scores), *words, "--plots", str(tmp_path / "plots"), *FEW]) == 0
    said = capsys.readouterr().out
    assert all(str(path) in said and path.stat().st_size > 1000 for path in files.values())
    drawn = {path.name for path in (tmp_path / "plots").iterdir()}
    assert {"aggregates.png", "aggregates.svg", "performance-profiles.png", "probability-of-improvement.svg"} <= drawn
    assert (tmp_path / "plots" / "aggregates.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_input_gives_the_same_files(sweep, tmp_path):
    """Whatever process writes them: orders of sets and clocks are others there."""
    runs = [str(sweep / "whole" / f"{game}-{seed}") for game in ("Alien", "Pong") for seed in (0, 1)]
    kinds = ("html", "csv", "markdown", "latex")

    def words(folder):
        folder.mkdir()
        files = [word for kind in kinds for word in (f"--{kind}", str(folder / f"report.{kind}"))]
        return ["report", *runs, *files, "--plots", str(folder / "plots"), *FEW]

    assert run(words(tmp_path / "one")) == 0
    command = [sys.executable, "-c", "from sacbbf.cli import main; main()", *words(tmp_path / "two")]
    elsewhere = os.environ | {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
    subprocess.run(command, check=True, capture_output=True, env=elsewhere)
    one, two = (_contents(tmp_path / name) for name in ("one", "two"))
    assert {f"report.{kind}" for kind in kinds} < one.keys() == two.keys()
    assert {"plots/aggregates.svg", "plots/aggregates.png", "plots/learning-curves.svg"} < one.keys()
    assert [name for name in one if one[name] != two[name]] == []


def _contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_csv_is_tidy(scores, tmp_path):
    out = tmp_path / "out.csv"
    assert run(["report", str(scores), "--csv", str(out), *FEW]) == 0
    with out.open() as file:
        lines = list(csv.DictReader(file))
    pong = [line for line in lines if line["environment"] == "Pong" and line["agent"] == "A_1"]
    assert [line["statistic"] for line in pong] == ["score", "human_normalised"]
    assert all(float(line["low"]) <= float(line["value"]) <= float(line["high"]) for line in pong)
    quoted = [line for line in lines if line["how"] == "quoted"]
    assert {line["statistic"] for line in quoted} == {"iqm", "optimality_gap"} and all(
        line["source"] for line in quoted
    )


def test_latex_is_a_booktabs_table_with_names_escaped(scores, tmp_path):
    out = tmp_path / "out.tex"
    assert run(["report", str(scores), "--latex", str(out), *FEW]) == 0
    text = out.read_text()
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert r"A\_1" in body and r"B \& C" in body and r"$^\dagger$" in body and r"\toprule" in body
    assert body.count("{") == body.count("}") and body.count(r"\begin{") == body.count(r"\end{")
    rows = [line for line in body.splitlines() if line.startswith(("Game", "Pong", "IQM"))]
    assert len({line.replace(r"\&", "").count("&") for line in rows}) == 1 and all(
        line.endswith(r"\\") for line in rows
    )


def test_markdown_tables_have_equal_rows(scores, tmp_path):
    out = tmp_path / "out.md"
    assert run(["report", str(scores), "--markdown", str(out), *FEW]) == 0
    blocks = [block.splitlines() for block in out.read_text().split("\n\n") if block.startswith("|")]
    assert len(blocks) >= 4
    for block in blocks:
        assert len({line.count("|") for line in block}) == 1


def test_commands_of_runs_stand_in_markdown(sweep, tmp_path):
    out = tmp_path / "out.md"
    assert run(["report", str(sweep / "ablation" / "Pong-0"), "--markdown", str(out), *FEW]) == 0
    flags = "--agent sac-bbf --size paper --steps 100000 --seed 0 --device cpu --loss.no-variance-reduction"
    assert f"    sacbbf train Pong {flags}\n" in out.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "or --published"),
        (["--published", "scores.csv"], "or --published"),
        (["nowhere"], "nowhere: no such file or directory"),
        (["--published", "--reps", "5"], "reps = 5: must be at least 100"),
        (["--published", "--seed", "-1"], "seed = -1: must be in"),
        (["--published", "--html", "no/such/page.html"], "there is no directory no/such"),
        (["--published", "--csv", "."], "is a directory"),
        (["--published", "--agent-name", "A=B"], "agent_name"),
    ],
)
def test_words_that_do_not_fit_are_refused(words, said, capsys):
    assert run(["report", *words]) == 2
    assert said in capsys.readouterr().err


def test_bad_input_is_refused_with_exit_code_2_or_skipped_and_listed_in_the_report(tmp_path, capsys):
    path = write_csv(tmp_path / "scores.csv", [("A", "Pong", 0, 1.0), ("A", "Pong", 1, "nan")])
    assert run(["report", str(path), *FEW]) == 2
    assert "scores.csv:3: score = 'nan'" in capsys.readouterr().err
    html, markdown = tmp_path / "out.html", tmp_path / "out.md"
    words = ["--skip-bad", "--html", str(html), "--markdown", str(markdown)]
    assert run(["report", str(path), *words, *FEW]) == 0
    assert "left out: " in capsys.readouterr().out
    assert "scores.csv:3: score" in html.read_text() and "scores.csv:3: score" in markdown.read_text()


def test_the_report_needs_neither_rliable_nor_what_it_brings(scores, capsys, monkeypatch):
    """They are the oracle of the tests alone."""
    for name in ("rliable", "arch", "pandas", "scipy", "statsmodels"):
        monkeypatch.setitem(sys.modules, name, None)
    assert run(["report", str(scores), *FEW]) == 0
    assert "probability of improvement" in capsys.readouterr().out


def test_other_commands_load_neither_rliable_nor_pandas():
    code = (
        "import sys, sacbbf.commands.report, sacbbf.commands.list;"
        "print(sorted({'rliable', 'pandas', 'scipy', 'matplotlib.pyplot', 'arch'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_a_terminal_sees_how_far_the_work_is(sweep, tmp_path):
    shown = io.StringIO()
    with Display(Console(file=shown, force_terminal=True, width=100), None) as display:
        build(read_scores([sweep], display=display), Sampling(100), display=display)
    assert "reading" in shown.getvalue() and "computing intervals" in shown.getvalue()
