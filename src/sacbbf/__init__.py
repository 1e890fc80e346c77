"""SAC-BBF: sample-efficient reinforcement learning for discrete actions."""

__version__ = "0.1.0"

from sacbbf.envs import EnvSettings, make_env

__all__ = ["EnvSettings", "__version__", "make_env"]
