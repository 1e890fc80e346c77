"""The command line as a user meets it: exit codes, messages, help."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass

import pytest

from sacbbf import __version__
from sacbbf.cli import COMMANDS, run
from sacbbf.commands.parsing import parse
from sacbbf.run.reference_case import find_cases, shipped_replay_reference


def test_help_lists_every_command(capsys):
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(command in text for command in COMMANDS)


def test_no_command_shows_help_and_fails(capsys):
    assert run([]) == 2
    assert "usage: sacbbf COMMAND" in capsys.readouterr().out


def test_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"sacbbf {__version__}"


def test_unknown_command_is_refused(capsys):
    assert run(["trian"]) == 2
    assert "no command 'trian'; did you mean train?" in capsys.readouterr().err
    assert run(["xyz"]) == 2
    assert "no command 'xyz'; it is one of train, resume" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_and_ends_with_examples(command, capsys):
    with pytest.raises(SystemExit) as exit_info:
        run([command, "--help"])
    assert exit_info.value.code == 0
    text = capsys.readouterr().out
    assert f"usage: sacbbf {command}" in text
    examples = text.rpartition("examples:\n")[2].splitlines()
    assert examples and all(line.startswith("  sacbbf ") for line in examples)
    assert any(line.startswith(f"  sacbbf {command}") for line in examples) or command == "push"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_fits_80_columns(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        run([command, "--help"])
    text = capsys.readouterr().out
    assert [line for line in text.splitlines() if len(line) > 80 and not line.startswith("usage:")] == []


@dataclass(frozen=True)
class Args:
    """What the command does.

    And more of it, in a text that is longer than a line of 60 columns has room for, `code`
    (and brackets) at the start of its own.
    """

    steps: int = 10_000
    """How many steps there are,
    said in two lines (paper: 10,000)."""


def test_what_is_said_of_a_setting_flows_whatever_its_lines_in_the_source(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    with pytest.raises(SystemExit):
        parse(Args, ["--help"], "train", "  sacbbf train")
    text = capsys.readouterr().out
    assert text.startswith(
        "What the command does.\n\n"
        "And more of it, in a text that is longer than a line of 60\n"
        "columns has room for, `code` (and brackets) at the start of\n"
        "its own.\n\n"
        "usage: sacbbf train"
    )
    assert "How many steps there are, said in two lines" in text
    assert "(paper: 10000)" in text  # as it is typed; tyro breaks lines at commas


def in_another_process(body):
    """What a fresh process prints that gets these lines."""
    done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_help_imports_pytorch():
    body = f"""if True:
        import contextlib, io, sys
        from sacbbf.cli import run
        for command in {list(COMMANDS)}:
            with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
                run([command, "--help"])
            print(command, "torch" in sys.modules)"""
    assert in_another_process(body).splitlines() == [f"{command} False" for command in COMMANDS]


def test_what_only_reads_runs_does_not_import_pytorch(finished_run, tmp_path):
    path = str(finished_run.path)
    body = f"""if True:
        import sys
        from sacbbf.cli import run
        assert run(["list"]) == 0
        assert run(["diff", {path!r}, {path!r}]) == 0
        assert run(["report", {path!r}, "--reps", "100", "--html", {str(tmp_path / "page.html")!r}]) == 0
        from sacbbf.watch.server import Server
        from sacbbf.watch.sight import overview
        from pathlib import Path
        Server(Path({path!r}), "127.0.0.1", 0).server_close()
        assert overview(Path({path!r}))["runs"][0]["state"] == "finished"
        print("torch" in sys.modules)"""
    assert in_another_process(body).splitlines()[-1] == "False"


def test_on_a_terminal_no_word_of_a_refusal_is_broken(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert run(["evaluate", "no-such-directory-at-all"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 1 and all(len(line) <= 40 for line in lines)
    assert "no-such-directory-at-all" in " ".join(lines).split()


def test_verify_prints_a_table_and_succeeds(capsys):
    assert run(["verify", "--case", "drq_eps"]) == 0
    text = capsys.readouterr().out
    assert "target_value" in text and "0 out of tolerance" in text


@pytest.mark.parametrize("words", [["--replay"], ["--replay", str(shipped_replay_reference())]])
def test_verify_replay_finds_every_field_equal(words, capsys):
    assert run(["verify", *words]) == 0
    assert "0 out of tolerance" in capsys.readouterr().out


def test_verify_fails_on_a_changed_case(tmp_path, capsys):
    source = find_cases("drq_eps")[0]
    shutil.copy(source.with_suffix(".npz"), tmp_path / "case.npz")
    text = source.with_suffix(".json").read_text().replace("0.0001", "0.0002", 1)
    (tmp_path / "case.json").write_text(text)
    assert run(["verify", "--case", str(tmp_path / "case")]) == 1
    assert "OUT" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--case", "nowhere"], ["--replay", "nowhere.npz"], ["--case", "."]])
def test_verify_of_a_missing_file_is_refused(words, capsys):
    assert run(["verify", *words]) == 2
    error = capsys.readouterr().err
    assert words[1] in error and "Traceback" not in error
