"""The unit that returns are counted in: one in which those seen so far fit the support, whatever the rewards' size."""

from __future__ import annotations

from typing import Any

import numpy as np

from sacbbf.agents.config import AgentConfig
from sacbbf.networks import Network
from sacbbf.replay import Replay


class ReturnScale:
    """What learning rewards are divided by: so much that the largest return seen is `loss.return_share` of v_max.

    The return at a step is here the discounted sum of the episode's rewards up to it, the latest counting whole. It is
    known at every step, and as large as what values have to tell, read backwards. The scale never shrinks. The networks
    carry it, so that whoever reads their values knows the unit.
    """

    def __init__(self, config: AgentConfig, networks: tuple[Network, ...]) -> None:
        self.follows = config.loss.returns == "scaled"
        self.room = config.loss.return_share * config.network.v_max  # what the largest return becomes
        self.discount = config.schedule.gamma_end
        self.networks = networks
        self.steps_seen = 0
        self.current = 0.0  # the return of the episode in progress
        self._known = 0.0  # the scale that returns seen want; 0: none was seen, or they are raw

    @property
    def scale(self) -> float:
        """What rewards are divided by."""
        return self._known or 1.0

    def follow(self, replay: Replay) -> None:
        """See the rewards that came to the replay since the last call."""
        if not self.follows:
            return
        ring, largest = replay.ring, 0.0
        slots = ring.slots(np.arange(max(self.steps_seen, replay.oldest), replay.steps_added))
        for reward, over in zip(ring.rewards[slots].tolist(), ring.ends_in(slots).over.tolist(), strict=True):
            self.current = self.discount * self.current + reward
            largest = max(largest, abs(self.current))
            self.current = 0.0 if over else self.current
        self.steps_seen = replay.steps_added
        if largest / self.room > self._known:
            self._store(largest / self.room)

    def take_over(self) -> None:
        """Take the scale that the networks came with; none where returns are raw."""
        self._store(float(self.networks[0].return_scale) if self.follows else 0.0)

    def _store(self, scale: float) -> None:
        self._known = float(np.float32(scale))  # as the networks store it
        for network in self.networks:
            network.return_scale.fill_(scale)

    def read(self) -> dict[str, Any]:
        """Return what a checkpoint keeps beside the networks."""
        return {"steps_seen": self.steps_seen, "current": self.current}

    def write(self, kept: dict[str, Any]) -> None:
        """Take up what a checkpoint kept, the networks included; ValueError if it is not that."""
        steps, current = kept["steps_seen"], kept["current"]
        if type(steps) is not int or steps < 0 or type(current) is not float:
            raise ValueError(f"a return of {current!r} after {steps!r} steps: cannot be")
        self.steps_seen, self.current = steps, current
        self.take_over()
