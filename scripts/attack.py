"""Attack the command line: damaged files, hostile folders, fuzzed words, kills. Nothing may end in a traceback or hang.

    python scripts/attack.py [--minutes 15] [--seed 0] [--only GROUP] [--longest 40] [--quick]

Makes a finished run, a stopped one, a sweep, a tuning, a folder for the Hub and a CSV of scores. Then, in an order
drawn from the seed, until the minutes are over:

damage   each file of them is damaged in each way, and given to each command that reads it
tune     the same for each file of the tuning, and strange contents of those that are its own
strange  configurations, results and manifests whose values are of other kinds, sizes and letters than they should be
words    command lines drawn from a grammar of commands, flags and values
modules  folders whose configuration names a module that lies beside it, which leaves a mark if it is imported
kills    a run is killed at random moments and taken up to its end
folder   fresh processes in a folder with modules of well-known names, each of which leaves a mark if it is imported

Prints how the commands ended, and fails on a traceback, a hang, a wrong result, or an import that should not have been.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from attacks.contents import strange
from attacks.damage import damaged
from attacks.modules import EVIL, SHADOWS, hostile
from attacks.readers import READERS, answer, watch
from attacks.tuning import TUNE, TUNE_READERS, leave_a_lease, tune_answer, tunings, work_here
from attacks.words import fuzzed
from crash_test import Tally, compare, contents, launch

ENV = "MinAtar/Breakout-v1"
WORDS = (
    f"{ENV} --size tiny --steps 150 --schedule.warmup 64 --network.hidden-dim 8 --network.width-scale 0.25 "
    "--log-every 20 --eval.every 70 --eval.every-episodes 1 --eval.episodes 2 --eval.no-baselines "
    "--checkpoint.every 40 --environment.max-steps 30 --threads 1 --quiet"
).split()
MEMORY = 12 << 30  # bytes of addresses that a command may take
GROUPS = ("damage", "strange", "words", "modules", "tune", "kills", "folder")
ALL_READERS = READERS | TUNE_READERS
KILLING = 0.1  # of the time
OUTCOMES = ("done", "refused", "failed", "traceback", "hang", "wrong", "import")
FATAL = OUTCOMES[3:]
SHOWN = 200  # faults that are told


@dataclass(frozen=True)
class Case:
    """One command in a folder of its own."""

    group: str
    name: str
    argv: tuple[str, ...]
    prepare: Callable[[Path], None]  # takes the folder: a copy of what was made
    reader: str = ""  # whose answer must be the one that whole files give


@dataclass
class Report:
    """How everything ended."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def add(self, group: str, outcome: str, words: str) -> None:
        """Count an outcome; a fatal one is told in full."""
        self.counts.setdefault(group, Counter())[outcome] += 1
        if outcome in FATAL:
            self.faults.append(f"{outcome.upper()} {group}: {words}")


