"""Outputs: a place before the work, then all of a file or nothing of it."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from openmxu.runtime.files import NotStoredError, folder, reserve, write_bytes, write_text, writing


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


def _python(program: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """A program of its own, in ``tmp_path``."""
    path = os.pathsep.join(sys.path)
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": path},
        check=False,
    )


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


@pytest.mark.parametrize(("mode", "kept"), [(0o651, 0o651), (0o6755, 0o755)])
def test_an_existing_file_keeps_its_mode(mode: int, kept: int, tmp_path: Path) -> None:
    """But for the rights of whoever runs it: no program that was put in an output's place runs as its owner."""
    path = tmp_path / "out.txt"
    path.touch()
    path.chmod(mode)
    write_text(path, "new")
    assert path.stat().st_mode & 0o7777 == kept


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_an_existing_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.touch(0o600)
    os.chown(path, 1234, 4321)
    write_text(path, "new")
    assert (path.stat().st_uid, path.stat().st_gid, path.stat().st_mode & 0o7777) == (1234, 4321, 0o600)


def test_the_umask_stays_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(mask: int) -> int:
        raise AssertionError("the umask is that of all threads")

    monkeypatch.setattr(os, "umask", forbidden)
    write_text(tmp_path / "out.txt", "")


def test_what_is_private_is_never_open_to_others(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.touch(0o600)
    with writing(path) as file:
        assert os.fstat(file.fileno()).st_mode & 0o777 == 0o600


def test_long_names(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 127)
    write_text(path, "new")
    assert path.read_text() == "new"


def test_on_the_disk_before_the_name_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    sync, replace = os.fsync, os.replace

    def note_sync(handle: int) -> None:
        calls.append(os.readlink(f"/proc/self/fd/{handle}"))
        sync(handle)

    def note_replace(source: Path, target: Path) -> None:
        calls.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_replace)
    write_text(tmp_path / "out.txt", "new")
    assert re.fullmatch(rf"{re.escape(str(tmp_path))}/\.openmxu-\w+\.part", calls[0])
    assert calls[1:] == ["replace", str(tmp_path)]


