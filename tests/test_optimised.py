"""Python's optimised mode drops assertions: none carries a check here, so messages are the same."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from toys import python_path

SOURCE = Path(__file__).parents[1] / "src"
LINES = (
    "train CartPole-v1 --steps 0",
    "train CartPole-v1 --network.encoder impala",
    "train nosuch:X-v0",
    "train CartPole-v1 --wrapper x",
    "evaluate nowhere",
    "report nowhere",
    "sweep s --games CartPole-v1 --agents nosuch",
    "verify --case nowhere",
)
SCRIPT = f"import sys; from sacbbf.cli import run; sys.stderr.write(str([run(line.split()) for line in {LINES!r}]))"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.stem)
def test_no_assertion_carries_a_check(path):
    nodes = ast.walk(ast.parse(path.read_text()))
    assert not [node.lineno for node in nodes if isinstance(node, ast.Assert)]


def test_messages_are_the_same(tmp_path):
    environment = os.environ | {"PYTHONPATH": python_path(), "OMP_NUM_THREADS": "1"}
    said = []
    for optimised in ("", "1"):
        environment["PYTHONOPTIMIZE"] = optimised
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        said.append(done.stderr)
    assert said[0] == said[1] and said[0].endswith(str([2] * len(LINES)))
    assert said[0].count("sacbbf ") >= len(LINES)


def test_nothing_is_compiled_or_loaded_beside_pythons_own():
    """Whoever could write a cache of machine code would run code here; only the system's own library is called."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert not any(word in text for word in ("cpp_extension", "load_inline", "cffi", "load_library", "dlopen")), (
            path
        )
        assert text.count("CDLL(") == text.count("CDLL(None"), path
