"""Seeds and generators: fixed for ever, apart by name, refused when they are no seeds."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from sacbbf import seeding


def test_values_never_change() -> None:
    # A run is repeated from its root seed: these numbers are part of every result ever published.
    assert seeding.derive_seed(0) == 5573743126012254648
    assert seeding.derive_seed(0, "a") == 8950899703074743805
    assert seeding.derive_seed(0, "a", "b") == 8571835852926783601
    assert seeding.derive_seed(7, "train", 3) == 5581001386894275856
    assert seeding.derive_seed(2**70, "x") == 7311520234108518232
    assert seeding.episode_seed(0, "train", 0) == 877951902
    assert seeding.episode_seed(0, "evaluate", 99) == 824193045
    draws = seeding.numpy_generator(0, "replay").integers(1 << 30, size=3)
    assert draws.tolist() == [290295217, 834186181, 21400649]
    assert seeding.torch_generator(0, "policy").initial_seed() == 2087247258992204949


def test_another_process_derives_the_same() -> None:
    # With Python's own string hash, which differs from process to process, it would not.
    code = "from sacbbf import seeding; print(seeding.derive_seed(3, 'replay', 1))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(answer.stdout) == seeding.derive_seed(3, "replay", 1)


def test_names_are_kept_apart() -> None:
    lists: list[tuple[str | int, ...]] = [
        (), ("",), ("", ""), ("ab",), ("a", "b"), ("b", "a"), ("ab", ""), (1,), ("1",), (11,), (1, 1), (-1,), ("-1",),
    ]  # fmt: skip
    seeds = {seeding.derive_seed(root, *names) for root in (0, 1, 2**32, 2**64) for names in lists}
    assert len(seeds) == 4 * len(lists)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_generators_of_different_names_are_uncorrelated_and_of_one_name_equal() -> None:
    one = seeding.numpy_generator(0, "one").standard_normal(20_000)
    other = seeding.numpy_generator(0, "other").standard_normal(20_000)
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.03  # four standard deviations
    assert np.array_equal(one, seeding.numpy_generator(0, "one").standard_normal(20_000))


def test_torch_generators_of_one_name_are_equal() -> None:
    import torch

    draws = [torch.rand(8, generator=seeding.torch_generator(0, name)) for name in ("a", "a", "b")]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_episode_seeds_are_in_range_and_apart() -> None:
    seeds = [seeding.episode_seed(0, phase, n) for phase in ("train", "evaluate") for n in range(500)]
    assert len(set(seeds)) == 1000
    assert all(0 <= seed < 2**31 - 1 for seed in seeds)


@pytest.mark.parametrize("root", [-1, 1.0, "0", None, True])
def test_roots_that_are_no_seeds_are_refused(root: object) -> None:
    with pytest.raises(ValueError, match="root seed must be an integer of at least 0"):
        seeding.derive_seed(root, "name")  # type: ignore[arg-type]


def test_numpy_integers_are_seeds_and_numbers() -> None:
    assert seeding.derive_seed(np.int64(5), np.int32(2)) == seeding.derive_seed(5, 2)  # type: ignore[arg-type]


def test_odd_names_and_numbers_are_refused() -> None:
    with pytest.raises(TypeError, match=r"strings and integers, got 1\.5"):
        seeding.derive_seed(0, 1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="number must be an integer of at least 0, got -1"):
        seeding.episode_seed(0, "train", -1)
