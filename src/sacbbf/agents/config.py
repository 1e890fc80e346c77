"""Every setting of an agent: value, unit, source and range, one frozen dataclass per part. No logic but to list them.

Defaults are SAC-BBF at paper size for a run of 100,000 steps. Sources: "paper" is *Generalizing soft
actor-critic algorithms to discrete action spaces*; "release" is its authors' code and configuration.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated, Any, Literal

from sacbbf.agents.behaviour import BehaviourName
from sacbbf.agents.ranges import Between

REFERENCE_STEPS = 100_000  # the budget that the published schedules are for

Kernels = Literal["auto", "off"]


@dataclass(frozen=True)
class NetworkConfig:
    """The shape of the networks."""

    encoder: str = "impala"
    """For images the Impala or the Nature CNN, or the latter of mean-centred pictures (centred-nature); a small CNN for
    grids, an MLP for vectors (paper: impala)."""
    width_scale: Annotated[float, Between(0.01, 64)] = 4.0
    """Multiplies the encoder's channels (paper: 4)."""
    hidden_dim: Annotated[int, Between(1, 65_536)] = 2048
    """Units of each projection (release: 2048)."""
    num_atoms: Annotated[int, Between(1, 1_001)] = 51
    """Atoms of the return distribution; 1 means a scalar Q (C51: 51)."""
    v_max: Annotated[float, Between(1e-3, 1e9)] = 10.0
    """The atoms span [-v_max, v_max], in units of learning rewards (C51: 10)."""
    dueling: bool = True
    """Split Q into a value and an advantage stream."""
    renormalize: bool = True
    """Rescale each latent to [0, 1] (SPR)."""
    policy: bool = True
    """Have a policy branch (SAC-BBF); without it the agent acts on Q (BBF)."""
    projection: str = "linear"
    """What maps a latent to each branch's features; others are registered (paper: linear)."""
    policy_head: str = "linear"
    """What maps the policy branch's features to logits; others are registered (paper: linear)."""
    noisy: bool = False
    """Learned Gaussian noise in the layers of the Q branch, to explore with (Rainbow)."""
    twin_q: bool = False
    """Two Q networks and a policy network, each with an encoder of its own (SAC-Discrete)."""


@dataclass(frozen=True)
class LossConfig:
    """What an update minimises."""

    policy_gradient: Literal["sampled", "expected"] = "sampled"
    """Policy gradient from one sampled action (paper, Eq. 10), or its exact expectation over actions."""
    variance_reduction: bool = True
    """Subtract the policy's mean Q as a baseline (paper, Eq. 10); off is the paper's ablation."""
    backup: Literal["sampled", "expected", "greedy"] = "sampled"
    """The action of the bootstrap state: drawn from the policy (paper), averaged over it, or argmax Q (BBF)."""
    double: bool = True
    """With the greedy backup: the online network chooses the action, the target network rates it."""
    spr_weight: Annotated[float, Between(0, 1e6)] = 5.0
    """Weight of the self-predictive loss; 0 turns it off (release: 5)."""
    spr_steps: Annotated[int, Between(0, 50)] = 5
    """Steps that the transition model is rolled out, k (release: 5)."""
    returns: Literal["raw", "scaled"] = "raw"
    """Learning rewards as they are (paper: Atari's, clipped), or divided by a running scale, so that the largest
    discounted return seen so far takes return_share of v_max."""
    return_share: Annotated[float, Between(0.01, 1)] = 0.5
    """With scaled returns: the part of the support's half that the largest one takes; the rest is room to improve."""
    target_entropy: Annotated[float, Between(0, 1)] = 0.98
    """With twin_q: the temperature is learned so that the policy's entropy is this share of log A (SAC-Discrete)."""
    auxiliary: str = "none"
    """An auxiliary loss that was registered under this name, or none."""
    auxiliary_weight: Annotated[float, Between(0, 1e6)] = 1.0
    """Weight of the auxiliary loss."""
    augment: bool = True
    """Random shift by up to 4 pixels and random intensity; for images, not for grids or vectors."""


@dataclass(frozen=True)
class OptimiserConfig:
    """The optimiser and the target network's moving average."""

    name: str = "adamw"
    """AdamW, or an optimiser that was registered under this name (release: AdamW)."""
    learning_rate: Annotated[float, Between(0, 1)] = 1e-4
    """Step size (release: 1e-4)."""
    adam_beta1: Annotated[float, Between(0, 0.999_999_9)] = 0.9
    """Decay of the first moment (release: 0.9)."""
    adam_beta2: Annotated[float, Between(0, 0.999_999_9)] = 0.999
    """Decay of the second moment (release: 0.999)."""
    adam_eps: Annotated[float, Between(1e-16, 1)] = 1.5e-4
    """Adam's epsilon (release: 1.5e-4)."""
    weight_decay: Annotated[float, Between(0, 1e3)] = 0.1
    """Decoupled decay of tensors with more than one dimension (BBF: 0.1)."""
    tau: Annotated[float, Between(0, 1)] = 0.005
    """Share of the online network that enters the target network when it moves; 1 copies it (BBF: 0.005)."""
    target_every: Annotated[int, Between(1)] = 1
    """Updates between moves of the target network (BBF: 1)."""


