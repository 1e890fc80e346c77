"""Which encoder was called for how many states."""

from __future__ import annotations

from torch import nn

from sacbbf.networks import AgentNetwork


def encoder_calls(monkeypatch) -> list[tuple[nn.Module, int]]:
    """Return a list that each later call of an encoder, and each state it encodes, is noted in."""
    calls: list[tuple[nn.Module, int]] = []
    encode = AgentNetwork.encode

    def noting(self, obs):
        calls.append((self.encoder, len(obs)))
        return encode(self, obs)

    monkeypatch.setattr(AgentNetwork, "encode", noting)
    return calls
