"""All of a file or nothing of it."""

import os
from pathlib import Path

import pytest

from openmxu.files import write_bytes, write_text


def test_new_and_existing(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    write_text(path, "é")
    write_text(path, "ü")
    assert path.read_bytes() == "ü".encode()
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]


def test_mode_is_that_of_any_new_file(tmp_path: Path) -> None:
    write_text(tmp_path / "ours", "")
    (tmp_path / "theirs").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "theirs").stat().st_mode


def test_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.txt"
    write_text(path, "old")

    def fail(*paths: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]


def test_messages(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="output must be a file, not the directory"):
        write_bytes(tmp_path, b"")
    with pytest.raises(OSError, match=r"output .*out.txt cannot be written: No such file or directory"):
        write_bytes(tmp_path / "missing" / "out.txt", b"")
