"""Replay: the last steps of a run, and batches of windows drawn from them."""

from sacbbf.replay.buffer import NoWindow, Replay

__all__ = ["NoWindow", "Replay"]
