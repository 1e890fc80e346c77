"""The shipped reference passes in every field; each field, changed, fails; a malformed file is named."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sacbbf.errors import UsageError
from sacbbf.run.verify_replay import compare, verify_replay

REFERENCE = Path(__file__).parents[2] / "src/sacbbf/data/reference/replay_reference.npz"
FIELDS = ["indices valid", "state", "action", "return", "discount", "next_state", "terminal", "same_trajectory"]


@pytest.fixture(scope="module")
def arrays() -> dict[str, Any]:
    with np.load(REFERENCE, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def saved(arrays: dict[str, Any], folder: Path) -> Path:
    path = folder / "mutated.npz"
    np.savez(path, **arrays)
    return path


def test_every_field_of_the_reference_is_reproduced() -> None:
    checks = verify_replay(REFERENCE)
    assert [c.quantity for c in checks] == [f"case {i}: {field}" for i in range(3) for field in FIELDS]
    assert all(c.ok for c in checks)
    assert all(c.max_abs == 0.0 for c in checks if "return" not in c.quantity)
    assert max(c.max_abs for c in checks) < 3e-7


@pytest.mark.parametrize("case", [0, 1, 2])
@pytest.mark.parametrize("field", FIELDS[1:])
def test_a_changed_field_fails_and_only_that_one(arrays: dict[str, Any], tmp_path: Path, case: int, field: str) -> None:
    name = f"case{case}_{field}"
    changed = arrays[name].copy()
    last = tuple(size - 1 for size in changed.shape)
    if field == "discount":
        changed[last] = np.nextafter(changed[last], np.float32(0))  # equal means to the last bit
    elif field == "return":
        changed[last] += 1e-5
    elif changed.dtype.kind == "b":
        changed[last] ^= True
    else:
        changed[last] ^= 1
    failed = [c for c in verify_replay(saved({**arrays, name: changed}, tmp_path)) if not c.ok]
    assert [c.quantity for c in failed] == [f"case {case}: {field}"]
    assert failed[0].worst.startswith("[" + ", ".join(map(str, last)) + "]: ")


@pytest.mark.parametrize("field", ["return", "discount"])
def test_a_nan_in_the_file_fails(arrays: dict[str, Any], tmp_path: Path, field: str) -> None:
    changed = arrays[f"case0_{field}"].copy()
    changed[3] = np.nan
    checks = verify_replay(saved({**arrays, f"case0_{field}": changed}, tmp_path))
    assert [(c.quantity, c.max_abs) for c in checks if not c.ok] == [(f"case 0: {field}", np.inf)]


@pytest.mark.parametrize("column", [0, 1, 5])
def test_each_column_of_the_mask_is_compared(arrays: dict[str, Any], tmp_path: Path, column: int) -> None:
    changed = arrays["case1_same_trajectory"].copy()
    changed[7, column] ^= 1
    checks = verify_replay(saved({**arrays, "case1_same_trajectory": changed}, tmp_path))
    assert [c.quantity for c in checks if not c.ok] == ["case 1: same_trajectory"]


@pytest.mark.parametrize(
    ("name", "fails"),
    [
        ("observation", "state"),
        ("action_stored", "action"),
        ("reward", "return"),
        ("terminal_stored", "same_trajectory"),
        ("truncated", "indices valid"),
    ],
)
def test_a_changed_stored_step_fails(arrays: dict[str, Any], tmp_path: Path, name: str, fails: str) -> None:
    changed = arrays[name].copy()
    changed[int(arrays["case0_indices"][5])] += 1
    checks = verify_replay(saved({**arrays, name: changed}, tmp_path))
    assert f"case 0: {fails}" in [c.quantity for c in checks if not c.ok]


@pytest.mark.parametrize(("name", "value", "fails"), [("n", 9, "return"), ("gamma", 0.96, "discount")])
def test_a_changed_setting_fails(arrays: dict[str, Any], tmp_path: Path, name: str, value: float, fails: str) -> None:
    path = saved({**arrays, f"case0_{name}": np.array(value)}, tmp_path)
    assert f"case 0: {fails}" in [c.quantity for c in verify_replay(path) if not c.ok]


@pytest.mark.parametrize(("index", "fails"), [(38, "state"), (45, "indices valid"), (2, "indices valid")])
def test_a_changed_index_fails(arrays: dict[str, Any], tmp_path: Path, index: int, fails: str) -> None:
    changed = arrays["case0_indices"].copy()
    changed[5] = index  # 45 is followed by a truncation at 50, 2 is too early in the run
    checks = verify_replay(saved({**arrays, "case0_indices": changed}, tmp_path))
    assert f"case 0: {fails}" in [c.quantity for c in checks if not c.ok]


def test_any_number_of_cases_is_checked(arrays: dict[str, Any], tmp_path: Path) -> None:
    more = {name.replace("case2", "case11"): a for name, a in arrays.items() if name.startswith("case2")}
    some = {name: a for name, a in arrays.items() if not name.startswith(("case0", "case2"))}
    checks = verify_replay(saved({**some, **more}, tmp_path))
    assert {c.quantity.split(":")[0] for c in checks} == {"case 1", "case 11"}
    assert all(c.ok for c in checks)


def test_every_missing_array_is_named(arrays: dict[str, Any], tmp_path: Path) -> None:
    for name in arrays:
        path = saved({other: a for other, a in arrays.items() if other != name}, tmp_path)
        with pytest.raises(ValueError, match=rf"mutated\.npz: {name} is missing"):
            verify_replay(path)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("observation", (420, 36)),
        ("observation", (0, 6, 6)),
        ("reward", (419,)),
        ("case1_indices", (64, 1)),
        ("case0_state", (64, 6, 6, 6)),
        ("case1_state", (64, 5, 6, 6, 4)),
        ("case2_next_state", (64, 6, 6, 3)),
        ("case2_same_trajectory", (64, 5)),
        ("case0_n", (1,)),
    ],
)
def test_a_wrong_shape_is_named(arrays: dict[str, Any], tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    path = saved({**arrays, name: np.zeros(shape, dtype=arrays[name].dtype)}, tmp_path)
    with pytest.raises(ValueError, match=rf"mutated\.npz: {name} "):
        verify_replay(path)


def test_steps_outside_the_file_bad_settings_and_text_are_refused(arrays: dict[str, Any], tmp_path: Path) -> None:
    outside = arrays["case0_indices"].copy()
    outside[0] = 419
    bad = {
        "case0_indices": outside,
        "case0_n": np.array(0),
        "case0_gamma": np.array(1.5),
        "case0_return": np.array(["a"] * 64),
    }
    for name, array in bad.items():
        with pytest.raises(ValueError, match=rf"mutated\.npz: .*{name}"):
            verify_replay(saved({**arrays, name: array}, tmp_path))


def test_a_file_without_cases_or_without_arrays_is_refused(arrays: dict[str, Any], tmp_path: Path) -> None:
    steps = {name: a for name, a in arrays.items() if not name.startswith("case")}
    with pytest.raises(ValueError, match="case0_indices is missing"):
        verify_replay(saved(steps, tmp_path))
    junk = tmp_path / "junk.npz"
    for content in (b"", b"not an archive", REFERENCE.read_bytes()[:5000]):
        junk.write_bytes(content)
        with pytest.raises(ValueError, match=r"junk\.npz: not a readable"):
            verify_replay(junk)
    np.savez(junk, observation=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match=r"junk\.npz: not a readable"):
        verify_replay(junk)
    with pytest.raises(UsageError, match=r"none\.npz"):
        verify_replay(tmp_path / "none.npz")


def test_compare_reports_the_largest_differences() -> None:
    got = compare("x", np.array([1.0, 2.0, 0.5]), np.array([1.0, 2.5, 0.0]), 1e-6)
    assert (got.max_abs, got.max_rel, got.ok) == (0.5, 0.2, False)
    assert compare("x", np.array([1.0 + 5e-7]), np.array([1.0]), 1e-6).ok
    assert not compare("x", np.array([1.0 + 5e-7]), np.array([1.0])).ok
