"""A lock is waited for with a word and within a limit, and no link is followed."""

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from openmxu.runtime import locks
from openmxu.runtime.locks import LockedError, lock


def test_one_at_a_time(tmp_path: Path) -> None:
    inside = []

    def enter(_: int) -> None:
        with lock(tmp_path / "folder" / "lock", what="tests"):
            inside.append(1)
            assert len(inside) == 1
            inside.pop()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(enter, range(80)))
    assert (tmp_path / "folder" / "lock").stat().st_mode & 0o777 == 0o600


def test_a_word_and_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(locks, "_PATIENCE", 0.0)
    path = tmp_path / "lock"
    with (
        lock(path, what="tests"),
        caplog.at_level(logging.WARNING),
        pytest.raises(LockedError, match=f"^another process, which tests, has held {path} for 0.2 s; end it"),
        lock(path, what="tests", limit=0.2),
    ):
        pass
    assert caplog.messages == ["waiting for another process, which tests"]


def test_no_wait(tmp_path: Path) -> None:
    with (
        lock(tmp_path / "lock", what="tests"),
        pytest.raises(BlockingIOError),
        lock(tmp_path / "lock", what="tests", wait=False),
    ):
        pass


def test_a_file_that_its_owner_removes(tmp_path: Path) -> None:
    path = tmp_path / "lock"

    def enter() -> None:
        with lock(path, what="tests"):
            pass

    with ThreadPoolExecutor(1) as pool:
        with lock(path, what="tests"):
            entered = pool.submit(enter)
            with pytest.raises(TimeoutError):
                entered.result(0.2)
            path.unlink()
        entered.result()
    assert path.is_file()


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("link", "pipe", "folder"):
        with pytest.raises(OSError, match=name), lock(tmp_path / name, what="tests"):
            pass
    assert not (tmp_path / "target").exists()
