"""Schedules against the reference values, the paper's numbers and exact arithmetic."""

import json
from dataclasses import replace
from importlib import resources

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sacbbf.agents.behaviour import PAPER, RELEASED
from sacbbf.agents.config import REFERENCE_STEPS, ActingConfig, AgentConfig, OptimiserConfig, ScheduleConfig
from sacbbf.agents.presets import for_budget
from sacbbf.learner.schedules import discount, entropy_weight, epsilon, n_step, reset_steps

PUBLISHED = ScheduleConfig()
REFERENCE = json.loads(resources.files("sacbbf").joinpath("data/reference/schedules.json").read_text())
ratios = st.integers(1, 16)


def scaled_to(schedule: ScheduleConfig, steps: int) -> ScheduleConfig:
    return for_budget(AgentConfig(schedule=schedule), steps).schedule


def check(test):
    """Run a property on a fixed set of examples, without a time limit per example."""
    return settings(deadline=None, derandomize=True, max_examples=100)(test)


# --- n and gamma --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("update", "n"), list(zip(REFERENCE["step"], REFERENCE["n"], strict=True)))
def test_n_matches_the_reference(update, n):
    assert n_step(PUBLISHED, update) == n


@pytest.mark.parametrize(("update", "gamma"), list(zip(REFERENCE["step"], REFERENCE["gamma"], strict=True)))
def test_gamma_matches_the_reference(update, gamma):
    assert discount(PUBLISHED, update) == pytest.approx(gamma, rel=1e-9)


def test_n_falls_and_gamma_rises_through_the_cycle():
    updates = range(0, 12_000, 50)
    ns, gammas = [n_step(PUBLISHED, u) for u in updates], [discount(PUBLISHED, u) for u in updates]
    assert ns == sorted(ns, reverse=True)
    assert set(ns) == set(range(3, 11))
    assert gammas == sorted(gammas)


def test_equal_ends_make_n_and_gamma_constant():
    constant = replace(PUBLISHED, n_start=10, n_end=10, gamma_start=0.99, gamma_end=0.99)
    for update in (0, 1, 5_000, 10_000, 99_999):
        assert n_step(constant, update) == 10
        assert discount(constant, update) == pytest.approx(0.99, rel=1e-12)


def test_a_cycle_of_zero_is_over_at_once():
    instant = replace(PUBLISHED, cycle=0)
    assert n_step(instant, 0) == 3
    assert discount(instant, 0) == pytest.approx(0.997, rel=1e-12)


# --- beta ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ratio", "end"), [(2, 80_000), (4, 90_000), (8, 95_000)])
def test_beta_is_linear_until_the_last_40000_updates(ratio, end):
    schedule = replace(PUBLISHED, replay_ratio=ratio)
    assert entropy_weight(schedule, 0, 100_000) == 0.01
    for step in range(0, end, 5_000):
        assert entropy_weight(schedule, step, 100_000) == pytest.approx(0.01 * (1.0 - step / end), rel=1e-9)
    assert entropy_weight(schedule, end - 1, 100_000) > 0.0
    for step in (end, end + 1, 100_000):
        assert entropy_weight(schedule, step, 100_000) == 0.0


def test_equal_ends_make_beta_constant():
    constant = replace(PUBLISHED, beta_end=PUBLISHED.beta_start)
    assert {entropy_weight(constant, step, 100_000) for step in range(0, 100_001, 10_000)} == {0.01}


def test_beta_can_end_above_zero():
    schedule = replace(PUBLISHED, beta_start=0.02, beta_end=0.01)
    betas = [entropy_weight(schedule, step, 100_000) for step in (0, 40_000, 80_000, 100_000)]
    assert betas == pytest.approx([0.02, 0.015, 0.01, 0.01])


def test_a_budget_shorter_than_the_final_updates_has_no_bonus():
    assert entropy_weight(PUBLISHED, 0, 20_000) == entropy_weight(PUBLISHED, 5, 10_000) == 0.0


# --- resets -------------------------------------------------------------------------------------------------


def resets_slowly(schedule, total_steps):
    """Count updates in whole numbers: a reset is due while more than one interval is left after it."""
    updates, every = total_steps * schedule.replay_ratio, schedule.reset_every
    due = [u for u in range(every, updates, every) if updates - u > every]
    return [round(u / schedule.replay_ratio) for u in due]


def test_paper_resets_at_replay_ratio_two():
    assert reset_steps(PUBLISHED, 100_000, PAPER) == [20_000, 40_000, 60_000]


def test_paper_resets_at_replay_ratio_eight():
    schedule = replace(PUBLISHED, replay_ratio=8)
    assert reset_steps(schedule, 100_000, PAPER) == list(range(5_000, 90_001, 5_000))


def test_released_resets_drift():
    assert reset_steps(PUBLISHED, 100_000, RELEASED) == [20_002, 40_003, 60_004]


@pytest.mark.parametrize("behaviour", [PAPER, RELEASED])
def test_zero_turns_resets_off(behaviour):
    assert reset_steps(replace(PUBLISHED, reset_every=0), 100_000, behaviour) == []


def test_a_reset_needs_more_than_one_interval_left():
    assert reset_steps(PUBLISHED, 40_000, PAPER) == []
    assert reset_steps(PUBLISHED, 40_001, PAPER) == [20_000]


