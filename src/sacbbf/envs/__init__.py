"""Environments: one frame and one reward at a time, each episode a function of its seed and actions."""

from sacbbf.envs.base import EnvError, Environment, EnvSpec, MissingExtra, UnknownEnvironment
from sacbbf.envs.make import EnvSettings, known_environments, make_env
from sacbbf.envs.stack import FrameStack, state_shape

__all__ = [
    "EnvError",
    "EnvSettings",
    "EnvSpec",
    "Environment",
    "FrameStack",
    "MissingExtra",
    "UnknownEnvironment",
    "known_environments",
    "make_env",
    "state_shape",
]
