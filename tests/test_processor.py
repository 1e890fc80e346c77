"""What is known of the processor."""

from __future__ import annotations

import pytest

from sacbbf import processor

ENTRY = "processor\t: {number}\nvendor_id\t: {maker}\nmodel name\t: {name}\nflags\t\t: fpu vme\n\n"


@pytest.fixture(autouse=True)
def forget():
    processor.by_amd.cache_clear()
    yield
    processor.by_amd.cache_clear()


@pytest.mark.parametrize(
    ("maker", "name", "amd"), [("AuthenticAMD", "AMD EPYC 7B13", True), ("GenuineIntel", "Intel(R) Xeon(R)", False)]
)
def test_name_and_maker(tmp_path, monkeypatch, maker, name, amd):
    file = tmp_path / "cpuinfo"
    file.write_text("".join(ENTRY.format(number=number, maker=maker, name=name) for number in range(2)))
    monkeypatch.setattr(processor, "CPUINFO", file)
    assert processor.name() == name
    assert processor.by_amd() is amd


def test_where_there_is_no_such_file(tmp_path, monkeypatch):
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "none")
    monkeypatch.setattr(processor.platform, "processor", lambda: "arm")
    assert processor.name() == "arm"
    assert processor.by_amd() is False
