"""Environments: Atari, MinAtar and Gymnasium as single frames and rewards. No torch."""
