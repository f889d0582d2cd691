"""All of a file or nothing of it."""

import os
from pathlib import Path

import pytest

from openmxu.files import write_bytes, write_text, writing


def test_new_and_existing(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    write_text(path, "é")
    write_text(path, "ü")
    assert path.read_bytes() == "ü".encode()
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]


def test_links_and_pipes_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_text(tmp_path / "link", "through")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "through"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert pipe.is_fifo()


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


def test_an_error_in_between_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    write_text(path, "old")

    def interrupted() -> None:
        with writing(path) as file:
            file.write(b"half of the new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]


def test_messages(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="output must be a file, not the directory"):
        write_bytes(tmp_path, b"")
    with pytest.raises(OSError, match=r"output .*out.txt cannot be written: No such file or directory"):
        write_bytes(tmp_path / "missing" / "out.txt", b"")
