"""A projection and a policy head of one's own: layer norm on the features, and a policy of two layers.

python examples/custom_heads.py [STEPS]
"""

import sys

from torch import nn

from sacbbf import SACBBF, register_policy_head, register_projection


def normed_projection(inputs, hidden):
    """Map latents (N, D) to features (N, hidden); a relu follows, and self-prediction compares what stands before."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.LayerNorm(hidden))


def deep_head(hidden, actions):
    """Map features (N, hidden) to logits (N, A)."""
    return nn.Sequential(nn.Linear(hidden, 64), nn.ReLU(), nn.Linear(64, actions))


register_projection("normed", normed_projection)
register_policy_head("deep", deep_head)

if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    agent = SACBBF("CartPole-v1", settings={"network.projection": "normed", "network.policy_head": "deep"})
    print(agent.learn(steps, progress_bar=True).evaluate(20))
