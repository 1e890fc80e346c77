"""Which encoder was called for how many states."""

from __future__ import annotations

from torch import nn

from sacbbf.networks import AgentNetwork, agent_network


def encoder_calls(monkeypatch) -> list[tuple[nn.Module, int]]:
    """Return a list that each later call of an encoder, and each state it encodes, is noted in."""
    calls: list[tuple[nn.Module, int]] = []
    encode, encode_grids = AgentNetwork.encode, agent_network.encode_grids

    def noting(self, obs):
        calls.append((self.encoder, len(obs)))
        return encode(self, obs)

    def noting_grids(encoder, grids, learning):
        calls.append((encoder, len(grids)))
        return encode_grids(encoder, grids, learning)

    monkeypatch.setattr(AgentNetwork, "encode", noting)
    monkeypatch.setattr(agent_network, "encode_grids", noting_grids)
    return calls
