"""The commit that a run was computed with."""

import subprocess

from sacbbf.machine.source import commit_of


def git(folder, *words):
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", "-C", folder, *who, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_a_tracked_file_has_its_checkout_s_commit(tmp_path):
    git(tmp_path, "init")
    kept, other, loose = (tmp_path / name for name in ("kept.py", "other.py", "loose.py"))
    for path in (kept, other, loose):
        path.write_text("1")
    git(tmp_path, "add", "kept.py", "other.py")
    git(tmp_path, "commit", "-m", "First")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert commit_of(kept) == head
    assert commit_of(loose) is None
    kept.write_text("2")
    assert commit_of(other) == f"{head}-dirty"


def test_a_file_outside_of_checkouts_has_none(tmp_path):
    (tmp_path / "here.py").write_text("1")
    assert commit_of(tmp_path / "here.py") is None
