"""Where the replay's frames lie."""

from __future__ import annotations

import pytest
import torch

from sacbbf.run.loop import frames_device

CPU, CUDA, METAL = torch.device("cpu"), torch.device("cuda", 1), torch.device("mps")


@pytest.fixture(autouse=True)
def a_device_with_a_thousand_bytes_free(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (asked.append(device), (1_000, 9_000))[1])
    yield
    assert set(asked) <= {CUDA}


@pytest.mark.parametrize(
    ("choice", "device", "size", "expected"),
    [
        ("auto", CUDA, 500, CUDA),
        ("auto", CUDA, 501, CPU),
        ("auto", METAL, 1, CPU),
        ("auto", CPU, 1, CPU),
        ("host", CUDA, 1, CPU),
        ("device", CUDA, 5_000, CUDA),
        ("device", METAL, 1, METAL),
    ],
)
def test_frames_lie_on_the_device_where_they_fit(choice, device, size, expected):
    assert frames_device(choice, device, size) == expected