def main() -> int:
    """Attack; returns 1 if anything gave way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15.0, help="when to stop, cases left out are counted")
    parser.add_argument("--seed", type=int, default=0, help="of the order, the words and the moments")
    parser.add_argument("--longest", type=float, default=40.0, help="seconds of a command before it counts as a hang")
    parser.add_argument("--quick", action="store_true", help="a few cases of each group, in seconds")
    parser.add_argument("--only", action="append", choices=GROUPS, help="groups; default: all of them")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="attack-") as work:
        report, left = attack(Path(work), args)
    for line in table(report):
        print(line)
    print(f"{sum(count.total() for count in report.counts.values())} commands, {left} cases left out")
    print(f"{len(report.faults)} faults")
    return 1 if report.faults else 0


def attack(work: Path, args: argparse.Namespace) -> tuple[Report, int]:
    """Run cases until the time is over; returns how they ended and how many were left."""
    import_everything()
    made, draw, report = work / "made", random.Random(args.seed), Report()
    whole = make(made)
    end = time.monotonic() + 60 * args.minutes
    groups = args.only or (GROUPS[:5] if args.quick else GROUPS)
    cases = [case for case in all_cases(draw, 40 if args.quick else 1_000) if case.group in groups]
    draw.shuffle(cases)
    cases = in_turn(cases, 6 if args.quick else len(cases))
    readers = {case.reader for case in cases if case.reader}
    right = {reader: run_case(reference(reader), work, made, args.longest)[1] for reader in sorted(readers)}
    if "folder" in groups:
        attack_folders(work, made, report, args.longest)
    if "kills" in groups:
        attack_by_killing(work, draw, whole, report, time.monotonic() + 60 * args.minutes * KILLING)
    for done, case in enumerate(cases):
        if time.monotonic() > end:
            return report, len(cases) - done
        outcome, said = run_case(case, work, made, args.longest)
        if outcome == "done" and case.reader and not said <= right[case.reader]:
            outcome, said = "wrong", said - right[case.reader]
        report.add(case.group, outcome, f"{case.name}: {' '.join(case.argv)}\n    {' | '.join(sorted(said))[-1500:]}")
        print(f"\r{done + 1}/{len(cases)} cases, {len(report.faults)} faults", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return report, 0


def import_everything() -> None:
    """Once, here: every child is forked with it."""
    import sacbbf.commands.evaluate
    import sacbbf.commands.export
    import sacbbf.commands.play
    import sacbbf.commands.report
    import sacbbf.commands.reproduce
    import sacbbf.commands.resume
    import sacbbf.commands.train
    import sacbbf.report.page
    import sacbbf.watch.server  # noqa: F401
    from sacbbf.disk.lease import Lease

    work_here()
    Lease.acquire = functools.partial(Lease.acquire, patience=1.0, beat_every=0.2)  # type: ignore[method-assign]


def make(made: Path) -> dict[str, object]:
    """Make what is attacked; returns all that a run which is never stopped holds."""
    made.mkdir()
    code = launch(["train", *WORDS, "--checkpoint.keep", "--out", str(made / "stopped")], at="training: step#60")
    expect(code, -signal.SIGKILL, "the run to be stopped")
    expect(launch(["train", *WORDS, "--out", str(made / "run")]), 0, "the run")
    shutil.copytree(made / "stopped", made / "whole")
    expect(launch(["resume", str(made / "whole"), "--quiet"]), 0, "the run that goes on")
    expect(launch(["export", str(made / "run"), "--hub", str(made / "hub")]), 0, "the folder for the Hub")
    make_sweep(made / "sweep")
    expect(launch([*TUNE[:-1], str(made / "tune")]), 0, "the tuning")
    leave_a_lease(made / "tune")
    rows = [f"one,{game},{seed},{seed + 1.5}" for game in ("Pong", "Breakout") for seed in range(3)]
    (made / "scores.csv").write_text("\n".join(["agent,game,seed,score", *rows]) + "\n")
    return contents(made / "whole")


def make_sweep(path: Path) -> None:
    """Make a finished sweep of two cells, without processes that have to import everything anew."""
    from rich.console import Console

    from sacbbf.sweep.directory import SweepDirectory
    from sacbbf.sweep.spec import Spec, Variant
    from sacbbf.sweep.work import run_cell

    spec = Spec((ENV,), (Variant("random"),), (0, 1), "tiny", 20, {"eval.episodes": 2}, 1, "cpu")
    SweepDirectory(path).begin(spec)
    for cell in spec.cells():
        run_cell(SweepDirectory(path), spec, cell, Console(quiet=True))


def expect(code: int, wanted: int, what: str) -> None:
    """End if a part of what is attacked cannot be made."""
    if code != wanted:
        raise SystemExit(f"{what} ended with exit code {code}, not {wanted}")


def reference(reader: str) -> Case:
    """Return a reader's command on whole files."""
    return Case("whole", reader, ALL_READERS[reader], lambda folder: None, reader)


def all_cases(draw: random.Random, lines: int) -> Iterator[Case]:
    """Every case, but for kills and fresh processes; `lines` are drawn from the grammar."""
    for name, reader, argv, change in damaged():
        yield Case("damage", name, argv, change, reader)
    for name, reader, argv, change in tunings():
        yield Case("tune", name, argv, change, reader)
    for name, argv, change in strange():
        yield Case("strange", name, argv, change)
    for name, argv, change in hostile():
        yield Case("modules", name, argv, change)
    for _ in range(lines):
        yield Case("words", "drawn", tuple(fuzzed(draw)), lambda folder: None)


def in_turn(cases: list[Case], most: int) -> list[Case]:
    """Return at most so many cases of each group, a case of each in turn: so each has its share of the time."""
    groups = dict.fromkeys(case.group for case in cases)
    columns = [[case for case in cases if case.group == group][:most] for group in groups]
    return [case for row in itertools.zip_longest(*columns) for case in row if case is not None]


