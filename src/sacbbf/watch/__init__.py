"""Runs and sweeps as they train, on a small local page: what is seen (sight), and who serves it (server)."""
