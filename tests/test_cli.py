"""The command line as a user meets it: exit codes, messages, help."""

from __future__ import annotations

import shutil

import pytest

from sacbbf import __version__
from sacbbf.cli import COMMANDS, run
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
    assert "no command 'trian'" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as exit_info:
        run([command, "--help"])
    assert exit_info.value.code == 0
    assert f"usage: sacbbf {command}" in capsys.readouterr().out


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