@dataclass(frozen=True)
class ScheduleConfig:
    """What changes during a run. Counts of updates and steps are for the run's own budget."""

    replay_ratio: Annotated[int, Between(1, 1_024)] = 2
    """Updates per environment step (paper: 2)."""
    warmup: Annotated[int, Between(0)] = 2_000
    """Steps of uniformly random actions before learning starts (release: 2,000)."""
    n_start: Annotated[int, Between(1, 100)] = 10
    """n-step return right after a reset (BBF: 10)."""
    n_end: Annotated[int, Between(1, 100)] = 3
    """n-step return once the cycle is over (BBF: 3)."""
    gamma_start: Annotated[float, Between(1e-6, 0.999_999)] = 0.97
    """Discount right after a reset (BBF: 0.97)."""
    gamma_end: Annotated[float, Between(1e-6, 0.999_999)] = 0.997
    """Discount once the cycle is over (BBF: 0.997)."""
    cycle: Annotated[int, Between(0)] = 10_000
    """Updates over which n and gamma move from start to end (BBF: 10,000)."""
    temperature: Literal["annealed", "target"] = "annealed"
    """Beta, the weight of the entropy bonus: annealed from beta_start to beta_end (paper), or learned, so that the
    policy's mean entropy follows entropy_start to entropy_end whatever the scale of Q."""
    beta_start: Annotated[float, Between(0, 1e6)] = 0.01
    """Weight of the entropy bonus at step 0; where beta is learned, what it starts from (paper: 0.01)."""
    beta_end: Annotated[float, Between(0, 1e6)] = 0.0
    """Weight of the entropy bonus at the end of the annealing (paper: 0)."""
    beta_final_updates: Annotated[int, Between(0)] = 40_000
    """Updates at the end of the run for which beta stays at its end value (paper: F = 40,000)."""
    entropy_start: Annotated[float, Between(0, 1)] = 0.3
    """With a learned beta: the policy's mean entropy wanted at step 0, as a share of log A."""
    entropy_end: Annotated[float, Between(0, 1)] = 0.02
    """With a learned beta: the policy's mean entropy wanted at the end of the run, as a share of log A."""
    entropy_rate: Annotated[float, Between(0, 1)] = 0.02
    """With a learned beta: what log beta moves by in an update, times what is lacking of the share wanted."""
    reset_every: Annotated[int, Between(0)] = 40_000
    """Updates between resets; 0 turns them off (BBF: 40,000)."""
    shrink: Annotated[float, Between(0, 1)] = 0.5
    """Share of the old encoder and transition model that survives a reset (BBF: 0.5)."""


@dataclass(frozen=True)
class ActingConfig:
    """How actions are taken, in training and in evaluation."""

    network: Literal["target", "online"] = "target"
    """The network that acts and that is evaluated (release: target)."""
    epsilon_start: Annotated[float, Between(0, 1)] = 0.0
    """Share of random actions at the end of the warm-up; the agents without a policy explore with it (BBF: 1)."""
    epsilon_end: Annotated[float, Between(0, 1)] = 0.0
    """Share of random actions once the decay is over (BBF: 0)."""
    epsilon_decay: Annotated[int, Between(0)] = 0
    """Steps after the warm-up over which the share falls, linearly (BBF: 2,000)."""
    epsilon_eval: Annotated[float, Between(0, 1)] = 0.0
    """Share of random actions in evaluation (BBF: 0.001)."""


@dataclass(frozen=True)
class ReplayConfig:
    """The replay buffer and how it is sampled."""

    capacity: Annotated[int, Between(64, 1e9)] = 200_000
    """Steps kept; the oldest are overwritten (release: 200,000)."""
    batch_size: Annotated[int, Between(1, 65_536)] = 32
    """Windows per update (release: 32)."""
    prioritised: bool = True
    """Sample in proportion to the priority sqrt(TD loss); off: uniformly."""


@dataclass(frozen=True)
class ComputeConfig:
    """How an update is computed; the defaults give the same numbers everywhere but for rounding."""

    precision: Literal["auto", "float32", "tf32", "bf16"] = "auto"
    """Arithmetic of the networks; tf32 and bf16 are for CUDA only. auto: tf32 on CUDA, where JAX ran the release in it,
    and float32 elsewhere."""
    kernels: Kernels = "auto"
    """Replace some layers' plain PyTorch by faster functions where they apply; off: never."""
    compile: bool = False
    """Compile an update's passes and losses with torch.compile: faster once it runs, slow to start, other last bits.
    Needs a C++ compiler, on CUDA Triton."""
    frames: Literal["auto", "host", "device"] = "auto"
    """Where the replay's frames lie (Atari: 706 MB per 100,000 steps). auto: in the device's memory if they
    take at most half of what is free there, else in the host's."""
    share_bootstrap: bool = False
    """Where n <= k, take s_{t+n} from the states that SPR encodes anyway: a sixth less for the target network, but
    the bootstrap and the prediction target then share their augmentation. Without augmentation it is always done."""


@dataclass(frozen=True)
class AgentConfig:
    """An agent: one rung of the ladder at one size."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    acting: ActingConfig = field(default_factory=ActingConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    compute: ComputeConfig = field(default_factory=ComputeConfig)
    behaviour: BehaviourName = "paper"
    """Follow the paper, or the formulas of the authors' release where the two differ."""


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """Return the settings of a configuration, a dataclass of dataclasses, by dotted name."""
    flat: dict[str, Any] = {}
    for entry in fields(config):
        value = getattr(config, entry.name)
        name = f"{prefix}{entry.name}"
        flat.update(flatten(value, f"{name}.") if is_dataclass(value) else {name: value})
    return flat
