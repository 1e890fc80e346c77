"""One step of training after another: what others may do in between."""

from __future__ import annotations

import numpy as np

from sacbbf.run.loop import Training
from toys import toy_config


def test_an_episode_can_be_cut_off_for_others_to_use_the_environment():
    training = Training(toy_config("Identity", 200))
    for _ in range(13):
        training.advance(False)
    assert training.episodes == 1
    record = training.cut_off()
    assert record is not None
    assert (record.number, record.length, record.truncated) == (1, 3, True)
    assert training.replay.ring.truncated[np.array([9, 12])].tolist() == [True, True]
    assert training.cut_off() is None  # nothing is cut off twice
    training.env.reset(5)
    training.begin_episode()
    assert training.episodes == 2
    episodes = [training.advance(False).episode for _ in range(10)]
    assert episodes[:9] == [None] * 9
    assert episodes[9] is not None and episodes[9].number == 2
    training.close()
