"""Presets: what each size is made of, and how schedules follow the budget."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sacbbf.agents.config import AgentConfig
from sacbbf.agents.presets import SHORTEST_WARMUP, SIZES, change, preset
from sacbbf.agents.rules import check_agent
from sacbbf.errors import UsageError
from sacbbf.learner.schedules import entropy_weight
from sacbbf.networks.encoders import make_encoder


def test_paper_size_is_the_paper_to_the_letter():
    assert preset("paper", "image", 100_000) == AgentConfig()
    assert SIZES["paper"].steps == 100_000


def test_laptop_keeps_every_part_of_the_agent():
    config = preset("laptop", "image", 20_000)
    encoder = make_encoder(config.network.encoder, (4, 84, 84), config.network.width_scale)
    widths = [weight.shape[0] for name, weight in encoder.named_parameters() if name.endswith("weight")]
    assert config.network.encoder == "centred-nature"
    assert len(widths) == 3 and all(width >= least for width, least in zip(widths, (16, 32, 32), strict=True))
    assert config.network.hidden_dim >= 256
    assert config.loss.spr_steps == 5 and config.loss.spr_weight > 0
    assert config.loss.augment and config.network.policy and config.replay.prioritised
    assert config.schedule.reset_every > 0


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["image", "grid", "vector"])
def test_every_preset_is_within_the_rules_and_augments_images_only(size, kind):
    config = preset(size, kind, SIZES[size].steps)
    check_agent(config)
    assert config.loss.augment == (kind == "image")
    assert (config.network.encoder == "mlp") == (kind == "vector")


@pytest.mark.parametrize("size", SIZES)
def test_counts_scale_with_the_budget(size):
    whole, fifth = preset(size, "image", 100_000).schedule, preset(size, "image", 20_000).schedule
    for name in ("warmup", "cycle", "reset_every", "beta_final_updates"):
        assert getattr(fifth, name) == pytest.approx(getattr(whole, name) / 5), name
    unscaled = dict.fromkeys(("warmup", "cycle", "reset_every", "beta_final_updates"), 0)
    assert replace(whole, **unscaled) == replace(fifth, **unscaled)


def test_paper_counts_at_a_fifth_of_the_budget():
    schedule = preset("paper", "image", 20_000).schedule
    assert (schedule.warmup, schedule.cycle) == (400, 2_000)
    assert (schedule.reset_every, schedule.beta_final_updates) == (8_000, 8_000)


def test_the_shortest_run_still_has_windows_to_sample_from():
    assert preset("paper", "image", 100).schedule.warmup == SHORTEST_WARMUP


@pytest.mark.parametrize(("replay_ratio", "step"), [(2, 80_000), (4, 90_000), (8, 95_000)])
def test_entropy_bonus_ends_a_fixed_number_of_updates_before_the_end(replay_ratio, step):
    schedule = preset("paper", "image", 100_000, replay_ratio).schedule
    assert schedule.replay_ratio == replay_ratio
    assert schedule.beta_final_updates == 40_000
    assert entropy_weight(schedule, step - 1, 100_000) > 0
    assert entropy_weight(schedule, step, 100_000) == pytest.approx(0, abs=1e-15)


def test_unknown_size_is_refused():
    with pytest.raises(UsageError, match="size = 'huge': must be one of paper, laptop, tiny"):
        preset("huge", "image", 100)


def test_a_change_touches_nothing_else():
    changed = change(AgentConfig(), {"network": {"hidden_dim": 7}, "schedule": {"warmup": 9}})
    assert changed.network.hidden_dim == 7 and changed.schedule.warmup == 9
    assert change(changed, {"network": {"hidden_dim": 2048}, "schedule": {"warmup": 2_000}}) == AgentConfig()
