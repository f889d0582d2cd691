"""Children and temporary folders end with the call, however it ends; children also with the process."""

import os
import re
import signal
import tempfile
import threading
import time
import uuid
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from openmxu.runtime import process
from openmxu.runtime.process import Done, TimeLimitError, call, run, threads, workspace
from openmxu_studies.faults.leftovers import MARKER, leftovers, processes

from ...conftest import ALONE
from .conftest import python, wait_until


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tmp"
    path.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(path))
    monkeypatch.setenv("TMPDIR", str(path))
    return path


def shell(program: str, **options: Any) -> Done:
    return run(["sh", "-c", program], what="sh", limit=60, **options)


def test_what_a_child_gets_and_gives(tmp_path: Path) -> None:
    given: dict[str, Any] = {"directory": tmp_path, "environment": os.environ | {"MINE": "yours"}, "text": "given\n"}
    done = shell("cat; pwd; echo $MINE >&2; exit 3", **given)
    assert (done.code, done.output, done.errors) == (3, f"given\n{tmp_path}\n", "yours\n")
    assert done.last(1) == ["yours"]
    killed = shell("kill -9 $$")
    assert (killed.code, killed.ending, done.ending) == (-9, "signal SIGKILL", "exit code 3")
    assert shell("kill -40 $$").ending == "signal 40"
    assert shell("echo out; echo err >&2", log=tmp_path / "log").output == ""
    assert (tmp_path / "log").read_text() == "out\nerr\n"


def test_what_a_child_leaves_goes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its folder, and in the background: no reason to wait, though it holds the output open. A limit ends all."""
    background, limit = uuid.uuid4().hex, uuid.uuid4().hex
    monkeypatch.setenv(MARKER, background)
    assert shell("touch $TMPDIR/left; sleep 1000 & ls $TMPDIR").output == "left\n"
    assert leftovers(background, folder) == []
    monkeypatch.setenv(MARKER, limit)
    with pytest.raises(TimeLimitError, match=r"^the test took longer than 1 s and was ended; does sh run by itself"):
        run(["sh", "-c", f"{ALONE} & sleep 1000; true"], what="the test", limit=1)
    assert leftovers(limit, folder) == []


def test_what_a_killed_process_leaves(folder: Path) -> None:
    """No child of the thread that waits for it, and a folder that a later process removes, but not one in use."""
    program = """
import os, threading
from openmxu.runtime.process import run, threads, workspace
with workspace() as folder, threads(1) as pool:
    (folder / "file").touch()
    pool.submit(run, ["sh", "-c", "touch $0; exec sleep 1000", folder / "started"], what="sleep", limit=1000)
    while not (folder / "started").exists():
        pass
    os.kill(os.getpid(), 9)
"""
    marker = uuid.uuid4().hex
    assert python(program, **{MARKER: marker, "TMPDIR": str(folder)}).returncode == -signal.SIGKILL
    wait_until(lambda: not processes(marker), 5)
    left = list(folder.iterdir())
    link = folder / "openmxu-work-link"
    link.symlink_to(tempfile.gettempdir())
    with workspace() as used:
        assert {*folder.iterdir()} == {*left, used, link}  # their owners may be about to lock them
        for path in (*left, used):
            os.utime(path, (1e9, 1e9))
        process._sweep.cache_clear()
        with workspace() as second:
            assert {*folder.iterdir()} == {used, second, link}


def test_threads_whose_block_fails() -> None:
    """Also where they have threads themselves."""
    start = time.monotonic()
    sleep = partial(run, ["sleep", "1000"], what="sleep", limit=1000)
    futures: list[Future[Done]] = []

    def inner() -> Done:
        with threads(1) as pool:
            return pool.submit(sleep).result()

    def fail() -> None:
        with threads(3) as pool:
            futures.extend([pool.submit(inner), *(pool.submit(sleep) for _ in range(5))])
            time.sleep(0.2)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert time.monotonic() - start < 10
    assert all(future.done() for future in futures)
    assert run(["true"], what="true", limit=60).code == 0


@pytest.mark.parametrize("jobs", [1, 3])
def test_so_many_threads_at_a_time(jobs: int) -> None:
    together = threading.Barrier(jobs)

    def work(_: int) -> int:
        together.wait(60)
        time.sleep(0.05)  # no thread is idle that could take what another one is there for
        return threading.get_ident()

    with threads(jobs) as pool:
        assert len(set(pool.map(work, range(4 * jobs)))) == jobs


def test_many_threads_at_once(folder: Path) -> None:
    with threads(8) as pool:
        assert list(pool.map(lambda code: shell(f"exit {code}").code, range(40))) == list(range(40))
    assert list(folder.iterdir()) == []


def test_a_fork_does_not_remove(folder: Path) -> None:
    program = """
import os, sys, time
from openmxu.runtime.process import workspace
with workspace() as folder:
    child = os.fork()
    if not child:
        time.sleep(0.3)
        with workspace() as own:
            assert own.is_dir()
        sys.exit(0 if folder.is_dir() else "gone")
    assert os.waitpid(child, 0)[1] == 0
    assert folder.is_dir()
"""
    done = python(program, TMPDIR=str(folder))
    assert (done.returncode, done.stderr, list(folder.iterdir())) == (0, "", [])


def test_workspaces_are_private_and_whole(folder: Path) -> None:
    with workspace() as path, workspace() as other:
        assert path.stat().st_mode & 0o777 == 0o700
        assert path != other
        (path / "below").mkdir()
    assert list(folder.iterdir()) == []
    with pytest.raises(FileNotFoundError), workspace(folder / "missing"):
        pass


def test_call() -> None:
    assert call(divmod, 7, 2, what="divmod", limit=60) == [3, 1]
    with pytest.raises(RuntimeError, match=r"^integer division or modulo by zero$"):
        call(divmod, 7, 0, what="divmod", limit=60)
    with pytest.raises(RuntimeError, match=r"^the end died with exit code 7: for want of memory perhaps$"):
        call(os._exit, 7, what="the end", limit=60)


def test_an_interrupt_in_a_library(folder: Path) -> None:
    """Where no program has installed handlers, Ctrl-C is an exception as ever."""
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        run(["sleep", "1000"], what="sleep", limit=1000)
    assert list(folder.iterdir()) == []


def test_programs_that_cannot_be_started(tmp_path: Path) -> None:
    (tmp_path / "odd").write_bytes(b"\0")
    (tmp_path / "odd").chmod(0o755)
    for program in ("no-such-program", "./missing"):
        with pytest.raises(FileNotFoundError, match=re.escape(f"No such file or directory: {program!r}")):
            run([program], what="it", limit=60, directory=tmp_path)
    done = run(["./odd"], what="it", limit=60, directory=tmp_path)
    assert (done.code, done.errors) == (1, "./odd cannot be started: Exec format error\n")


def test_what_a_program_inherits() -> None:
    """Signals as if it had been started by itself: Python ignores some."""
    assert shell("kill -PIPE $$").ending == "signal SIGPIPE"
