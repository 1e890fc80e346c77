"""A training in progress as plain arrays and numbers, and back; the environment is brought back by playing again.

An episode begins with a seed of its own, so the one in progress is reset with it and its actions are repeated. If the
environment then shows something else, it is not deterministic: the episode counts as cut off, and a new one begins.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sacbbf.learner.state import learner_bytes, read_learner, set_generator, write_learner
from sacbbf.replay.state import check_kinds, read_counters, write_counters
from sacbbf.run.loop import Training
from sacbbf.types import Arrays, EpisodeRecord

SLACK = 1 << 20  # bytes for names, generators and the like


def read_training(training: Training) -> tuple[dict[str, Arrays], dict[str, Any]]:
    """Arrays by part, and everything that is a number. Replay rows are kept elsewhere: they never change."""
    learner, learner_counters = read_learner(training.learner)
    progress, replay_counters = read_counters(training.replay)
    progress |= {
        "actions": np.array(training.actions, np.int32),
        "frame": training.frame,
        "state": training.state,
        "noise": training.noise.generator.get_state().numpy(),
    }
    if training.mask is not None:
        progress["mask"] = training.mask
    numbers = {
        "step": training.step,
        "episodes": training.episodes,
        "score": training.score,
        "learner": learner_counters,
        "replay": replay_counters,
        "generators": {name: value.bit_generator.state for name, value in _generators(training).items()},
    }
    return {"learner": learner, "progress": progress}, numbers


def write_training(
    training: Training, parts: dict[str, Arrays], numbers: dict[str, Any], *, repeat: bool = True
) -> tuple[EpisodeRecord | None, int]:
    """Bring a new training to where another one was; replay rows must have been put back before.

    The episode in progress is played again; it is cut off where that fails, or unless `repeat`.
    Returns the episode that had to be cut off, if any, and the first step whose row in the replay is not as stored.
    Raises ValueError, KeyError or TypeError if the state is not of this training's kind.
    """
    progress = dict(parts["progress"])
    actions, frame, state, noise = (progress.pop(name) for name in ("actions", "frame", "state", "noise"))
    kinds = {
        "frame": (training.frame.shape, training.frame.dtype),
        "state": (training.state.shape, training.state.dtype),
    }
    seen = {"frame": frame, "state": state}
    if training.mask is not None:
        seen["mask"] = progress.pop("mask")
        kinds["mask"] = (training.mask.shape, training.mask.dtype)
    check_kinds(seen, kinds)
    if actions.dtype != np.int32 or actions.ndim != 1 or (actions.size and _beyond(actions, training)):
        raise ValueError("the actions of the episode in progress are not actions of this environment")
    step, episodes, score = numbers["step"], numbers["episodes"], numbers["score"]
    if type(step) is not int or type(episodes) is not int or not 0 <= episodes <= step or type(score) is not float:
        raise ValueError(f"step {step!r}, episodes {episodes!r} and score {score!r} are not those of a run")
    set_generator(training.noise.generator, noise, "acting")
    write_learner(training.learner, parts["learner"], numbers["learner"])
    schedule = training.config.settings.schedule
    if training.learner.updates != max(0, step - schedule.warmup) * schedule.replay_ratio:
        raise ValueError(f"the learner cannot have had {training.learner.updates} updates after {step} steps")
    write_counters(training.replay, progress, numbers["replay"])
    for name, generator in _generators(training).items():
        generator.bit_generator.state = numbers["generators"][name]
    training.step, training.episodes = step, episodes
    if training.replay.steps_added != training.step:
        raise ValueError(f"the replay has {training.replay.steps_added} steps, the run {training.step}")
    taken = [int(action) for action in actions]
    if repeat and _repeat(training, taken, score, seen):
        return None, training.step
    training.actions, training.score = taken, score
    cut_off = training.cut_off()
    return cut_off, training.step if cut_off is None else training.step - 1


def part_limits(training: Training) -> dict[str, int]:
    """Bytes that each part has at most."""
    episode = 4 * 10_000_000  # its actions: as many as an episode can have, generously
    replay = 0 if training.replay.tree is None else training.replay.tree.nbytes
    frames = training.frame.nbytes + training.state.nbytes + training.replay.ring.mask_size
    return {"learner": learner_bytes(training.learner) + SLACK, "progress": replay + episode + frames + SLACK}


def _repeat(training: Training, actions: list[int], score: float, seen: Arrays) -> bool:
    """Play the episode in progress again; whether everything came out as it was."""
    training.begin_episode()
    for action in actions:
        step = training.env.step(action)
        if step.over:
            return False
        training.take_in(action, step)
    same = all(np.array_equal(getattr(training, name), value) for name, value in seen.items())
    return bool(same and training.score == score)


def _beyond(actions: Any, training: Training) -> bool:
    return bool(actions.min() < 0 or actions.max() >= training.env.spec.num_actions)


def _generators(training: Training) -> dict[str, np.random.Generator]:
    return {"replay": training.replay_generator, "actions": training.action_generator}