def run_case(case: Case, work: Path, made: Path, longest: float) -> tuple[str, set[str]]:
    """Run a case for at most so many seconds; returns how it ended and what it answered, or said."""
    folder = work / "case"
    shutil.copytree(made, folder)
    try:
        case.prepare(folder)
        code, words = in_a_child(case.argv, folder, work / "words", longest)
        if (folder / EVIL).exists():
            return "import", {words}
        if code is None:
            return "hang", {words}
        if "Traceback" in words or code not in (0, 1, 2, 130):
            return "traceback", {f"exit code {code}", words}
        if code:
            return ("refused" if code == 2 else "failed"), {words}
        found = tune_answer if case.reader in TUNE_READERS else answer
        return "done", found(case.reader, words, folder)
    finally:
        shutil.rmtree(folder)


def in_a_child(argv: tuple[str, ...], folder: Path, said: Path, longest: float) -> tuple[int | None, str]:
    """Run a command in a folder, in a process of its own; its exit code, None if it hung, and what it said."""
    child = os.fork()
    if child == 0:
        _be_the_child(argv, folder, said)
    end = time.monotonic() + longest
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), said.read_text(errors="replace")
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None, said.read_text(errors="replace")


def _be_the_child(argv: tuple[str, ...], folder: Path, said: Path) -> None:
    code = 70
    try:
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        target = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(target, stream)
        sys.stdout = os.fdopen(1, "w", errors="backslashreplace")
        sys.stderr = os.fdopen(2, "w", errors="backslashreplace", buffering=1)
        code = _command(argv)
    except SystemExit as error:  # of the parser of flags
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)  # at once: threads of the parent, which are not here, would be waited for


def _command(argv: tuple[str, ...]) -> int:
    from sacbbf.cli import run

    return watch(Path(argv[1])) if argv[0] == "watch" and len(argv) == 2 else run(argv)


def attack_by_killing(work: Path, draw: random.Random, whole: dict[str, object], report: Report, end: float) -> None:
    """Kill a run at random moments, take it up to its end, and compare it with one that was never stopped."""
    words = ["train", *WORDS, "--checkpoint.keep", "--out", str(work / "killed")]
    while time.monotonic() < end:
        for _ in range(3):
            code = launch(words, after=draw.uniform(0.05, 2.5))
            report.add("kills", "done" if code in (0, -signal.SIGKILL) else "failed", "killed")
        tally = Tally()
        compare("killed", launch(words), work / "killed", whole, tally)
        report.add("kills", "wrong" if tally.differences else "done", "\n    ".join(tally.differences))


def attack_folders(work: Path, made: Path, report: Report, longest: float) -> None:
    """Give commands in a folder that holds modules of well-known names, in processes that have imported nothing yet."""
    folder = work / "folder"
    shutil.copytree(made / "run", folder)
    for name in SHADOWS:
        (folder / f"{name}.py").write_text(f"open({str(folder / EVIL)!r}, 'a').write({name!r})\n")
    config = (folder / "config.toml").read_text()
    for env in (ENV, "evil:X-v0"):
        (folder / "config.toml").write_text(config.replace(ENV, env))
        for argv in ("list agents", "report .", "evaluate . --episodes 1", "play . --max-steps 2", "export . --hub h",
                     "diff . .", "resume .", "watch . --port 0"):  # fmt: skip
            outcome, words = fresh([sys.executable, "-m", "sacbbf", *argv.split()], folder, longest)
            report.add("folder", outcome, f"{argv}, env {env}\n    {words[-1500:]}")
            shutil.rmtree(folder / "h", ignore_errors=True)
    shutil.rmtree(folder)


def fresh(command: list[str], folder: Path, longest: float) -> tuple[str, str]:
    """Run a command in a fresh process; returns how it ended and what it said. A server is ended after a while."""
    serving = "watch" in command
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        words, _ = process.communicate(timeout=10.0 if serving else 4 * longest)
    except subprocess.TimeoutExpired:
        process.kill()
        words, _ = process.communicate()
        if not serving:
            return "hang", words
        process.returncode = 0  # it served until it was ended
    if (mark := folder / EVIL).exists():
        words = f"imported {mark.read_text()}\n{words}"
        mark.unlink()
        return "import", words
    if "Traceback" in words:
        return "traceback", words
    return {0: "done", 2: "refused"}.get(process.returncode, "failed"), words


def table(report: Report) -> Iterator[str]:
    """Lines of the report."""
    yield f"{'':<10}" + "".join(f"{name:>11}" for name in OUTCOMES)
    for group, counts in report.counts.items():
        yield f"{group:<10}" + "".join(f"{counts[name]:>11}" for name in OUTCOMES)
    yield from report.faults[:SHOWN]


if __name__ == "__main__":
    sys.exit(main())
