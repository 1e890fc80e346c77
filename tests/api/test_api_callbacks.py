"""What may be done while an agent learns, and what it tells of its learning."""

from __future__ import annotations

import pytest
from small_api import SETTINGS, STEPS, Spy, kept, make
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sacbbf import Agent, Callback, CheckpointCallback, EvalCallback, UsageError
from toys import Identity


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """What an agent has learned that nobody listened to."""
    return kept(make().learn(STEPS), tmp_path_factory.mktemp("agents") / "learned")


class Notes(Callback):
    """Writes down what it is told."""

    def __init__(self):
        self.steps, self.episodes, self.evaluations, self.metrics = [], [], [], {}

    def on_step(self, agent):
        self.steps.append(agent.steps)
        self.metrics[agent.steps] = dict(agent.metrics)

    def on_episode(self, agent, episode):
        self.episodes.append((agent.steps, episode.length))

    def on_evaluation(self, agent, evaluation):
        self.evaluations.append((agent.steps, len(evaluation.scores)))


def test_callbacks_hear_of_everything_and_evaluations_leave_learning_untouched(content, tmp_path):
    agent, notes = make(), Notes()
    agent.learn(STEPS, callback=notes, eval_every=40, eval_episodes=2)
    assert notes.steps == list(range(1, STEPS + 1))
    assert notes.episodes == [(step, 10) for step in range(10, STEPS + 1, 10)]
    assert notes.evaluations == [(step, 2) for step in range(40, STEPS + 1, 40)]
    assert notes.metrics[60] == {} and "loss/total" in notes.metrics[80]
    assert kept(agent, tmp_path / "evaluated") == content


@pytest.mark.parametrize(("method", "last"), [("on_step", 1), ("on_episode", 10), ("on_evaluation", 7)])
def test_every_callback_can_end_the_learning(method, last):
    stopping = type("Stopping", (Callback,), {method: lambda *args: False})()
    assert make().learn(40, callback=stopping, eval_every=7, eval_episodes=1).steps == last


def test_several_callbacks_are_all_told_and_any_ends_the_learning():
    notes, more, calls = Notes(), Notes(), []
    agent = make().learn(40, callback=[notes, lambda agent: calls.append(1), [more, lambda agent: agent.steps < 7]])
    assert agent.steps == 7 == len(calls)
    assert notes.steps == more.steps == list(range(1, 8))
    assert make().learn(3, [notes]).steps == notes.steps[-1] == 3


@pytest.mark.parametrize("wrong", [3, [3], "print"])
def test_what_is_no_callback_is_refused_before_anything_is_done(wrong):
    agent = make()
    with pytest.raises(UsageError, match=r"callback = .* must be a sacbbf\.Callback, a function"):
        agent.learn(10, callback=wrong)
    assert agent.steps == 0


def test_the_best_agent_so_far_is_kept(tmp_path, monkeypatch):
    agent, every = make(), EvalCallback(n_eval_episodes=3, eval_freq=10, best_model_save_path=tmp_path / "best")
    means = iter([2.0, 5.0, 5.0, 1.0])
    networks, evaluate = [], Agent.evaluate

    def evaluated(self, *args, **words):
        found = evaluate(self, *args, **words)
        networks.append(kept(self, tmp_path / f"at-{self.steps}"))
        return type(found)(next(means), 0.0, (0.0, 0.0), found.scores)

    monkeypatch.setattr(Agent, "evaluate", evaluated)
    agent.learn(100, callback=lambda agent: agent.steps < 78)
    agent.learn(22, callback=every)
    assert [steps for steps, _ in every.evaluations] == [80, 90, 100]
    assert every.best_mean_reward == 5.0 and len(every.evaluations[0][1].scores) == 3
    assert len(set(networks)) == 3
    assert (tmp_path / "best/best_model/policy.safetensors").read_bytes() == networks[1]
    assert Agent.load(tmp_path / "best/best_model").config == agent.config


