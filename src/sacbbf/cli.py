"""The command line: finds the subcommand, runs it, and turns errors into messages and exit codes."""

from __future__ import annotations

import difflib
import importlib
import io
import shutil
import sys
import textwrap
from collections.abc import Sequence

from sacbbf import __version__
from sacbbf.errors import RunFailed, UsageError, printable
from sacbbf.machine.allocator import prefer_huge_pages

# Subcommand -> what it does; each is a module of sacbbf.commands, imported only when it is called.
COMMANDS: dict[str, str] = {
    "train": "train an agent, or play a baseline, and see how it scores",
    "resume": "take up a run that was stopped, as if it had never been",
    "evaluate": "play a trained policy and report its scores",
    "list": "agents, sizes, games with published scores, environments",
    "diff": "settings and scores in which two runs differ",
    "report": "scores of many runs beside the published ones: page, tables, plots",
    "sweep": "run games x agents x settings x seeds, on one machine or a cluster",
    "tune": "search for settings that beat the preset's on fresh seeds",
    "reproduce": "a table of the paper as a sweep and a report",
    "zoo": "the trained policies that come with this package",
    "play": "a video of a trained policy: the game beside its probabilities",
    "export": "a trained policy as ONNX, or as a folder for the Hugging Face Hub",
    "push": "upload such a folder to the Hub",
    "pull": "download a policy from the Hub",
    "watch": "a local page that shows runs and sweeps as they train",
    "bench": "measure how fast this machine trains",
    "verify": "compare learner and replay with numbers of the authors' release",
}


def usage() -> str:
    """Return the text of `sacbbf --help`."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            f"sacbbf {__version__}: sample-efficient reinforcement learning for discrete actions",
            "",
            "usage: sacbbf COMMAND [options]     (sacbbf COMMAND --help explains each)",
            "",
            *lines,
        ]
    )


def complain(text: str) -> None:
    """Print what went wrong; on a terminal no word is broken at the end of a line."""
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        wrap = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
        text = "\n".join(map(wrap.fill, text.splitlines()))
    print(text, file=sys.stderr)


def run(argv: Sequence[str]) -> int:
    """Run the command line with these arguments; returns the exit code."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if argv else 2
    if argv[0] in ("-V", "--version"):
        print(f"sacbbf {__version__}")
        return 0
    if argv[0] not in COMMANDS:
        near = difflib.get_close_matches(argv[0], COMMANDS, n=1)
        meant = f"did you mean {near[0]}?" if near else f"it is one of {', '.join(COMMANDS)}"
        complain(f"sacbbf: no command {argv[0]!r}; {meant}")
        return 2
    try:
        prefer_huge_pages()
        module = importlib.import_module(f"sacbbf.commands.{argv[0]}")
        return int(module.main(argv[1:]))
    except UsageError as error:
        return _refuse(argv[0], error, 2)
    except RunFailed as error:
        return _refuse(argv[0], error, 1)
    except OSError as error:  # a full disk, a directory that may not be written to
        place = f"{error.filename}: " if error.filename else ""
        return _refuse(argv[0], f"{place}{error.strerror or error}", 1)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "allocate memory" not in str(error):  # as PyTorch says it
            raise
        return _refuse(argv[0], "this machine has not enough memory for what was asked for: make it smaller", 1)
    except KeyboardInterrupt:
        return _refuse(argv[0], "interrupted", 130)


def _refuse(command: str, why: object, code: int) -> int:
    complain(f"sacbbf {command}: {printable(str(why))}")
    return code


def main() -> None:
    """Entry point of the console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files may hold what no encoding has
    sys.exit(run(sys.argv[1:]))