@check
@given(ratios, st.integers(1, 1_000), st.integers(1, 40))
def test_resets_match_counting_updates(ratio, interval, intervals):
    schedule = replace(PUBLISHED, replay_ratio=ratio, reset_every=interval * ratio)
    for total in (interval * intervals, interval * intervals + 1):
        assert reset_steps(schedule, total, PAPER) == resets_slowly(schedule, total)


@pytest.mark.parametrize("ratio", [*range(1, 17), 30, 38, 62])
def test_resets_match_counting_updates_at_every_replay_ratio(ratio):
    schedule = replace(PUBLISHED, replay_ratio=ratio)
    assert reset_steps(schedule, 100_000, PAPER) == resets_slowly(schedule, 100_000)


# --- other budgets ------------------------------------------------------------------------------------------


def test_the_published_budget_changes_nothing():
    assert scaled_to(PUBLISHED, REFERENCE_STEPS) == PUBLISHED
    assert REFERENCE_STEPS == 100_000


@pytest.mark.parametrize("total_steps", [500, 10_000, 50_000, 200_000, 1_000_000])
def test_a_budget_scales_counts_and_nothing_else(total_steps):
    scale = total_steps / 100_000
    expected = replace(
        PUBLISHED,
        warmup=2_000 * scale,
        cycle=10_000 * scale,
        reset_every=40_000 * scale,
        beta_final_updates=40_000 * scale,
    )
    assert scaled_to(PUBLISHED, total_steps) == expected


def test_scaled_counts_stay_whole_numbers():
    scaled = scaled_to(PUBLISHED, 1_234)
    counts = (scaled.warmup, scaled.cycle, scaled.reset_every, scaled.beta_final_updates)
    assert counts == (25, 123, 494, 494)
    assert all(type(count) is int for count in counts)


@pytest.mark.parametrize("total_steps", [100, 1_000, 5_000, 20_000])
def test_a_scaled_run_has_the_published_shape(total_steps):
    scaled = scaled_to(PUBLISHED, total_steps)
    assert reset_steps(scaled, total_steps, PAPER) == [total_steps * i // 5 for i in (1, 2, 3)]
    assert entropy_weight(scaled, total_steps * 4 // 5, total_steps) == 0.0
    assert entropy_weight(scaled, total_steps * 2 // 5, total_steps) == pytest.approx(0.005)
    assert [n_step(scaled, u * total_steps // 100_000) for u in (0, 5_000, 10_000)] == [10, 5, 3]


@pytest.mark.parametrize("total_steps", [1_001, 12_346])
def test_a_budget_that_scales_unevenly_has_three_resets_too(total_steps):
    assert len(reset_steps(scaled_to(PUBLISHED, total_steps), total_steps, PAPER)) == 3


@check
@given(st.integers(1, 2_000), ratios, st.sampled_from([PAPER, RELEASED]))
def test_small_budgets_stay_within_range(total_steps, ratio, behaviour):
    scaled = scaled_to(replace(PUBLISHED, replay_ratio=ratio), total_steps)
    assert 0 <= scaled.warmup <= total_steps
    resets = reset_steps(scaled, total_steps, behaviour)
    assert resets == sorted(resets)
    for count in (0, 1, total_steps // 2, total_steps):
        assert 3 <= n_step(scaled, count) <= 10
        assert 0.97 - 1e-12 <= discount(scaled, count) <= 0.997 + 1e-12
        assert 0.0 <= entropy_weight(scaled, count, total_steps) <= 0.01


# --- a whole run --------------------------------------------------------------------------------------------


def test_updates_of_a_published_run():
    """Order of one step: updates once the warm-up is over, reset if due, then act."""
    resets = set(reset_steps(PUBLISHED, 100_000, PAPER))
    updates, since_reset, cycles = 0, 0, []
    for step in range(100_000):
        if step >= PUBLISHED.warmup:
            updates += PUBLISHED.replay_ratio
            since_reset += PUBLISHED.replay_ratio
        if step in resets:
            cycles.append(since_reset)
            since_reset = 0
    assert updates == 196_000
    assert [*cycles, since_reset] == [36_002, 40_000, 40_000, 79_998]


# --- acting ---


def test_epsilon_is_constant_in_the_warm_up_then_falls_linearly_and_stays():
    acting = ActingConfig(epsilon_start=1.0, epsilon_end=0.1, epsilon_decay=100)
    assert [epsilon(acting, step, 50) for step in (0, 50, 75, 100, 150, 10_000)] == pytest.approx(
        [1.0, 1.0, 0.775, 0.55, 0.1, 0.1]
    )


def test_without_a_decay_epsilon_is_at_its_end_at_once():
    assert epsilon(ActingConfig(epsilon_start=1.0, epsilon_end=0.2), 0, 50) == pytest.approx(0.2)


def test_epsilon_and_the_targets_period_follow_the_budget():
    config = AgentConfig(acting=ActingConfig(epsilon_decay=2_000), optimiser=OptimiserConfig(target_every=500, tau=1.0))
    assert for_budget(config, 20_000).acting.epsilon_decay == 400
    assert for_budget(config, 20_000).optimiser.target_every == 100
    assert for_budget(config, 10).optimiser.target_every == 1
