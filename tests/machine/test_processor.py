"""What is known of the processor."""

from __future__ import annotations

from sacbbf.machine import processor

ENTRY = "processor\t: {number}\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R)\n\n"


def test_the_model_name_of_the_first_processor(tmp_path, monkeypatch):
    file = tmp_path / "cpuinfo"
    file.write_text("".join(ENTRY.format(number=number) for number in range(2)))
    monkeypatch.setattr(processor, "CPUINFO", file)
    assert processor.name() == "Intel(R) Xeon(R)"


def test_where_there_is_no_such_file(tmp_path, monkeypatch):
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "none")
    monkeypatch.setattr(processor.platform, "processor", lambda: "arm")
    assert processor.name() == "arm"
