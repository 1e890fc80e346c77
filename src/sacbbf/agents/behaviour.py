"""Where the authors' release departs from their paper, one field for each departure. Facts, no logic.

`paper` does what the paper says and is the default. `released` reproduces the formulas behind the
published scores, slips included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BehaviourName = Literal["paper", "released"]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One column of the table "where the released code departs from the paper"."""

    name: BehaviourName
    batches_per_group: int  # batches drawn from replay at once; importance weights share their maximum
    priority_per_sample: bool  # else each batch's mean TD loss goes to one of the group's first indices
    bootstrap_lag: int  # the return bootstraps at s_{t+n-lag}; a terminal in the last `lag` steps is unseen
    exact_spr_mask: bool  # else row 0 is never masked, s_{t+j} is masked by an end at t+j, truncations never mask
    stack_per_state: bool  # each state's stack stops at its own episode's start; else at the start seen from t
    window_n: int | None  # n that windows are checked with; None: the n in use
    skip_first_steps: bool  # the first (stack - 1) steps of a run are never sampled
    crop_extra: int  # crop offsets are 0 .. 2 * pad - 1 + crop_extra
    reset_drift: int  # reset number i (from 1) falls `reset_drift * (i + 1)` steps late


PAPER = Behaviour(
    name="paper",
    batches_per_group=1,
    priority_per_sample=True,
    bootstrap_lag=0,
    exact_spr_mask=True,
    stack_per_state=True,
    window_n=None,
    skip_first_steps=False,
    crop_extra=1,
    reset_drift=0,
)

RELEASED = Behaviour(
    name="released",
    batches_per_group=2,
    priority_per_sample=False,
    bootstrap_lag=1,
    exact_spr_mask=False,
    stack_per_state=False,
    window_n=10,
    skip_first_steps=True,
    crop_extra=0,
    reset_drift=1,
)

BEHAVIOURS: dict[str, Behaviour] = {"paper": PAPER, "released": RELEASED}