def test_standard_output(tmp_path: Path) -> None:
    """Into a pipe, and behind what a file has already; in the order in which it was written."""
    program = (
        "from openmxu.runtime.files import write_text; print('printed'); "
        "write_text('/dev/stdout', 'written\\n'); print('printed')"
    )
    said = "printed\nwritten\nprinted\n"
    assert _python(program, tmp_path).stdout == said
    with (tmp_path / "log").open("a") as log:
        log.write("before\n")
        log.flush()
        subprocess.run(
            [sys.executable, "-c", program],
            stdout=log,
            check=True,
            timeout=60,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
    assert (tmp_path / "log").read_text() == f"before\n{said}"


@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}", "link"])
def test_descriptors(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a shell makes of ``>(command)``."""
    monkeypatch.chdir(tmp_path)
    reader, writer = os.pipe()
    Path("link").symlink_to(f"/dev/fd/{writer}")
    write_text(name.format(writer), "through")
    os.close(writer)  # the descriptor itself is still ours to close
    assert os.read(reader, 100) == b"through"
    assert os.read(reader, 100) == b""
    with pytest.raises(OSError, match=rf"^output /dev/fd/{reader} cannot be written: it is open for reading only$"):
        write_text(f"/dev/fd/{reader}", "")
    os.close(reader)
    with pytest.raises(OSError, match=rf"^output /dev/fd/{reader} cannot be written: Bad file descriptor$"):
        write_text(f"/dev/fd/{reader}", "")


def test_devices() -> None:
    write_text("/dev/null", "nothing")
    with pytest.raises(OSError, match="No space left"):
        write_text("/dev/full", "nothing")


def test_a_process_that_is_killed(tmp_path: Path) -> None:
    """It leaves the old file and a hidden one, which the next process deletes; but not what is in use."""
    (tmp_path / "out.txt").write_text("old")
    done = _python(
        "import os, signal\nfrom openmxu.runtime.files import writing\n"
        "with writing('out.txt') as file:\n file.write(bytes(1 << 20))\n os.kill(os.getpid(), 9)",
        tmp_path,
    )
    assert done.returncode == -9
    left = [path.name for path in tmp_path.iterdir() if path.name != "out.txt"]
    assert len(left) == 1
    assert left[0].startswith(".openmxu-")
    assert (tmp_path / "out.txt").read_text() == "old"
    with writing(tmp_path / "used.txt") as file:
        file.write(b"used")
        write_text(tmp_path / "out.txt", "new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"out.txt": "new", "used.txt": "used"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_hidden_files_of_others_stay(tmp_path: Path) -> None:
    ours, theirs = (tmp_path / f".openmxu-{digit * 16}.part" for digit in "01")
    for path in (ours, theirs):
        path.touch()
    os.chown(theirs, 1234, 1234)
    write_text(tmp_path / "out.txt", "")
    assert {path.name for path in tmp_path.iterdir()} == {"out.txt", theirs.name}


def _refusal(path: Path | str) -> str:
    """What reserving says, before the work."""
    with pytest.raises(OSError, match=re.escape(str(path))) as found, reserve(path):
        raise AssertionError("this is the work, which must not begin")
    return str(found.value)


def test_no_work_without_a_place(tmp_path: Path) -> None:
    assert _refusal(tmp_path) == f"output must be a file, not the directory {tmp_path}"
    missing = tmp_path / "missing" / "out.txt"
    assert _refusal(missing) == f"output {missing} cannot be written: No such file or directory"
    (tmp_path / "file").touch()
    below = tmp_path / "file" / "out.txt"
    assert _refusal(below) == f"output {below} cannot be written: Not a directory"
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert _refusal(loop) == f"output {loop} cannot be written: Too many levels of symbolic links"
    assert loop.is_symlink()
    assert "cannot be written" in _refusal("/proc/out.txt")  # no folder of the kernel's takes files
    with (
        pytest.raises(ValueError, match=r"^outputs must be different files, not two times .*/loop/\.\./a$"),
        reserve(tmp_path / "a", tmp_path / "loop/../a"),
    ):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "loop"]


@pytest.mark.usefixtures("unprivileged")
def test_no_work_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    path.chmod(0o444)
    assert _refusal(path) == f"output {path} cannot be written: Permission denied"
    path.chmod(0o644)
    tmp_path.chmod(0o555)
    assert _refusal(path) == f"output {path} cannot be written: Permission denied"
    tmp_path.chmod(0o755)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o444)
    assert _refusal(pipe) == f"output {pipe} cannot be written: Permission denied"
    assert path.read_text() == "old"


def test_no_work_without_room(tmp_path: Path) -> None:
    done = _python(
        "import resource\n"
        "from openmxu.runtime.files import reserve\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "with reserve('out.txt'): print('the work')",
        tmp_path,
    )
    assert done.stdout == ""
    assert done.stderr.endswith("output out.txt cannot be written: File too large\n")
    assert not list(tmp_path.iterdir())


def test_places_are_held_and_let_go(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    with reserve(tmp_path / "old", None, tmp_path / "new", "/dev/null") as outputs:
        outputs.write_text(tmp_path / "new", "new")
        assert len(list(tmp_path.iterdir())) == 3
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"old": "old", "new": "new"}

    def interrupted() -> None:
        with reserve(tmp_path / "old", tmp_path / "newer"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"old": "old", "new": "new"}


def _work(tmp_path: Path) -> str:
    """What is said of a result whose folder goes while it is computed."""
    home = tmp_path / "goes"
    home.mkdir()

    def work() -> None:
        with reserve(home / "a", tmp_path / "b", "/dev/full") as outputs:
            for path in home.iterdir():
                path.unlink()
            home.rmdir()
            outputs.write_text(home / "a", "result a")
            outputs.write_text(tmp_path / "b", "result b")
            outputs.write_text("/dev/full", "result c")

    with pytest.raises(NotStoredError) as found:
        work()
    assert (tmp_path / "b").read_text() == "result b"
    return str(found.value)


def test_results_are_kept_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("temporary", "home"):
        (tmp_path / each).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for temporary, kept in ((tmp_path / "temporary", "temporary"), (Path("/proc"), "home")):
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        found = re.fullmatch(
            r"output (\S+) cannot be written: No such file or directory; it was saved as (\S+); "
            r"output (\S+) cannot be written: No space left on device; it was saved as (\S+)",
            _work(tmp_path),
        )
        assert found is not None
        assert found[1] == str(tmp_path / "goes/a")
        assert Path(found[2]).read_text() == "result a"
        assert Path(found[2]).parent.parent == tmp_path / kept
        assert Path(found[2]).parent.stat().st_mode & 0o777 == 0o700
        assert Path(found[4]).read_text() == "result c"
    monkeypatch.setenv("HOME", "/proc")
    assert "; nor can it be saved in the temporary or the home directory" in _work(tmp_path)


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
        limit = time.monotonic() + 10
        while said not in caplog.messages and time.monotonic() < limit:
            time.sleep(0.01)
        with pipe.open() as reader:
            assert reader.read() == "through"
        written.result()
        assert caplog.messages == [said]
        reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        write_text(pipe, "once more")
        assert os.read(reading, 100) == b"once more"
        os.close(reading)
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
