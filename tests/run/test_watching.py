"""Episodes to look at: they are the evaluation's own, judged as the network judges, and drawn in one size."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from sacbbf import DER, SACDiscrete
from sacbbf.envs.make import make_env
from sacbbf.policy import NetworkPolicy
from sacbbf.run.evaluate import ROWS, Plan, evaluate
from sacbbf.run.policy_file import load_policy
from sacbbf.run.settings import from_toml
from sacbbf.run.watching import HEIGHT, PANEL, PAPER, Film, Judge, Moment, Painter, Wish, play, softmax

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def config(drawn_run):
    return from_toml(drawn_run.config)


@pytest.fixture(scope="module")
def network(drawn_run):
    return load_policy(drawn_run.policy, CPU)


@pytest.fixture(scope="module")
def judge(network, config):
    return Judge(network, config.settings.network.v_max, CPU)


def pictured(config):
    return make_env(config.env, render=True)


@pytest.mark.parametrize("greedy", [False, True])
def test_an_episode_is_the_evaluations_own(config, network, judge, greedy):
    plan = Plan(3, config.seed, config.stack, greedy=greedy)
    records = evaluate(NetworkPolicy(network, CPU, ROWS), lambda: make_env(config.env), plan)
    for number in (0, 2):
        *moments, last = play(judge, pictured(config), plan, number)
        assert (last.score, last.step) == (records[number].score, records[number].length)
        assert [moment.step for moment in moments] == list(range(last.step))
        assert moments[0].score == 0.0
        assert all(after.score >= before.score for before, after in pairwise([*moments, last]))


def test_moments_hold_policy_and_value_of_what_is_seen(config, network, judge):
    v_max, atoms = config.settings.network.v_max, config.settings.network.num_atoms
    moments = list(play(judge, pictured(config), Plan(1, config.seed, config.stack)))
    for moment in moments[:-1]:
        symbol = int(np.argmax(moment.screen[0, :, 0]))  # the light's place
        state = torch.eye(5)[symbol][None]
        with torch.inference_mode():
            latent = network.encode(state)
            weights = network.q_logits(network.q_features(latent))[0].double().softmax(-1).numpy()
            policy = network.policy_logits(network.policy_features(latent))[0].double().softmax(-1).numpy()
        values = weights @ np.linspace(-v_max, v_max, atoms) * network.unit
        assert moment.probabilities.sum() == pytest.approx(1.0)
        assert moment.probabilities == pytest.approx(policy, abs=1e-6)
        assert moment.value == pytest.approx(policy @ values, abs=1e-5)
    assert len({round(moment.value, 9) for moment in moments}) > 1
    assert network.unit != 1.0  # values are in learning rewards, which were scaled


def test_the_policy_is_computed_once_for_each_state(config, judge, monkeypatch):
    calls, logits = [], NetworkPolicy.logits

    def counted(self, states, masks=None):
        calls.append(len(states))
        return logits(self, states, masks)

    monkeypatch.setattr(NetworkPolicy, "logits", counted)
    *moments, _ = play(judge, pictured(config), Plan(1, config.seed, config.stack))
    assert calls == [1] * len(moments)


def test_an_agent_without_a_policy_is_sure_of_its_best_action():
    agent = DER("CartPole-v1")
    judge = Judge(agent.network, agent.config.settings.network.v_max, CPU)
    state = np.array([0.1, -0.2, 0.3, 0.4], np.float32)
    probabilities = softmax(judge.logits(state))
    assert sorted(probabilities) == [0.0, 1.0]
    assert probabilities.argmax() == judge.values(state).argmax()


def test_of_two_judgements_the_lower_counts():
    agent = SACDiscrete("CartPole-v1")
    state = np.array([0.1, -0.2, 0.3, 0.4], np.float32)
    with torch.inference_mode():
        both = agent.network.q_values(torch.from_numpy(state)[None])[:, 0].numpy()
    assert not np.allclose(both[0], both[1])
    assert Judge(agent.network, 1.0, CPU).values(state) == pytest.approx(both.min(0))


@pytest.mark.parametrize("shape", [(7, 5), (210, 160), (400, 600), (480, 1)])
def test_pictures_have_one_even_size(config, shape):
    painter = Painter(config, ("left", "right"))
    pictures = []
    for step in range(3):
        screen = np.full((*shape, 3), 200, np.uint8)
        moment = Moment(screen, np.array([0.25, 0.75]), 1, float(step), 2.0 * step, step)
        pictures.append(painter.draw(moment))
    (size,) = {picture.shape for picture in pictures}
    assert size[0] == HEIGHT and size[1] % 2 == 0 and size[2] == 3
    assert all(picture.dtype == np.uint8 and picture.flags.c_contiguous for picture in pictures)
    game, panel = pictures[0][:, :-PANEL], pictures[0][:, -PANEL:]
    assert (game == 200).all()
    assert 0.01 < (panel != PAPER).any(-1).mean() < 0.5  # words and bars, most of it empty
    assert (pictures[1] != pictures[2]).any()


def test_bars_are_as_long_as_the_actions_are_likely(config):
    painter = Painter(config, ("a", "b", "c"))
    moment = Moment(np.zeros((8, 8, 3), np.uint8), np.array([0.1, 0.6, 0.3]), 1, 0.0, 0.0, 0)
    panel = painter.draw(moment)[:, -PANEL:]
    filled = [(panel[160 + 24 * number + 10, 150 : PANEL - 60] != PAPER).any(-1).sum() for number in range(3)]
    assert filled == pytest.approx([15, 90, 45], abs=2)


def test_the_many_actions_of_a_game_fit(config):
    names = tuple(f"ACTION{number}" for number in range(18))
    moment = Moment(np.zeros((8, 8, 3), np.uint8), np.full(18, 1 / 18), 17, 0.0, 0.0, 0)
    rows = (Painter(config, names).draw(moment)[:, -PANEL:] != PAPER).any((1, 2))
    assert rows[440:475].any() and not rows[475:].any()


def test_a_film_is_cut_off_and_remembers_its_last_moment(drawn_run, config):
    seen = []
    film = Film(drawn_run, config, Wish(max_steps=4), seen.append)
    pictures = list(film.pictures())
    assert len(pictures) == len(seen) == 5
    assert film.ends[0] is seen[-1] and film.ends[0].step == 4


def test_films_of_other_episodes_and_seeds_are_other_films(drawn_run, config):
    def screens(wish):
        seen = []
        list(Film(drawn_run, config, wish, seen.append).pictures())
        return np.stack([moment.screen for moment in seen])

    first = screens(Wish())
    assert np.array_equal(first, screens(Wish()))
    assert not np.array_equal(first, screens(Wish(episode=1)))
    assert not np.array_equal(first, screens(Wish(seed=7)))
