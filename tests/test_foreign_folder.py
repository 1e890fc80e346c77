"""A stranger's folder is data: what lies in it is never imported unless the user names or trusts it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest

from sacbbf.cli import run
from sacbbf.run.settings import from_toml, to_toml
from sacbbf.sweep.directory import SweepDirectory
from toys import IDENTITY, SHORT, python_path

pytestmark = pytest.mark.usefixtures("working_directory")

SHADOWS = ("tomli_w", "torch", "evil", "numpy", "rich", "tyro", "gymnasium", "safetensors", "matplotlib", "toys")
COMMANDS = ("list agents", "report .", "evaluate . --episodes 1", "play . --max-steps 2", "export . --hub hub",
            "diff . .", "resume .", "watch . --port 99999", "sweep . --status")  # fmt: skip
# Runs commands one after the other in a process that has imported nothing before; the folder of the script is not the
# working directory.
SCRIPT = """
import sys
from sacbbf.cli import run
for line in {commands!r}:
    try:
        print(line, run(line.split()), file=sys.stderr)
    except SystemExit as error:
        print(line, error, file=sys.stderr)
"""
MINE = """
import gymnasium
from pathlib import Path
Path("imported").touch()
if "Mine-v0" not in gymnasium.registry:
    gymnasium.register("Mine-v0", entry_point="toys:Identity", disable_env_checker=True)
"""


@pytest.fixture
def hostile(finished_run, working_directory):
    """A folder with a run that names a module, and with modules of well-known names that each leave a mark."""
    shutil.copytree(finished_run.path, ".", dirs_exist_ok=True)
    text = Path("config.toml").read_text()
    Path("config.toml").write_text(text.replace(f'env = "{IDENTITY}"', 'env = "evil:X-v0"'))
    plant(working_directory)
    return working_directory


def plant(folder):
    """Put modules of well-known names into a folder, which each leave a mark if they are imported."""
    for name in SHADOWS:
        (folder / f"{name}.py").write_text(f"open('mark-{name}', 'w').close()\n")


def fresh(*words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": python_path(), "OMP_NUM_THREADS": "1"}
    return subprocess.run(words, capture_output=True, text=True, env=environment, timeout=300)


def marks() -> list[str]:
    return sorted(path.name for path in Path.cwd().glob("mark-*"))


def test_no_command_imports_from_a_strangers_folder(hostile, tmp_path_factory):
    script = tmp_path_factory.mktemp("elsewhere") / "script.py"
    script.write_text(SCRIPT.format(commands=COMMANDS))
    done = fresh(sys.executable, str(script))
    assert marks() == []
    codes = dict(line.rsplit(" ", 1) for line in done.stderr.splitlines() if line.startswith(COMMANDS))
    assert codes == dict.fromkeys(COMMANDS, "2") | dict.fromkeys(("list agents", "diff . ."), "0") | {
        "report .": "2",  # its result is another environment's
        "export . --hub hub": "0",
    }
    assert "Traceback" not in done.stderr
    for command in ("evaluate", "play", "resume"):
        words = f"sacbbf {command}: config.toml: env = 'evil:X-v0' would run the code of the module evil, which is not"
        assert words in done.stderr


def test_commands_that_work_import_nothing_from_the_folder_either(working_directory, tmp_path_factory):
    """The same with a run of an installed environment, which nothing is refused of."""
    assert run(["train", "CartPole-v1", *SHORT, "--steps", "80", "--checkpoint.keep", "--out", "."]) == 0
    plant(working_directory)
    lines = ("list all", "diff . .", "report .", "export . --hub hub", "evaluate . --episodes 1", "resume .",
             "resume . --steps 90", "play . --max-steps 2", "watch . --port 99999", "tune CartPole-v1")  # fmt: skip
    script = tmp_path_factory.mktemp("elsewhere") / "script.py"
    script.write_text(SCRIPT.format(commands=lines))
    done = fresh(sys.executable, str(script))
    assert marks() == []
    codes = dict(line.rsplit(" ", 1) for line in done.stderr.splitlines() if line.startswith(lines))
    assert codes == dict.fromkeys(lines, "0") | {"watch . --port 99999": "2", "tune CartPole-v1": "2"}, done.stderr


def test_python_m_does_not_put_the_folder_first(hostile):
    done = fresh(sys.executable, "-m", "sacbbf", "diff", ".", ".")
    assert done.returncode == 0, done.stderr
    assert marks() == []


def test_a_report_makes_no_environment_that_a_run_names_a_module_for(finished_run, capsys, monkeypatch):
    for name, change in {
        "one": ("imports = []", 'imports = ["evil"]'),
        "two": ("kwargs = []", 'kwargs = ["a=1"]'),
    }.items():
        shutil.copytree(finished_run.path, name)
        path = Path(name, "config.toml")
        path.write_text(path.read_text().replace(*change))
        monkeypatch.setattr("sacbbf.run.settings.make_env", lambda *_, **__: pytest.fail("it was made"))
        assert run(["report", name, "--csv", "out.csv"]) == 0
        assert run(["diff", name, name]) == 0


@pytest.fixture
def mine():
    """A module in the working directory, as a user's own environment lies there."""
    Path("mine.py").write_text(MINE)
    yield
    forget()


