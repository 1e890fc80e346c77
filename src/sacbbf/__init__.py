"""SAC-BBF: sample-efficient reinforcement learning for discrete actions."""

__version__ = "0.1.0"
