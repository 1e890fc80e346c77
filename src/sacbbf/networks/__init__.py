"""Networks: observation -> latent -> return distribution and policy."""

from sacbbf.networks.build import Network, build_network, lay_out
from sacbbf.networks.network import AgentNetwork
from sacbbf.networks.twin_network import TwinNetwork

__all__ = ["AgentNetwork", "Network", "TwinNetwork", "build_network", "lay_out"]
