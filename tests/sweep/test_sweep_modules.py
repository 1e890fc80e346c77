"""The processes that work on cells search the working directory for modules only if the user named one, and last."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_sweep import CARTPOLE, SETTINGS

from toys import python_path

pytestmark = pytest.mark.usefixtures("slurm_programs")

# Each leaves a mark in its folder when it is imported.
SHADOWS = ("torch", "numpy", "rich", "tyro", "gymnasium", "tomli_w", "safetensors", "matplotlib", "ray", "submitit",
           "cloudpickle", "optuna", "sqlalchemy", "alembic", "sacbbf")  # fmt: skip
# Python imports this module as it starts, before it would search a working directory. Of every import in every process
# it notes whether the guarded folder was among the places that were searched, and whether as the last of them.
SITECUSTOMIZE = """
import os, sys

guarded, notes = os.environ["GUARDED"], os.environ["NOTES"]

def note(event, args):
    if event != "import":
        return
    searched = [os.path.join(os.getcwd(), one) for one in args[2] or ()]
    words = [f"{os.getpid()} works"] if args[0] == "sacbbf.sweep.twin_run" else []
    if guarded in [os.path.normpath(one) for one in searched]:
        last = os.path.normpath(searched[-1]) == guarded and len([one for one in searched if one == guarded]) == 1
        words.append(f"{os.getpid()} searches {'it last' if last else 'it before others'}")
    if words:
        file = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, "".join(f"{line}\\n" for line in words).encode())
        os.close(file)

sys.addaudithook(note)
"""
MINE = """
import gymnasium
if "Mine-v0" not in gymnasium.registry:
    gymnasium.register("Mine-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=9)
"""
STAND_IN = "#!/bin/sh\necho Submitted batch job 7\n"
# Runs the script as Slurm does: when it likes, in the directory of submission.
SBATCH = """#!/bin/sh
[ -f "$1" ] || exit 0
echo Submitted batch job 7
SLURM_JOB_ID=7 sh "$1" < /dev/null > /dev/null 2>&1 &
"""
SRUN = f"""#!/bin/sh
while [ "$1" != {sys.executable} ]; do shift; done
exec "$@"
"""
SCRIPT = "import os; print(os.getpid(), flush=True); from sacbbf.cli import main; main()"
SWEEP = ["sweep", "there", "--agents", "random", "--seeds", "1", "--set", "eval.episodes=1", "--games"]
TUNE = ["tune", "--out", "there", "--trials", "1", "--seeds", "1", "--fresh-seeds", "2", "--steps", "80", "--only",
        "--space", "schedule.n_end=1,3"]  # fmt: skip
TUNE += [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={str(value).lower()}")]
COMMANDS = {
    "slurm": [*SWEEP, "{env}", "--executor", "slurm"],
    "tune": [*TUNE, "{env}"],
}


@pytest.fixture
def slurm_programs(tmp_path_factory, monkeypatch):
    """Stand-ins for Slurm's programs, which are found first."""
    programs = tmp_path_factory.mktemp("programs")
    for name, text in {"sbatch": SBATCH, "srun": SRUN, "sacct": STAND_IN, "scancel": STAND_IN}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def hostile(working_directory):
    """A working directory of modules that must not be imported, and one of the user's."""
    for name in SHADOWS:
        Path(f"{name}.py").write_text(f"open({str(working_directory / 'mark-')!r} + {name!r}, 'w').close()\n")
    Path("mine.py").write_text(MINE)
    return working_directory


def notes_of(command, env, hostile, tmp_path_factory):
    """Run a command in a process of its own; what was noted of imports in its workers."""
    module = {"slurm": "submitit", "tune": "optuna"}[command]
    pytest.importorskip(module)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "sitecustomize.py").write_text(SITECUSTOMIZE)
    (elsewhere / "script.py").write_text(SCRIPT)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(elsewhere), python_path()]),
        "GUARDED": str(hostile),
        "NOTES": str(elsewhere / "notes"),
        "OMP_NUM_THREADS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    words = [word.format(env=env) for word in COMMANDS[command]]
    words += ["--size", "tiny", "--workers", "1", "--retries", "0", "--device", "cpu", "--quiet"]
    done = subprocess.run(
        [sys.executable, str(elsewhere / "script.py"), *words],
        env=environment, capture_output=True, text=True, timeout=3600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(hostile.glob("mark-*")) == []
    driver = done.stdout.split()[0]
    notes = [line.split(" ", 1) for line in (elsewhere / "notes").read_text().splitlines()]
    return {words for process, words in notes if process != driver}


@pytest.mark.parametrize("command", COMMANDS)
def test_workers_do_not_search_the_working_directory(command, hostile, tmp_path_factory):
    assert notes_of(command, CARTPOLE, hostile, tmp_path_factory) == {"works"}


@pytest.mark.parametrize("command", COMMANDS)
def test_workers_search_it_last_for_a_module_that_was_typed(command, hostile, tmp_path_factory):
    assert notes_of(command, "mine:Mine-v0", hostile, tmp_path_factory) == {"works", "searches it last"}
