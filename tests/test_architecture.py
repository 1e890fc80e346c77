"""The house rules: a folder imports only from those before it, and the project speaks of itself alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "sacbbf"
# In the order in which data flows. What stands before the first folder is open to all.
ORDER = [
    "machine", "disk", "agents", "envs", "replay", "networks", "learner", "kernels", "policy", "run", "bench", "sweep",
    "report", "tune", "watch", "api", "commands", "cli", "__main__",
]  # fmt: skip
FACTS = {"types", "errors", "seeding"}
PLAIN = ["networks", "learner"]  # the model as a reader of the paper finds it


def imports(path: Path) -> set[str]:
    """Rooms of this package that a file imports from."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        modules = []
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module]
            if node.module == "sacbbf":
                modules = [f"sacbbf.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        rooms |= {module.split(".")[1] for module in modules if module.startswith("sacbbf.")}
    return rooms


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_file_imports_only_from_rooms_before_it(path):
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if room == "__init__":
        return
    assert room in {*ORDER, *FACTS}
    found = imports(path) & set(ORDER)
    if room in FACTS:
        assert not found
        return
    later = [name for name in found if ORDER.index(name) > ORDER.index(room)]
    assert not later, f"{room} must not import from {later}"


def test_environments_do_not_know_torch():
    for path in (PACKAGE / "envs").glob("*.py"):
        assert "import torch" not in path.read_text(), path


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_file_says_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text())), path


@pytest.mark.parametrize("path", [path for room in PLAIN for path in (PACKAGE / room).glob("*.py")], ids=str)
def test_the_model_is_plain(path):
    assert not imports(path) & {"kernels", "machine"}
    for word in ("autograd.Function", "ctypes", "mkldnn", "is_compiling"):
        assert word not in path.read_text()