def test_an_evaluation_callback_plays_in_an_environment_of_its_own():
    spy = Spy(Identity())
    every = EvalCallback(spy, n_eval_episodes=2, eval_freq=15, deterministic=True)
    agent = make().learn(30, callback=every)
    assert spy.lengths[-4:] == [10] * 4 and spy.steps == 40
    assert every.evaluations[-1][1].scores == agent.evaluate(2, greedy=True).scores


def test_checkpoints_can_be_gone_on_from(content, tmp_path):
    saving = CheckpointCallback(60, tmp_path / "logs", name_prefix="small", save_replay_buffer=True)
    make().learn(STEPS, callback=saving)
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["small_120_steps", "small_60_steps"]
    for steps in (60, 120):
        agent = Agent.load(tmp_path / f"logs/small_{steps}_steps")
        assert agent.steps == steps
        assert kept(agent.learn(), tmp_path / f"from-{steps}") == content


@pytest.mark.parametrize(
    ("kind", "words", "message"),
    [
        (EvalCallback, {"eval_freq": 0}, "eval_freq = 0: must be a whole number of at least 1"),
        (EvalCallback, {"n_eval_episodes": 0}, "n_eval_episodes = 0"),
        (CheckpointCallback, {"save_freq": 2.5, "save_path": "x"}, r"save_freq = 2\.5"),
    ],
)
def test_bad_numbers_are_refused(kind, words, message):
    with pytest.raises(UsageError, match=message):
        kind(**words)


# --- what is told ---


def read_events(folder):
    """What TensorBoard shows of a folder."""
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_tensorboard_is_told_of_all_calls_in_one_place(tmp_path):
    agent = make(tensorboard_log=tmp_path / "boards/of-all")
    agent.learn(80, eval_every=40, eval_episodes=2, callback=lambda agent: agent.log(mine=2.0 * agent.steps))
    agent.learn(20)
    agent.learn(20, reset_num_timesteps=True, tb_log_name="another")
    boards = tmp_path / "boards/of-all"
    assert sorted(path.name for path in boards.iterdir()) == ["another_1", "sac-bbf_1"]
    found = read_events(boards / "sac-bbf_1")
    assert [step for step, _ in found["train/score"]] == list(range(10, 101, 10))
    assert [step for step, _ in found["loss/total"]] == [80, 100]
    assert [step for step, _ in found["evaluation/mean"]] == [40, 80]
    assert found["mine"][4] == (5, 10.0)
    assert [step for step, _ in read_events(boards / "another_1")["train/score"]] == [110, 120]
    agent.learn(1)
    agent.learn(1, tb_log_name="third")
    assert sorted(path.name for path in boards.iterdir()) == ["another_1", "sac-bbf_1", "third_1"]
    make(tensorboard_log=boards).learn(1)
    assert (boards / "sac-bbf_2").is_dir()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"tb_log_name": "first"}, "tb_log_name = 'first': goes with tensorboard_log"),
        ({"eval_episodes": 3}, "eval_episodes = 3: goes with eval_every"),
    ],
)
def test_what_could_not_act_is_refused(words, message):
    agent = make()
    with pytest.raises(UsageError, match=message):
        agent.learn(3, **words)
    assert agent.steps == 0


def test_words_are_said_as_wanted(capsys):
    make().learn(80, eval_every=40, eval_episodes=2)
    assert capsys.readouterr().out == ""
    make(verbose=1).learn(80, eval_every=40, eval_episodes=2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("SACBBF('toys/Identity-v0', size='tiny', seed=3, device='cpu': 0 of ")
    assert lines[0].endswith("evaluation plays on further environments made as toys/Identity-v0)")
    assert [line[:14] for line in lines[1:]] == [
        "step 20 of 80,", "step 40 of 80,", "step 40: evalu", "step 60 of 80,", "step 80 of 80,", "step 80: evalu",
    ]  # fmt: skip
    assert "(last 8 episodes), loss " in lines[5]
    make(verbose=2).learn(20)
    assert "step 10: episode 0 scored " in capsys.readouterr().out
    with pytest.raises(UsageError, match="verbose = 3: must be 0, 1 or 2"):
        make(settings=SETTINGS, verbose=3)
