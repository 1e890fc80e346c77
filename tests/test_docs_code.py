"""What the documentation shows can be done: its Python runs, its command lines parse, its examples work."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
import torch
import tyro

import parts
from sacbbf.cli import COMMANDS
from sacbbf.commands.train import TrainArgs, preset_defaults, run_config
from sacbbf.run.settings import check_run, resolve, to_toml

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
EXTRAS = ("minatar", "stable_baselines3", "onnxruntime", "mlflow", "wandb")  # that a block may need
# Words that stand for others -> one of those.
STAND_INS = {
    "N": "3",
    "SIZE": "tiny",
    "GAMES": "minatar",
    "...": "Pong",
    "my_package:MyGame-v0": "CartPole-v1",
    "MyGame-v0": "CartPole-v1",
    "my_package": "gymnasium",
    "my_package.wrappers:Smaller": "gymnasium.wrappers:FlattenObservation",
    "MiniGrid-Empty-5x5-v0": "CartPole-v1",
    "minigrid": "gymnasium",
    "minigrid.wrappers:ImgObsWrapper": "gymnasium.wrappers:FlattenObservation",
}


def skip_without(*modules: str) -> None:
    missing = [name for name in modules if name in EXTRAS and importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")


# --- Python ---


def python_blocks():
    for page in PAGES:
        blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
        for number, block in enumerate(blocks):
            yield pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")


BLOCKS = list(python_blocks())


def imported(code: str) -> set[str]:
    """Names of the packages that some code imports."""
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module)
    return {name.split(".")[0] for name in names}


def test_there_is_python_to_run():
    assert len(BLOCKS) >= 6


@pytest.mark.parametrize("code", BLOCKS)
def test_a_block_of_python_runs_as_it_stands(code, tmp_path, monkeypatch):
    skip_without(*imported(code), *(["minatar"] if "MinAtar/" in code else []))
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    with parts.registries_kept():
        exec(compile(code, "block", "exec"), names)
    assert len(names) > 2


# --- command lines ---


def command_lines(page: Path) -> list[str]:
    """The lines of a page, indented or in a fence, that call this package's command."""
    found, fenced = [], False
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif (fenced or line.startswith("    ")) and line.strip().startswith("sacbbf "):
            found.append(line.strip())
    return found


def words_of(line: str) -> list[str]:
    """The words of a command line: of a choice the first, of options that may be left out all."""
    line = re.sub(r"\[(?!-)[^]]*\]", "", line.split("#")[0])  # [the same options]
    line = re.sub(r"\{([^,}]+)[^}]*\}", r"\1", line).replace("[", "").replace("]", "")
    words = [STAND_INS.get(word, word) for word in shlex.split(line)[1:]]
    return [word.removesuffix("...") for word in words]


def parse(words: list[str]) -> object:
    """Parse a command line as its command does, and do nothing."""
    name, rest = words[0], words[1:]
    module = importlib.import_module(f"sacbbf.commands.{name}")
    if name == "train":
        args = tyro.cli(TrainArgs, args=rest, default=preset_defaults(rest)[0])
        check_run(run_config(args))
        return args
    if name == "verify":
        rest = module.with_default_replay(rest)
    return tyro.cli(getattr(module, f"{name.title()}Args"), args=rest)


LINES = {line.split("#")[0].strip(): page.relative_to(ROOT) for page in PAGES for line in command_lines(page)}


def test_every_command_is_shown_somewhere():
    assert {words_of(line)[0] for line in LINES} == set(COMMANDS)


@pytest.mark.parametrize("line", LINES, ids=[f"{page}: {line}" for line, page in LINES.items()])
def test_a_command_line_is_understood(line, monkeypatch, tmp_path):
    skip_without(*(["minatar"] if "MinAtar/" in line else []))
    if "cuda" in line:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    if line.startswith("sacbbf train") and "RUN" in line:  # which is read for its settings
        monkeypatch.chdir(tmp_path)
        (tmp_path / "RUN").mkdir()
        (tmp_path / "RUN/config.toml").write_text(to_toml(resolve("Pong", size="laptop")[0]))
    words = words_of(line)
    if "--config" in words:
        monkeypatch.chdir(tmp_path)
        config = Path(words[words.index("--config") + 1])
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(to_toml(resolve("CartPole-v1")[0]))
    assert parse(words) is not None


@pytest.mark.parametrize("line", ["sacbbf play", "sacbbf play RUN --sideways", "sacbbf train Pong --tracker paper"])
def test_a_wrong_command_line_is_not(line, capsys):
    with pytest.raises(SystemExit) as exit_info:
        parse(words_of(line))
    assert exit_info.value.code == 2 and capsys.readouterr().err


# --- examples ---


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_short_and_runs(path, tmp_path, monkeypatch, capsys):
    code = path.read_text()
    skip_without(*(["minatar"] if "MinAtar/" in code else []))
    assert len(code.splitlines()) < 40
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path), "200"])
    with parts.registries_kept():
        runpy.run_path(str(path), run_name="__main__")
    assert re.search(r"^-?\d+\.\d\d \(95% interval .* 20 episodes\)$", capsys.readouterr().out, re.MULTILINE)


def test_there_are_examples_and_they_are_mentioned():
    text = "".join(page.read_text() for page in PAGES)
    assert len(EXAMPLES) >= 2
    assert all(f"examples/{path.name}" in text for path in EXAMPLES)
