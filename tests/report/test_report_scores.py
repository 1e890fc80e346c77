"""Reading runs and CSV files: what is found, how it is grouped and named, and how bad input is refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
import tyro
from made_runs import make_config, random_rows, write_csv, write_run

from sacbbf.commands.train import TrainArgs, preset_defaults, run_config
from sacbbf.envs.make import EnvSettings
from sacbbf.errors import UsageError
from sacbbf.report.grouping import changes, command, group_names, shared_words
from sacbbf.report.scores import read_scores
from sacbbf.run.settings import EvalConfig

ROWS = [("A", "Pong", 0, 1.5), ("A", "Pong", 1, 2.5), ("B", "pong", 0, -3)]


@pytest.fixture
def runs(tmp_path):
    for seed in (1, 0):
        write_run(tmp_path / "runs" / "deep" / f"pong{seed}", make_config("Pong", seed), 10.0 + seed)
    return tmp_path / "runs"


def only(found):
    (agent,) = found.agents
    return agent


# --- what is found ---


def test_runs_are_found_at_any_depth_in_the_order_of_seeds(runs):
    agent = only(read_scores([runs]))
    assert (agent.name, agent.scores, agent.seeds) == ("sac-bbf", {"Pong": (10.0, 11.0)}, {"Pong": (0, 1)})


def test_a_run_given_twice_counts_once(runs):
    assert only(read_scores([runs, runs / "deep" / "pong0"])).scores == {"Pong": (10.0, 11.0)}


def test_a_run_directory_itself_may_be_given(runs):
    assert only(read_scores([runs / "deep" / "pong1"])).scores == {"Pong": (11.0,)}


def test_a_csv_file_gives_agents_and_games_in_any_spelling(tmp_path):
    found = read_scores([write_csv(tmp_path / "scores.csv", ROWS)])
    assert [(agent.name, agent.scores) for agent in found.agents] == [
        ("A", {"Pong": (1.5, 2.5)}),
        ("B", {"Pong": (-3.0,)}),
    ]


def test_a_csv_file_may_hold_other_environments(tmp_path):
    rows = [("A", "MinAtar/Breakout-v1", 0, 5), ("A", "CartPole-v1", 0, 200), ("A", "Tetris", 0, 1)]
    agent = only(read_scores([write_csv(tmp_path / "scores.csv", rows)]))
    assert agent.games == () and agent.others == ("CartPole-v1", "MinAtar/Breakout-v1", "Tetris")


# --- how runs are grouped ---


def test_runs_with_other_settings_are_other_agents():
    configs = [
        make_config("Pong"),
        make_config("Alien", 4),
        make_config("Pong", changes={"loss": {"variance_reduction": False}}),
        make_config("CartPole-v1", size="tiny"),
        make_config("CartPole-v1", size="tiny", steps=10_000),
        make_config("Pong", agent="bbf"),
        make_config("Pong", changes={"schedule": {"replay_ratio": 4}}),
    ]
    assert group_names(configs) == [
        "sac-bbf",
        "sac-bbf",
        "sac-bbf (loss.variance_reduction=False)",
        "sac-bbf tiny",
        "sac-bbf tiny (steps=10000)",
        "bbf",
        "sac-bbf (schedule.replay_ratio=4)",
    ]


def test_what_no_score_depends_on_does_not_tell_agents_apart():
    config = make_config("Pong", 3)
    other = replace(config, threads=2, log_every=7, device="cuda", eval=EvalConfig(every=500, parallel=2))
    assert changes(other) == {}
    assert changes(replace(config, eval=EvalConfig(greedy=True))) == {"eval.greedy": True}
    assert changes(replace(config, environment=EnvSettings(sticky=0.25))) == {"environment.sticky": 0.25}


def test_many_changes_are_counted_unless_that_would_pool_agents():
    def config(hidden_dim):
        changed = {"network": {"noisy": True, "dueling": False, "num_atoms": 21, "hidden_dim": hidden_dim}}
        return make_config("Pong", changes=changed)

    (alone,) = group_names([config(64)])
    assert alone.endswith(", 1 more)")
    assert len(set(group_names([config(64), config(32)]))) == 2


def test_names_leave_out_what_all_agents_share():
    shared = {"size": "tiny", "steps": 300}
    configs = [
        make_config("CartPole-v1", **shared),
        make_config("CartPole-v1", agent="bbf", **shared),
        make_config("CartPole-v1", agent="bbf", changes={"network": {"hidden_dim": 64}}, **shared),
        make_config("CartPole-v1", agent="random", **shared),
    ]
    assert group_names(configs) == ["sac-bbf tiny", "bbf tiny", "bbf tiny (network.hidden_dim=64)", "random"]
    assert shared_words(configs).endswith("and names leave out: steps=300.")
    assert group_names(configs[:1]) == ["sac-bbf tiny (steps=300)"] and shared_words(configs[:1]) == ""
    other = make_config("CartPole-v1", agent="spr", size="tiny", steps=400)
    assert group_names([configs[0], other]) == ["sac-bbf tiny (steps=300)", "spr tiny (steps=400)"]


def test_the_notes_name_what_all_agents_share(tmp_path):
    for agent in ("sac-bbf", "bbf"):
        write_run(tmp_path / agent, make_config("CartPole-v1", agent=agent, size="tiny", steps=300), 5.0)
    (note,) = read_scores([tmp_path]).notes
    assert "steps=300" in note


def test_baselines_are_the_same_at_every_size():
    configs = [make_config("CartPole-v1", agent="random", size=size) for size in ("tiny", "paper")]
    assert group_names(configs) == ["random", "random"]


def test_an_environment_that_is_not_here_is_no_obstacle(tmp_path):
    config = replace(make_config("CartPole-v1", size="tiny"), env="no_such_module:Cart-v0")
    assert group_names([config]) == ["sac-bbf tiny"]
    write_run(tmp_path / "run", config, 5.0)
    assert only(read_scores([tmp_path / "run"])).others == ("no_such_module:Cart-v0",)


@pytest.mark.parametrize(
    "config",
    [
        make_config("Pong", 3),
        make_config("MinAtar/Breakout-v1", size="tiny", steps=5_000, agent="bbf", threads=2, clip_rewards=True),
        make_config("CartPole-v1", 7, size="tiny", eval=EvalConfig(every=100, greedy=True, baselines=False)),
        make_config("Pong", changes={"loss": {"variance_reduction": False}, "schedule": {"replay_ratio": 4}}),
        make_config("Pong", size="laptop", environment=EnvSettings(sticky=0.25, max_steps=100, life_loss=False)),
    ],
    ids=lambda config: f"{config.agent}-{config.env}",
)
def test_the_command_of_a_run_trains_the_same_run(config):
    words = command(config).split()[2:]
    parsed = tyro.cli(TrainArgs, args=words, default=preset_defaults(words)[0])
    assert run_config(parsed) == config


def test_labels_rename_agents(tmp_path):
    path = write_csv(tmp_path / "scores.csv", ROWS)
    found = read_scores([path], labels=["A=Ours", "B=Theirs"])
    assert [agent.name for agent in found.agents] == ["Ours", "Theirs"]


def test_a_label_alone_is_for_the_only_agent(runs):
    assert only(read_scores([runs], labels=["Ours"])).name == "Ours"


def test_names_with_settings_can_be_given_labels(tmp_path):
    changed = {"loss": {"variance_reduction": False}}
    write_run(tmp_path / "run", make_config("Pong", changes=changed), 1.0)
    label = "sac-bbf (loss.variance_reduction=False)=no baseline"
    assert only(read_scores([tmp_path / "run"], labels=[label])).name == "no baseline"


@pytest.mark.parametrize(
    ("labels", "said"),
    [(["C=Ours"], "is one of A, B"), (["Ours"], "must be NAME=LABEL"), (["A=X", "B=X"], "need different labels")],
)
def test_labels_that_fit_nothing_or_pool_agents_are_refused(tmp_path, labels, said):
    with pytest.raises(UsageError, match=said):
        read_scores([write_csv(tmp_path / "scores.csv", ROWS)], labels=labels)


# --- bad CSV files ---


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("A", "Pongg", 0, 1), r"scores.csv:4: game = 'Pongg'.*did you mean Pong"),
        (("A", "Pong", 2, "nan"), r"scores.csv:4: score = 'nan': must be a finite number"),
        (("A", "Pong", 2, "inf"), r"scores.csv:4: score = 'inf': must be a finite number"),
        (("A", "Pong", 2, "high"), r"scores.csv:4: score = 'high': must be a number"),
        (("A", "Pong", "x", 1), r"scores.csv:4: seed = 'x': must be a whole number"),
        (("A", "Pong", 1, 1), r"scores.csv:4: agent 'A', Pong, seed 1 is there already: .*scores.csv:3"),
        (("", "Pong", 2, 1), r"scores.csv:4: no agent"),
        (("A", "Pong", 2), r"scores.csv:4: no score"),
        (("A", "Pong", 2, 1, 234), r"scores.csv:4: more fields than columns"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line_or_skipped_and_listed(tmp_path, row, said):
    path = write_csv(tmp_path / "scores.csv", [*ROWS[:2], row])
    with pytest.raises(UsageError, match=said):
        read_scores([path])
    found = read_scores([path], skip_bad=True)
    assert only(found).scores == {"Pong": (1.5, 2.5)}
    assert len(found.left_out) == 1 and "scores.csv:4" in found.left_out[0]


def test_a_missing_column_is_named(tmp_path):
    path = write_csv(tmp_path / "scores.csv", [("A", "Pong", 1)], header="agent,game,score")
    with pytest.raises(UsageError, match=r"scores.csv:1: lacks the column seed; needed are agent, game, seed, score"):
        read_scores([path])


def test_a_csv_file_without_scores_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"scores.csv:1: no scores below the header"):
        read_scores([write_csv(tmp_path / "scores.csv", [])])


def test_a_file_that_is_no_csv_is_refused(tmp_path):
    (tmp_path / "scores.bin").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(UsageError, match=r"scores.bin is not a CSV file"):
        read_scores([tmp_path / "scores.bin"])


def test_all_faults_are_named_at_once(tmp_path):
    rows = [("A", "Pong", seed, "x") for seed in range(20)]
    with pytest.raises(UsageError, match=r"(?s)20 faults.*scores.csv:2.*scores.csv:13.*and 8 more.*--skip-bad"):
        read_scores([write_csv(tmp_path / "scores.csv", rows)])


# --- bad runs ---


def corrupt(path, **changed):
    result = json.loads((path / "result.json").read_text())
    (path / "result.json").write_text(json.dumps(result | changed))


BAD_RUNS = {
    "not JSON": (lambda run: (run / "result.json").write_text("{"), r"cannot read .*result.json: .*line 1"),
    "no object": (lambda run: (run / "result.json").write_text("[]"), r"result.json: .*it holds no object"),
    "missing keys": (lambda run: (run / "result.json").write_text('{"env": "Pong"}'), r"result.json lacks agent, size"),
    "NaN": (lambda run: corrupt(run, score=float("nan")), r"result.json: score = nan: must be a finite number"),
    "no score": (lambda run: corrupt(run, score=None), r"result.json: score = None: must be a finite number"),
    "steps": (lambda run: corrupt(run, steps="many"), r"steps = 'many': must be a whole number"),
    "finished": (lambda run: corrupt(run, finished="yes"), r"finished = 'yes': must be true or false"),
    "baselines": (lambda run: corrupt(run, baselines={"random": 3}), r"random = 3: must have a score"),
    "another run's": (lambda run: corrupt(run, seed=9), r"seed = 9, but .*config.toml has 1"),
    "no config": (lambda run: (run / "config.toml").unlink(), r"holds a result.json but no config.toml"),
    "no TOML": (
        lambda run: (run / "config.toml").write_text("env ="),
        r"config.toml: it is not a configuration in TOML",
    ),
    "record": (
        lambda run: (run / "evaluations.jsonl").write_text('{"step": 1, "mean": 2}\n{"step": 2}\n'),
        r"evaluations.jsonl: line 2 is not one",
    ),
}


@pytest.mark.parametrize("fault", BAD_RUNS)
def test_a_corrupt_run_is_named_or_skipped_and_listed(runs, fault):
    spoil, said = BAD_RUNS[fault]
    spoil(runs / "deep" / "pong1")
    with pytest.raises(UsageError, match=said):
        read_scores([runs])
    found = read_scores([runs], skip_bad=True)
    assert only(found).scores == {"Pong": (10.0,)}
    assert len(found.left_out) == 1 and "pong1" in found.left_out[0]


def test_the_same_run_in_two_directories_is_refused(runs):
    shutil.copytree(runs / "deep" / "pong0", runs / "copy")
    with pytest.raises(UsageError, match=r"agent 'sac-bbf', Pong, seed 0 is there already: .*copy"):
        read_scores([runs])


@pytest.mark.parametrize(("files", "said"), [([], "is empty"), (["note.txt"], "holds no run, at any depth")])
def test_a_directory_without_runs_is_refused(tmp_path, files, said):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in files:
        (folder / name).touch()
    with pytest.raises(UsageError, match=said):
        read_scores([folder])
    with pytest.raises(UsageError, match="nothing to report"):
        read_scores([folder], skip_bad=True)


def test_a_path_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="nowhere: no such file or directory"):
        read_scores([tmp_path / "nowhere"])


def test_unfinished_runs_are_left_out_with_a_note_unless_asked_for(runs):
    corrupt(runs / "deep" / "pong1", finished=False, steps=70_000)
    found = read_scores([runs])
    assert only(found).scores == {"Pong": (10.0,)}
    assert "pong1: unfinished, 70,000 of 100,000 steps" in found.left_out[0]
    assert only(read_scores([runs], unfinished=True)).scores == {"Pong": (10.0, 11.0)}


def test_runs_without_a_score_yet_are_left_out_whatever_was_asked(runs):
    corrupt(runs / "deep" / "pong1", finished=False, score=None)
    (runs / "deep" / "pong0" / "result.json").unlink()
    with pytest.raises(UsageError, match=r"(?s)nothing to report.*no result.json yet.*stopped before its evaluation"):
        read_scores([runs], unfinished=True)


def test_scores_of_many_runs_keep_their_games_apart(tmp_path):
    path = write_csv(tmp_path / "scores.csv", random_rows("A", {"Pong": 3, "Alien": 2}))
    assert {game: len(found) for game, found in only(read_scores([path])).scores.items()} == {"Alien": 2, "Pong": 3}
