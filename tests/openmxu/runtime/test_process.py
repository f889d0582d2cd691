"""Children and temporary folders end with the call, and with the process, however these end."""

import gc
import os
import signal
import threading
import time
import uuid
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from openmxu.runtime import process
from openmxu.runtime.process import Done, TimeLimitError, call, run, threads, workspace
from openmxu_studies.faults.leftovers import MARKER, leftovers, processes

from .conftest import contents, python, wait_until


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
    lines: list[str] = []
    given: dict[str, Any] = {"directory": tmp_path, "environment": os.environ | {"MINE": "yours"}, "text": "given\n"}
    done = shell("cat; pwd; echo $MINE >&2; exit 3", lines=lines.append, **given)
    assert (done.code, done.output, done.errors) == (3, f"given\n{tmp_path}\n", "yours\n")
    assert sorted(lines) == sorted(["given", str(tmp_path), "yours"])
    assert done.last(1) == ["yours"]
    killed = shell("kill -9 $$")
    assert (killed.code, killed.ending, done.ending) == (-9, "signal SIGKILL", "exit code 3")
    assert shell("kill -40 $$").ending == "signal 40"
    assert shell("echo out; echo err >&2", log=tmp_path / "log").output == ""
    assert (tmp_path / "log").read_text() == "out\nerr\n"


def test_lines_come_while_it_runs() -> None:
    """And the last one needs no end."""
    lines: dict[str, float] = {}
    shell("echo a; sleep 0.4; printf b", lines=lambda line: lines.update({line: time.monotonic()}))
    assert list(lines) == ["a", "b"]
    assert lines["b"] - lines["a"] > 0.2


def test_what_a_child_leaves_goes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its folder, and in the background: no reason to wait, though it holds the output open. A limit ends all."""
    monkeypatch.setenv(MARKER, "background")
    assert shell("touch $TMPDIR/left; sleep 1000 & ls $TMPDIR").output == "left\n"
    assert leftovers("background", folder) == []
    monkeypatch.setenv(MARKER, "limit")
    with pytest.raises(TimeLimitError, match=r"^the test took longer than 0.2 s and was ended; does sh run by itself"):
        run(["sh", "-c", "sleep 1000 & sleep 1000; true"], what="the test", limit=0.2)
    assert leftovers("limit", folder) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_process_that_is_killed_leaves_nothing(number: signal.Signals, folder: Path) -> None:
    """Neither a grandchild that has left its group, nor a folder with a file in it."""
    marker = f"{os.getpid()}-{number}"
    program = f"""
import os, threading
from openmxu.runtime.process import run, workspace
with workspace() as folder:
    (folder / "file").touch()
    threading.Timer(0.3, lambda: os.kill(os.getpid(), {int(number)})).start()
    run(["sh", "-c", "setsid sleep 1000 & sleep 1000 & echo started; wait"], what="sleep", limit=1000)
"""
    assert python(program, **{MARKER: marker, "TMPDIR": str(folder)}).returncode == -number
    assert leftovers(marker, folder) == []


def test_what_a_killed_watcher_left_the_next_one_sweeps(folder: Path) -> None:
    program = """
import os, signal
from openmxu.runtime import process, watcher_client
with process.workspace() as folder:
    (folder / "file").touch()
    watcher_client.watch._process.kill()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    python(program, TMPDIR=str(folder))
    [left] = folder.iterdir()
    name = left.name.removesuffix("0").removesuffix("1")
    link, other = folder / f"{name[:-2]}00", folder / "openmxu-work-mine"
    link.symlink_to(other)
    other.mkdir()
    with workspace() as used:
        process._swept.clear()
        with workspace() as second:
            assert {*folder.iterdir()} == {used, second, link, other}


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


def test_a_fork_neither_removes_nor_holds(folder: Path) -> None:
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
    if not os.fork():
        os.closerange(0, 3)
        time.sleep(1000)  # must not keep the watcher from its work
    os.kill(os.getpid(), 9)
"""
    done = python(program, **{MARKER: "fork", "TMPDIR": str(folder)})
    assert (done.returncode, done.stderr) == (-9, "")
    wait_until(lambda: not list(folder.iterdir()), 5)
    for number in [int(line.split()[1].rstrip(":")) for line in leftovers("fork", folder, patience=0)]:
        os.kill(number, signal.SIGKILL)


def test_workspaces_are_private_and_whole(folder: Path) -> None:
    with workspace() as path, workspace() as other:
        assert path.stat().st_mode & 0o777 == 0o700
        assert path != other
        (path / "below").mkdir()
    assert list(folder.iterdir()) == []
    with pytest.raises(FileNotFoundError), workspace(folder / "missing"):
        pass


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_outputs_of_a_process_that_is_killed(end: str, tmp_path: Path) -> None:
    """Nothing hidden stays beside an output, nor a new folder without anything in it."""
    program = f"""
import os
from pathlib import Path
from openmxu.runtime.files import folder, reserve
with folder(Path("new/below")), reserve("new/below/file", "old") as outputs:
    assert len(os.listdir("new/below")) == 1
    {end}
"""
    (tmp_path / "old").write_text("old")
    python(program, tmp_path)
    wait_until(lambda: len(list(tmp_path.iterdir())) == 1, 5)
    assert contents(tmp_path) == {"old": "old"}


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


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_a_child_whose_start_is_not_known_to_have_succeeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed, though nobody has its number."""
    marker = uuid.uuid4().hex
    shell("true")  # the watcher is there from now on
    with monkeypatch.context() as patch:
        patch.setattr(os, "read", Mock(side_effect=OSError(5, "Input/output error")))
        with pytest.raises(OSError, match="Input/output error"):
            process.run(["sleep", "60"], what="sleep", limit=60, environment=os.environ | {MARKER: marker})
    gc.collect()  # subprocess warns of it now, and reaps it
    wait_until(lambda: not processes(marker), 5)
