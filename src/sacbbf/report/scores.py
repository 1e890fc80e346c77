"""What a score table is: agents with a score per environment and seed, and how one is read from runs and CSV files.

What is wrong is named by file and line. It is never mended: it ends the reading, or is left out and listed.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sacbbf.disk.reading import TABLE, Unreadable, is_there, open_file
from sacbbf.envs import games
from sacbbf.errors import UsageError
from sacbbf.report.grouping import group_names, shared_words
from sacbbf.report.run_scores import Baselines, RunScore, read_run, sweep_notes
from sacbbf.run.display import Display, silent
from sacbbf.run.records import find_runs

COLUMNS = ("agent", "game", "seed", "score")
PLAYED = ("random", "blind")  # further columns that a run's baselines may stand in, each with NAME_error
SHOWN = 12  # faults named in one error message


@dataclass(frozen=True)
class Agent:
    """The scores of one agent, a score per environment and run, in the order of the seeds."""

    name: str
    source: str
    scores: Mapping[str, tuple[float, ...]]
    seeds: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    runs: tuple[RunScore, ...] = ()  # the run directories behind the scores, where there are any
    published: bool = False
    means_only: bool = False  # one published mean per game; its runs are not known
    quoted: Mapping[str, float] = field(default_factory=dict)  # aggregates over the 26 games, as printed in a paper
    played: Mapping[tuple[str, int], Baselines] = field(default_factory=dict)  # by environment and seed

    @property
    def games(self) -> tuple[str, ...]:
        """Those of the 26 games that it has scores for, in their order."""
        return tuple(game for game in games.GAMES if game in self.scores)

    @property
    def others(self) -> tuple[str, ...]:
        """Environments without a human score."""
        return tuple(sorted(set(self.scores) - set(games.GAMES)))


@dataclass(frozen=True)
class Found:
    """What was read: agents, and in words what was left out and what sweeps say of themselves."""

    agents: tuple[Agent, ...]
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Entry:
    """One score and where it stands."""

    agent: str
    environment: str
    seed: int
    score: float
    origin: str  # the run directory, or file:line
    source: str
    played: Baselines = field(default_factory=dict)
    run: RunScore | None = None


@dataclass
class _Reading:
    """Entries and runs so far, and the faults met on the way."""

    skip_bad: bool
    display: Display
    entries: list[_Entry] = field(default_factory=list)
    runs: list[RunScore] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Raise UsageError for the faults, unless they are to be skipped."""
        if not self.faults or self.skip_bad:
            return
        more = len(self.faults) - SHOWN
        lines = [*self.faults[:SHOWN], *([f"and {more} more"] if more > 0 else [])]
        text = lines[0] if len(lines) == 1 else "\n  ".join([f"{len(self.faults)} faults in the input:", *lines])
        raise UsageError(f"{text}\n(--skip-bad reports the rest)")


def read_scores(
    paths: Sequence[Path],
    *,
    skip_bad: bool = False,
    unfinished: bool = False,
    labels: Sequence[str] = (),
    display: Display | None = None,
) -> Found:
    """Read run directories, directories of them, and CSV files; `labels` rename agents, as OLD=NEW or NEW."""
    reading = _Reading(skip_bad, display or silent())
    seen: set[Path] = set()
    for path in paths:
        if path.is_dir():
            _read_directory(path, unfinished, seen, reading)
        elif is_there(path):
            _read_csv(path, reading)
        else:
            raise UsageError(f"{path}: no such file or directory")
    configs = [run.config for run in reading.runs]
    if words := shared_words(configs):
        reading.notes.append(words)
    for run, name in zip(reading.runs, group_names(configs), strict=True):
        environment = games.find_game(run.config.env) or run.config.env
        origin = str(run.directory.path)
        reading.entries.append(
            _Entry(name, environment, run.config.seed, run.score, origin, "runs", run.baselines, run)
        )
    entries = _without_duplicates(reading)
    reading.check()
    left_out = (*reading.left_out, *reading.faults)
    if not entries:
        reasons = "".join(f"\n  {line}" for line in left_out)
        raise UsageError(f"nothing to report in {', '.join(map(str, paths))}{':' if reasons else ''}{reasons}")
    return Found(tuple(_rename(_gather(entries), labels)), left_out, tuple(dict.fromkeys(reading.notes)))


# --- run directories ----------------------------------------------------------------------------------------------


def _read_directory(path: Path, unfinished: bool, seen: set[Path], reading: _Reading) -> None:
    links: list[Path] = []
    runs = find_runs(path, links.append)
    reading.left_out += [f"{link}: a link, which is not followed; give where it leads as a path too" for link in links]
    reading.notes += sweep_notes(runs)
    if not runs:
        empty = not any(path.iterdir())
        what = "is empty" if empty else "holds no run, at any depth"
        reading.faults.append(f"{path} {what}: a run directory has config.toml and result.json")
    reading.display.begin(f"reading {path}", len(runs))
    for directory in runs:
        reading.display.advance()
        if directory.resolve() in seen:  # given twice, or inside another path
            continue
        seen.add(directory.resolve())
        try:
            run = read_run(directory)
        except UsageError as error:
            reading.faults.append(str(error))
            continue
        if isinstance(run, str):
            reading.left_out.append(run)
        elif not run.finished and not unfinished:
            steps = f"{run.result['steps']:,} of {run.config.steps:,} steps"
            reading.left_out.append(f"{directory}: unfinished, {steps}; --unfinished takes it in")
        else:
            reading.runs.append(run)


# --- CSV ----------------------------------------------------------------------------------------------------------


