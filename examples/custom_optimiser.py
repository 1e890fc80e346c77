"""An optimiser of one's own: a class of torch.optim's kind, or a function of the settings.

python examples/custom_optimiser.py [STEPS]
"""

import sys

import torch

from sacbbf import SACBBF, register_optimiser


def momentum(groups, settings):
    """Descend with momentum; `groups` are the parameters that weight decay is for, and the others."""
    return torch.optim.SGD(groups, lr=settings.learning_rate, momentum=settings.adam_beta1, nesterov=True)


register_optimiser("nadam", torch.optim.NAdam)  # gets the groups and optimiser.learning_rate
register_optimiser("momentum", momentum)

if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    for name, rate in (("nadam", 3e-4), ("momentum", 1e-2)):
        agent = SACBBF("CartPole-v1", settings={"optimiser.name": name, "optimiser.learning_rate": rate})
        print(agent.learn(steps, progress_bar=True).evaluate(20))
