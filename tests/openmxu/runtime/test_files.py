"""Outputs: a place before the work, then all of a file or nothing of it. Locks: with a word, and a limit."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from openmxu.runtime import files, locks
from openmxu.runtime.files import (
    NotStoredError,
    folder,
    open_input,
    read_input,
    reserve,
    write_bytes,
    write_text,
    writing,
)
from openmxu.runtime.locks import LockedError, lock

from .conftest import contents, python, wait_until


@pytest.fixture
def unprivileged(tmp_path: Path) -> Iterator[None]:
    """Nobody's rights, where the tests run as root, who may write everything."""
    if os.geteuid():
        yield
        return
    os.chown(tmp_path, 65534, 65534)
    opened = [each for each in tmp_path.parents if not each.stat().st_mode & 0o011]
    modes = [each.stat().st_mode for each in opened]
    for each, mode in zip(opened, modes, strict=True):
        each.chmod(mode | 0o011)  # its group is still that of root
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        for each, mode in zip(opened, modes, strict=True):
            each.chmod(mode)


@pytest.mark.parametrize("name", ["out.txt", "é" * 127])
def test_new_and_existing(name: str, tmp_path: Path) -> None:
    """Links stay what they are."""
    for text in ("é", "ü"):
        write_text(tmp_path / name, text)
        assert (tmp_path / name).read_bytes() == text.encode()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_text(tmp_path / "link", "through")
    assert (tmp_path / "link").is_symlink()
    assert contents(tmp_path) == {name: "ü", "link": "through", "target": "through"}


def test_mode_is_that_of_any_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the umask, which is that of all threads, stays alone."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "umask", Mock(side_effect=AssertionError("the umask is that of all threads")))
        write_text(tmp_path / "ours", "")
    (tmp_path / "theirs").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "theirs").stat().st_mode


