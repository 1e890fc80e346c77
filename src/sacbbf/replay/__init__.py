"""Replay: the last steps of a run, and batches of windows drawn from them."""

from sacbbf.replay.buffer import Replay

__all__ = ["Replay"]