def forget():
    """As in another process."""
    sys.modules.pop("mine", None)
    gymnasium.registry.pop("Mine-v0", None)
    Path("imported").unlink(missing_ok=True)


def test_ones_own_environment_trains_and_needs_trust_to_go_on(mine, capsys):
    words = ["mine:Mine-v0", *SHORT, "--steps", "80", "--checkpoint.keep", "--out", "run"]
    assert run(["train", *words]) == 0
    assert Path("imported").exists()
    text = Path("run/config.toml").read_text()
    assert "trust" not in text and str(Path.cwd()) not in text
    forget()
    for command in (
        ["resume", "run", "--steps", "90"],
        ["evaluate", "run"],
        ["play", "run"],
        ["export", "run", "--onnx", "x"],
    ):
        assert run(command) == 2
        assert capsys.readouterr().err == (
            f"sacbbf {command[0]}: run/config.toml: env = 'mine:Mine-v0' would run the code of the module mine, which "
            "is not installed. If you know and trust it, add --trust: it is then looked for in the working directory "
            "too\n"
        )
        assert not Path("imported").exists()
    assert run(["resume", "run", "--steps", "90", "--quiet", "--trust"]) == 0
    assert from_toml(Path("run/config.toml")).steps == 90
    forget()
    assert run(["evaluate", "run", "--episodes", "1", "--trust"]) == 0
    forget()
    assert run(["train", *words[:-1], "again"]) == 0  # named here again


@pytest.mark.parametrize("typed", [["--wrapper", "mine:Own"], ["--import=mine"], ["--environment.imports", "mine"]])
def test_modules_may_be_typed_in_every_way(typed, mine):
    Path("mine.py").write_text(MINE + "class Own(gymnasium.Wrapper): pass\n")
    assert run(["train", IDENTITY, *SHORT, "--agent", "random", "--out", "run", *typed]) == 0
    assert Path("imported").exists()


def test_a_file_of_settings_names_nothing_that_is_imported_unless_it_is_trusted(mine, finished_run, capsys):
    config = from_toml(finished_run.config)
    Path("part.toml").write_text(to_toml(config).replace(IDENTITY, "mine:Mine-v0"))
    words = ["train", "--config", "part.toml", "--agent", "random", "--out", "run"]
    assert run(words) == 2
    assert "part.toml: env = 'mine:Mine-v0' would run the code of the module mine" in capsys.readouterr().err
    assert not Path("imported").exists() and not Path("run").exists()
    assert run([*words, "--trust"]) == 0
    assert Path("imported").exists()


def test_a_sweep_of_ones_own_environment_goes_on_with_trust(mine, capsys, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", python_path())
    words = [
        "--games",
        "mine:Mine-v0",
        "--agents",
        "random",
        "--seeds",
        "1",
        "--set",
        "eval.episodes=1",
        "--size",
        "tiny",
    ]
    assert run(["sweep", "ladder", *words, "--workers", "1", "--quiet"]) == 0
    shutil.rmtree("ladder/runs")
    forget()
    assert run(["sweep", "ladder", "--quiet"]) == 2
    assert "ladder/sweep.json: env = 'mine:Mine-v0' would run the code of the module mine" in capsys.readouterr().err
    assert run(["sweep", "ladder", "--status"]) == 0
    assert not Path("imported").exists()
    spec = SweepDirectory(Path("ladder")).read()
    assert run(["sweep", "ladder", "--workers", "1", "--quiet", "--trust"]) == 0
    assert SweepDirectory(Path("ladder")).run(spec.cells()[0]).result.exists()


def test_a_saved_agent_is_loaded_with_trust_alone(mine):
    from sacbbf import Agent

    assert run(["train", "mine:Mine-v0", *SHORT, "--steps", "80", "--out", "run"]) == 0
    forget()
    with pytest.raises(ValueError, match="add trust=True"):
        Agent.load("run")
    assert Agent.load("run", env=IDENTITY).config.env == IDENTITY  # what the folder names is not made
    assert not Path("imported").exists()
    assert Agent.load("run", trust=True).config.env == "mine:Mine-v0"