def test_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.txt"
    write_text(path, "old")

    def interrupted() -> None:
        with writing(path) as file:
            file.write(b"half of the new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert contents(tmp_path) == {"out.txt": "old"}
    monkeypatch.setattr(os, "replace", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        write_text(path, "new")
    assert contents(tmp_path) == {"out.txt": "old"}


@pytest.mark.parametrize(("mode", "kept"), [(0o651, 0o651), (0o6755, 0o755), (0o600, 0o600)])
def test_an_existing_file_keeps_its_mode(mode: int, kept: int, tmp_path: Path) -> None:
    """But for the rights of whoever runs it: no program that was put in an output's place runs as its owner.

    What is private is never open to others, not even before it is whole.
    """
    path = tmp_path / "out.txt"
    path.touch()
    path.chmod(mode)
    with writing(path) as file:
        assert os.fstat(file.fileno()).st_mode & 0o777 & ~kept == 0
    assert path.stat().st_mode & 0o7777 == kept


def test_on_the_disk_before_the_name_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    replace = os.replace

    def note_replace(source: Path, target: Path) -> None:
        calls.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", lambda handle: calls.append(os.readlink(f"/proc/self/fd/{handle}")))
    monkeypatch.setattr(os, "replace", note_replace)
    write_text(tmp_path / "out.txt", "new")
    assert re.fullmatch(rf"{re.escape(str(tmp_path))}/\.openmxu-\w+\.part", calls[0])
    assert calls[1:] == ["replace", str(tmp_path)]


def test_standard_output(tmp_path: Path) -> None:
    """Into a pipe, and behind what a file has already; in the order in which it was written."""
    write = "print('printed'); write_text('/dev/stdout', 'written\\n'); print('printed', flush=True)"
    program = f"""
import os
from openmxu.runtime.files import write_text
{write}
os.dup2(os.open("log", os.O_WRONLY | os.O_APPEND), 1)
{write}
"""
    (tmp_path / "log").write_text("before\n")
    assert python(program, tmp_path, PYTHONUNBUFFERED="").stdout == "printed\nwritten\nprinted\n"
    assert (tmp_path / "log").read_text() == "before\nprinted\nwritten\nprinted\n"


@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}"])
def test_descriptors(name: str) -> None:
    """What a shell makes of ``>(command)``."""
    reader, writer = os.pipe()
    write_text(name.format(writer), "through")
    os.close(writer)  # the descriptor itself is still ours to close
    assert os.read(reader, 100) == b"through"
    assert os.read(reader, 100) == b""
    with pytest.raises(OSError, match=rf"^output /dev/fd/{reader} cannot be written: it is open for reading only$"):
        write_text(f"/dev/fd/{reader}", "")
    os.close(reader)
    with pytest.raises(OSError, match=rf"^output /dev/fd/{reader} cannot be written: Bad file descriptor$"):
        write_text(f"/dev/fd/{reader}", "")


def test_a_process_that_is_killed(tmp_path: Path) -> None:
    """It leaves the old file and a hidden one, which the next run of this output replaces."""
    (tmp_path / "out.txt").write_text("old")
    program = """
import os
from openmxu.runtime.files import writing
with writing('out.txt') as file:
    file.write(bytes(1 << 20))
    os.kill(os.getpid(), 9)
"""
    assert python(program, tmp_path).returncode == -9
    [left] = [name for name in os.listdir(tmp_path) if name != "out.txt"]
    assert left.startswith(".openmxu-")
    assert (tmp_path / "out.txt").read_text() == "old"
    write_text(tmp_path / "other.txt", "other")
    write_text(tmp_path / "out.txt", "new")
    assert contents(tmp_path) == {"out.txt": "new", "other.txt": "other"}


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one that began writes; the others say so, and nothing is mixed."""
    monkeypatch.setattr(locks.fcntl, "flock", Mock(side_effect=OSError(37, "No locks available")))
    with reserve(tmp_path / "out"):
        program = "from openmxu.runtime import locks; locks.fcntl.flock = lambda *_: locks.os.close(-1);"
        program += "from openmxu.runtime.files import write_text; write_text('out', 'theirs')"
        assert python(program, tmp_path).returncode == 0
    assert contents(tmp_path) == {"out": "theirs"}

    def mixed() -> None:
        with writing(tmp_path / "out") as file:
            file.write(b"ours")
            (hidden,) = tmp_path.glob(".openmxu-*")
            hidden.unlink()
            hidden.write_text("half")

    with pytest.raises(OSError, match="Device or resource busy"):
        mixed()
    assert (tmp_path / "out").read_text() == "theirs"


def _refusal(path: Path | str) -> str:
    """What is said before the work, when a place is reserved; without any work, it is the same."""
    with pytest.raises(OSError, match=re.escape(str(path))) as refused, reserve(path):
        raise AssertionError("this is the work, which must not begin")
    with pytest.raises(type(refused.value), match=f"^{re.escape(str(refused.value))}$"):
        write_bytes(path, b"")
    return str(refused.value)


def test_no_work_without_a_place(tmp_path: Path) -> None:
    assert _refusal(tmp_path) == f"output must be a file, not the directory {tmp_path}"
    (tmp_path / "file").touch()
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path, reason in (
        (tmp_path / "missing/out.txt", "No such file or directory"),
        (tmp_path / "file/out.txt", "Not a directory"),
        (loop, "Too many levels of symbolic links"),
    ):
        assert _refusal(path) == f"output {path} cannot be written: {reason}"
    assert loop.is_symlink()
    assert "cannot be written" in _refusal("/proc/out.txt")  # no folder of the kernel's takes files
    with (
        pytest.raises(ValueError, match=r"^outputs must be different files, not two times .*/loop/\.\./a$"),
        reserve(tmp_path / "a", tmp_path / "loop/../a"),
    ):
        pass
    assert sorted(os.listdir(tmp_path)) == ["file", "loop"]


@pytest.mark.usefixtures("unprivileged")
def test_no_work_without_permission(tmp_path: Path) -> None:
    path, pipe = tmp_path / "out.txt", tmp_path / "pipe"
    path.write_text("old")
    os.mkfifo(pipe, 0o444)
    for refused, mode, mode_of_folder in ((path, 0o444, 0o755), (path, 0o644, 0o555), (pipe, 0o444, 0o755)):
        refused.chmod(mode)
        tmp_path.chmod(mode_of_folder)
        assert _refusal(refused) == f"output {refused} cannot be written: Permission denied"
    assert path.read_text() == "old"


def test_no_work_without_room(tmp_path: Path) -> None:
    program = """
import resource
from openmxu.runtime.files import reserve
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
with reserve('out.txt'):
    print('the work')
"""
    done = python(program, tmp_path)
    assert (done.stdout, contents(tmp_path)) == ("", {})
    assert done.stderr.endswith("output out.txt cannot be written: File too large\n")


def test_places_are_held_and_let_go(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    with reserve(tmp_path / "old", None, tmp_path / "new", "/dev/null") as outputs:
        outputs.write_text(tmp_path / "new", "new")
        assert len(list(tmp_path.iterdir())) == 3
    assert contents(tmp_path) == {"old": "old", "new": "new"}

    with pytest.raises(KeyboardInterrupt), reserve(tmp_path / "old", tmp_path / "newer"):
        raise KeyboardInterrupt
    assert contents(tmp_path) == {"old": "old", "new": "new"}


def _failure(tmp_path: Path) -> str:
    """What is said of results whose folder goes while they are computed, and of a full device."""
    home = tmp_path / "goes"
    home.mkdir()

    def work() -> None:
        with reserve(home / "a", tmp_path / "b", "/dev/full") as outputs:
            shutil.rmtree(home)
            for path, result in ((home / "a", "a"), (tmp_path / "b", "b"), ("/dev/full", "c")):
                outputs.write_text(path, f"result {result}")

    with pytest.raises(NotStoredError) as failure:
        work()
    assert (tmp_path / "b").read_text() == "result b"
    return str(failure.value)


def test_results_that_cannot_be_stored(tmp_path: Path) -> None:
    """A line names each; the other outputs are there."""
    assert _failure(tmp_path) == (
        f"output {tmp_path}/goes/a cannot be written: No such file or directory; "
        "output /dev/full cannot be written: No space left on device"
    )


def test_a_pipe_that_nobody_reads(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)

    def work() -> None:
        with reserve(f"/dev/fd/{writer}", tmp_path / "b") as outputs:
            outputs.write_text(f"/dev/fd/{writer}", "nobody reads it")
            outputs.write_text(tmp_path / "b", "result")

    with pytest.raises(BrokenPipeError):
        work()
    os.close(writer)
    assert (tmp_path / "b").read_text() == "result"


def test_a_pipe_that_waits_for_its_reader(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It says so, and not where somebody reads already."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    said = f"waiting for somebody to read the pipe {pipe}"
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write_text, pipe, "through")
        wait_until(lambda: said in caplog.messages)
        with pipe.open() as reader:
            assert reader.read() == "through"
        written.result()
        assert caplog.messages == [said]
        reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        write_text(pipe, "once more")
        assert os.read(reading, 100) == b"once more"
        os.close(reading)
    assert pipe.is_fifo()
    assert caplog.messages == [said]


def test_folders(tmp_path: Path) -> None:
    with folder(tmp_path / "a" / "b") as made:
        assert made.is_dir()
    assert not list(tmp_path.iterdir())
    with folder(tmp_path / "a" / "b") as made:
        (made / "file").touch()
    assert (tmp_path / "a" / "b" / "file").exists()
    problem = r"^output must be a directory that can be written, not '.*file': File exists$"
    with pytest.raises(OSError, match=problem), folder(tmp_path / "a" / "b" / "file"):
        pass


WRITER = """
from openmxu.runtime.files import folder, reserve
with {held}:
    print(flush=True)
    input()
"""


END = """
import os
from pathlib import Path
from openmxu.runtime.files import discard_all, folder, reserve
with folder(Path("new/below")), reserve("new/below/file", "old") as outputs:
    assert len(os.listdir("new/below")) == 1
    discard_all()
    os._exit(0)
"""


def test_outputs_of_a_process_that_a_signal_ends(tmp_path: Path) -> None:
    """Nothing hidden stays beside an output, nor a new folder without anything in it."""
    (tmp_path / "old").write_text("old")
    assert python(END, tmp_path).returncode == 0
    assert contents(tmp_path) == {"old": "old"}


@pytest.mark.parametrize(
    ("held", "claim"),
    [("folder(Path('out'))", folder), ("reserve('out')", reserve), ("reserve('link', 'other')", reserve)],
)
def test_one_run_at_a_time(held: str, claim: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is refused with who writes there; what a killed one leaves refuses nobody."""
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to("out")
    program = "from pathlib import Path" + WRITER.format(held=held)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        who = rf"process {other.pid} \({re.escape(sys.executable)} -c from pathlib.*\) writes .*out$"
        message = f"^output must be written by one run at a time: {who}"
        with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)), claim(Path("out")):
            pass
        with claim(Path("elsewhere")):
            other.kill()
    with claim(Path("out")), claim(Path("once more")):
        pass
    with folder(tmp_path), folder(tmp_path), reserve("twice"), reserve("twice") as outputs:
        outputs.write_text("twice", "of one run")


