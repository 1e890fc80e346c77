"""SAC-BBF: sample-efficient reinforcement learning for discrete actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sacbbf.envs import EnvSettings, make_env

__version__ = "0.1.0"
__all__ = ["EnvSettings", "__version__", "make_env"]


def __getattr__(name: str) -> Any:
    """Load public names when they are first asked for: facts such as `sacbbf.games` need no third party."""
    if name in ("EnvSettings", "make_env"):
        from sacbbf import envs

        return getattr(envs, name)
    raise AttributeError(f"module 'sacbbf' has no attribute {name!r}")
