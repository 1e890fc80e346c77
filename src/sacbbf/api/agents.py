"""The published agents as classes; what sets them apart is their preset."""

from __future__ import annotations

from sacbbf.api.agent import Agent


class SACBBF(Agent):
    """SAC-BBF: BBF with an explicit policy, trained by a discrete soft actor-critic."""

    name = "sac-bbf"


class BBF(Agent):
    """BBF: bigger, better, faster."""

    name = "bbf"


class SRSPR(Agent):
    """SR-SPR: SPR at a high replay ratio with resets."""

    name = "sr-spr"


class SPR(Agent):
    """SPR: self-predictive representations."""

    name = "spr"


class DrQEps(Agent):
    """DrQ(eps): augmented images and epsilon-greedy acting."""

    name = "drq-eps"


class OTRainbow(Agent):
    """OTRainbow: Rainbow, overtrained."""

    name = "otrainbow"


class DER(Agent):
    """Data-efficient Rainbow."""

    name = "der"


class SACDiscrete(Agent):
    """SAC-Discrete: twin Q, soft targets, learned temperature."""

    name = "sac-discrete"


AGENT_CLASSES: dict[str, type[Agent]] = {
    kind.name: kind for kind in (SACBBF, BBF, SRSPR, SPR, DrQEps, OTRainbow, DER, SACDiscrete)
}