def test_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded, no output, and no pipe to which nobody writes."""
    monkeypatch.setattr(files, "_PATIENCE", 0)
    write_text(tmp_path / "file", "12345")
    assert read_input(tmp_path / "file", 5) == b"12345"
    for path in (tmp_path / "file", Path("/dev/zero")):
        with pytest.raises(ValueError, match=f"^{path}: it must have at most 4 bytes$"):
            read_input(path, 4)
    (tmp_path / "link").symlink_to("file")
    with reserve(tmp_path / "file"), pytest.raises(ValueError, match=r"outputs must be other files than inputs, not"):
        open_input(tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TimeoutError, match="nobody has written to the pipe for 0 s"):
        open_input(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError):
        open_input(tmp_path)


# Locks


def test_a_word_and_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(locks, "_PATIENCE", 0.0)
    path = tmp_path / "lock"
    with (
        lock(path, what="tests"),
        pytest.raises(LockedError, match=f"^another process, which tests, has held {path} for 0.2 s; end it"),
        lock(path, what="tests", limit=0.2),
    ):
        pass
    assert caplog.messages == ["waiting for another process, which tests"]


def test_a_lock_on_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("link", "pipe", "folder"):
        with pytest.raises(OSError, match=name), lock(tmp_path / name, what="tests"):
            pass
    assert not (tmp_path / "target").exists()
