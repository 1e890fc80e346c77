"""Networks: observation -> latent -> return distribution and policy."""

from sacbbf.networks.agent_network import AgentNetwork, build_network, compile_network, initialise

__all__ = ["AgentNetwork", "build_network", "compile_network", "initialise"]
