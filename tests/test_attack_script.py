"""The attack: a few cases of each group give no fault, and what would be one is seen as one."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from sacbbf.cli import COMMANDS
from toys import python_path

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture
def attack(monkeypatch):
    """The script as a module."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import attack

    return attack


def test_a_quick_attack_finds_nothing(tmp_path):
    environment = os.environ | {"PYTHONPATH": python_path(), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPTS / "attack.py"), "--quick", "--seed", "5", "--longest", "300"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "30 commands, 0 cases left out\n0 faults" in done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        (lambda argv: 0, "done"),
        (lambda argv: 2, "refused"),
        (lambda argv: 1, "failed"),
        (lambda argv: 3, "traceback"),
        (lambda argv: 1 / 0, "traceback"),
        (lambda argv: print("Traceback (most recent call last)") or 0, "traceback"),
        (lambda argv: os.kill(os.getpid(), 9), "traceback"),
        (lambda argv: Path("MARK").touch() or 0, "import"),
        (lambda argv: __import__("time").sleep(60), "hang"),
        (lambda argv: print("returns 3") or 0, "done"),
    ],
)
def test_every_outcome_is_told_from_the_others(command, outcome, attack, tmp_path, monkeypatch):
    (tmp_path / "made").mkdir()
    monkeypatch.setattr(attack, "_command", command)
    monkeypatch.setattr(attack, "MEMORY", attack.resource.RLIM_INFINITY)
    case = attack.Case("words", "drawn", ("list",), lambda folder: None, "evaluate")
    found, said = attack.run_case(case, tmp_path, tmp_path / "made", 0.5 if outcome == "hang" else 120.0)
    assert found == outcome
    if outcome == "done":
        assert said in (set(), {"returns 3"})
    assert not (tmp_path / "case").exists()


def test_faults_are_told(attack):
    report = attack.Report()
    for outcome in attack.OUTCOMES:
        report.add("damage", outcome, "words")
    assert len(report.faults) == len(attack.FATAL) == 4
    assert "\n".join(attack.table(report)).count("damage: words") == 4


def test_cases_are_many_and_lines_are_drawn_from_all_commands(attack):
    cases = list(attack.all_cases(random.Random(0), 500))
    assert len({(case.name, case.argv) for case in cases if case.group == "damage"}) > 1_500
    drawn = {case.argv[0] for case in cases if case.group == "words"}
    assert drawn <= set(COMMANDS) and len(drawn) > 10
