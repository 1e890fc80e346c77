"""A loss of one's own beside TD, SPR and policy loss: will the episode end within the n steps of the return?

python examples/custom_loss.py [STEPS]
"""

import math
import sys

from torch import nn
from torch.nn import functional as F

from sacbbf import SACBBF, register_auxiliary_loss


class EndPrediction(nn.Module):
    """A linear layer on the latent of s_t, trained with the agent, kept in its checkpoints, reset with its heads."""

    def __init__(self, network):
        super().__init__()
        self.layer = nn.Linear(math.prod(network.encoder.out_shape), 1)

    def forward(self, terms, batch):
        """Return one value per sample, (B,); `terms` holds all that the update computed, with gradients."""
        logits = self.layer(terms.latent).squeeze(1)  # (B,)
        return F.binary_cross_entropy_with_logits(logits, batch.done.float(), reduction="none")


register_auxiliary_loss("end-prediction", EndPrediction)

if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    agent = SACBBF("CartPole-v1", settings={"loss.auxiliary": "end-prediction", "loss.auxiliary_weight": 0.1})
    agent.learn(steps, progress_bar=True)
    print(f"loss of the ends: {agent.metrics.get('loss/auxiliary')}")
    print(agent.evaluate(20))