def _read_csv(path: Path, reading: _Reading) -> None:
    """Read `agent,game,seed,score`, and the scores of random and blind play if they stand there too."""
    try:
        with io.TextIOWrapper(open_file(path, TABLE, typed=True), "utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, skipinitialspace=True)
            missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
            if missing:
                found = ", ".join(rows.fieldnames or ()) or "nothing"
                lacks = f"lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}"
                reading.faults.append(f"{path}:1: {lacks}; needed are {', '.join(COLUMNS)}, found {found}")
                return
            before = len(reading.entries) + len(reading.faults)
            for row in rows:
                _read_row(row, f"{path}:{rows.line_num}", str(path), reading)
    except Unreadable as error:
        reading.faults.append(str(error))
        return
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reading.faults.append(f"{path} is not a CSV file: {error}")
        return
    if len(reading.entries) + len(reading.faults) == before:
        reading.faults.append(f"{path}:1: no scores below the header")


def _read_row(row: Mapping[str | None, str | None], origin: str, source: str, reading: _Reading) -> None:
    if None in row:  # what a thousands separator leaves behind
        reading.faults.append(f"{origin}: more fields than columns")
        return
    values = {name: " ".join((row[name] or "").split()) for name in COLUMNS}
    if unseen := [name for name, value in values.items() if not value.isprintable()]:
        reading.faults.append(f"{origin}: {', '.join(unseen)} of letters that cannot be printed")
        return
    empty = [name for name, value in values.items() if not value]
    if empty:
        reading.faults.append(f"{origin}: no {', '.join(empty)}")
        return
    try:
        seed = _whole(values["seed"])
        score = _finite(values["score"])
        environment = find_environment(values["game"])
        played = _read_played(row)
    except UsageError as error:
        reading.faults.append(f"{origin}: {error}")
        return
    reading.entries.append(_Entry(values["agent"], environment, seed, score, origin, source, played))


def _read_played(row: Mapping[str | None, str | None]) -> Baselines:
    """Return score and standard error of the baselines that a row has."""
    found = {}
    for name in PLAYED:
        score, error = ((row.get(column) or "").strip() for column in (name, f"{name}_error"))
        if bool(score) != bool(error):
            raise UsageError(f"{name} = {score!r}, {name}_error = {error!r}: must both be given or neither")
        if score:
            found[name] = (_finite(score, name), _finite(error, f"{name}_error"))
    return found


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"seed = {text!r}: must be a whole number") from None


def _finite(text: str, name: str = "score") -> float:
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{name} = {text!r}: must be a number") from None
    if not math.isfinite(value):
        raise UsageError(f"{name} = {text!r}: must be a finite number")
    return value


def find_environment(name: str) -> str:
    """Return the environment that a CSV file means, in its usual spelling; UsageError if there is none."""
    if name in games.GAMES or ":" in name:  # module:id is known where its module is
        return name
    if game := games.find_game(name):
        return game
    from sacbbf.envs.make import known_environments  # not at the top: registries are slow to load

    known = [known for group in known_environments().values() for known in group]
    if name in known:
        return name
    raise UsageError(
        f"game = {name!r}: is neither an Atari game (Pong) nor one of MinAtar's (MinAtar/Breakout-v1) nor a "
        f"Gymnasium id (CartPole-v1){games.suggestion(games.nearest(name, known))}"
    )


# --- agents -------------------------------------------------------------------------------------------------------


def _without_duplicates(reading: _Reading) -> list[_Entry]:
    """Return the first entry of each agent, environment and seed; a second one is a fault."""
    first: dict[tuple[str, str, int], _Entry] = {}
    for entry in reading.entries:
        key = (entry.agent, entry.environment, entry.seed)
        if key in first:
            words = f"agent {entry.agent!r}, {entry.environment}, seed {entry.seed}"
            reading.faults.append(f"{entry.origin}: {words} is there already: {first[key].origin}")
        else:
            first[key] = entry
    return list(first.values())


def _gather(entries: Iterable[_Entry]) -> list[Agent]:
    """Return the agents by name, their scores in the order of environments and seeds."""
    by_agent: dict[str, list[_Entry]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.agent, entry.environment, entry.seed)):
        by_agent.setdefault(entry.agent, []).append(entry)
    agents = []
    for name, own in by_agent.items():
        scores: dict[str, tuple[float, ...]] = {}
        seeds: dict[str, tuple[int, ...]] = {}
        for entry in own:
            scores[entry.environment] = (*scores.get(entry.environment, ()), entry.score)
            seeds[entry.environment] = (*seeds.get(entry.environment, ()), entry.seed)
        source = ", ".join(dict.fromkeys(entry.source for entry in own))
        runs = tuple(entry.run for entry in own if entry.run)
        played = {(entry.environment, entry.seed): entry.played for entry in own if entry.played}
        agents.append(Agent(name, source, scores, seeds, runs, played=played))
    return agents


def _rename(agents: list[Agent], labels: Sequence[str]) -> list[Agent]:
    """Return the agents under the names that were asked for; two never become one."""
    new = {agent.name: agent.name for agent in agents}
    for label in labels:
        old, _, name = label.rpartition("=")  # at the last: names of agents may hold settings
        old = old or (agents[0].name if len(agents) == 1 else "")
        if old not in new or not name:
            raise UsageError(f"agent_name = {label!r}: must be NAME=LABEL, where NAME is one of {', '.join(new)}")
        new[old] = name
    if len(set(new.values())) < len(new):
        raise UsageError(f"agent_name: {', '.join(new)} are agents apart and need different labels")
    return [replace(agent, name=new[agent.name]) for agent in agents]
