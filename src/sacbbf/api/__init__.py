"""Agents as objects: learn, predict, evaluate, save, load.

    agent = SACBBF("MinAtar/SpaceInvaders-v1", seed=0)
    agent.learn(20_000, progress_bar=True)
    print(agent.evaluate(100))
    agent.save("my-agent")

`train` does the same with a run directory, checkpoints and records, as `sacbbf train` does on the command line; what it
leaves can be loaded here, and what is saved here can be given to `sacbbf evaluate`.
"""

from sacbbf.api.agent import Agent
from sacbbf.api.agents import AGENT_CLASSES, BBF, DER, SACBBF, SPR, SRSPR, DrQEps, OTRainbow, SACDiscrete
from sacbbf.api.callbacks import Callback, CheckpointCallback, EvalCallback
from sacbbf.api.evaluation import Evaluation
from sacbbf.api.runs import train

__all__ = [
    "AGENT_CLASSES",
    "BBF",
    "DER",
    "SACBBF",
    "SPR",
    "SRSPR",
    "Agent",
    "Callback",
    "CheckpointCallback",
    "DrQEps",
    "EvalCallback",
    "Evaluation",
    "OTRainbow",
    "SACDiscrete",
    "train",
]
