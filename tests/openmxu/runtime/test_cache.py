"""What is kept is right or made again, whatever happens to the folder or to a process."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from openmxu.runtime import cache, machine

from ...conftest import ran
from .conftest import python, wait_until

KEY = cache.key("some", "parts")
CONTENT = bytes(range(256)) * 20


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of entries in a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    monkeypatch.delenv("OPENMXU_CACHE_SIZE", raising=False)
    monkeypatch.setattr(cache, "_kept", {})
    monkeypatch.setattr(cache, "_noted", [])
    return tmp_path / "a cache" / "openmxu" / "models"


content = Mock(return_value=CONTENT)
forbidden = Mock(side_effect=AssertionError("made once more"))
unusable = "cache cannot be used ({}); what is compiled now will be compiled again next time".format
given_away = partial(pytest.param, marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away"))


def start(tmp_path: Path) -> Any:
    """A process that is about to ask for KEY: it logs that it makes it, and waits for a file before it does."""
    program = """
import sys, time
from pathlib import Path
from openmxu.runtime import cache
log, go = map(Path, sys.argv[1:])
def make():
    with log.open("a") as file:
        file.write("made\\n")
    while not go.exists():
        time.sleep(0.01)
    return b"content"
print("asks", flush=True)
assert cache.fetch("models", cache.key("some", "parts"), make) == b"content"
"""
    command = [sys.executable, "-c", program, *(str(tmp_path / name) for name in ("log", "go"))]
    process: Any = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with process.stdout as output:
        assert output.readline() == "asks\n"
    return process


def wait_for_makers(tmp_path: Path, count: int = 1) -> None:
    wait_until(lambda: (tmp_path / "log").exists() and (tmp_path / "log").read_text().count("\n") >= count)


def test_made_once(folder: Path) -> None:
    assert cache.fetch("models", KEY, content) == cache.fetch("models", KEY, forbidden) == CONTENT
    assert os.listdir(folder) == [KEY]
    assert cache.fetch("netlists", KEY, lambda: b"") == cache.fetch("netlists", KEY, forbidden) == b""


def test_key_is_everything() -> None:
    parts = ("1", "a", "bc"), ("1", "ab", "c"), ("2", "a", "bc"), ("1", "a", "bc", "")
    assert len({cache.key(*each) for each in parts}) == len(parts)
    assert os.uname().machine in machine.processor()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: bytes([data[0] ^ 1]) + data[1:],
        lambda data: data + b"\0",
        lambda data: data[:10],
        lambda data: b"",
        lambda data: CONTENT,
        lambda data: bytes(len(data)),
    ],
    ids=["cut", "flipped", "digest", "longer", "short", "empty", "bare", "zeros"],
)
def test_damaged(damage: Callable[[bytes], bytes], folder: Path) -> None:
    cache.fetch("models", KEY, content)
    good = (folder / KEY).read_bytes()
    (folder / KEY).write_bytes(damage(good))
    again = Mock(return_value=CONTENT)
    assert cache.fetch("models", KEY, again) == CONTENT
    again.assert_called_once()
    assert (folder / KEY).read_bytes() == good
    other = cache.key("other")
    (folder / KEY).rename(folder / other)  # whole, but in another's place
    assert cache.fetch("models", other, lambda: b"other") == b"other"


@pytest.mark.parametrize("error", [RuntimeError("refused"), OSError("made no file"), KeyboardInterrupt()])
def test_nothing_is_kept_of_a_failure(error: BaseException, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(type(error)) as raised:
        cache.fetch("models", KEY, Mock(side_effect=error))
    assert raised.value is error
    assert not list(folder.iterdir())
    assert not caplog.messages
    assert cache.fetch("models", KEY, content) == CONTENT


@pytest.mark.parametrize(("killed", "made"), [(False, 1), (True, 2)])
def test_two_at_once(killed: bool, made: int, tmp_path: Path, folder: Path) -> None:
    """The second waits for the first, and makes the entry if that one is killed."""
    first = start(tmp_path)
    wait_for_makers(tmp_path)
    second = start(tmp_path)
    if killed:
        first.kill()
        first.wait(60)
        wait_for_makers(tmp_path, 2)
    else:
        time.sleep(0.2)
        assert second.poll() is None
    (tmp_path / "go").touch()
    assert (first.wait(60), second.wait(60)) == (-signal.SIGKILL if killed else 0, 0)
    assert (tmp_path / "log").read_text() == made * "made\n"
    assert os.listdir(folder) == [KEY]


def test_failed_while_others_wait(folder: Path) -> None:
    """Who waited for a file that is gone makes a new one, where those who come later wait."""
    begun, fail, end = threading.Event(), threading.Event(), threading.Event()

    def broken() -> bytes:
        fail.wait(60)
        raise RuntimeError("refused")

    def slow() -> bytes:
        begun.set()
        end.wait(60)
        return CONTENT

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(cache.fetch, "models", KEY, broken)
        wait_until((folder / f"{KEY}.part").exists)
        second = pool.submit(cache.fetch, "models", KEY, slow)
        time.sleep(0.2)
        fail.set()
        assert begun.wait(60)
        third = pool.submit(cache.fetch, "models", KEY, forbidden)
        time.sleep(0.2)
        end.set()
        assert isinstance(first.exception(), RuntimeError)
        assert second.result() == third.result() == CONTENT


def test_killed(tmp_path: Path, folder: Path) -> None:
    process = start(tmp_path)
    wait_for_makers(tmp_path)
    assert cache.fetch("models", cache.key("other"), content) == CONTENT
    left = folder / f"{KEY}.part"
    assert left.exists()  # still somebody's
    process.kill()
    process.wait(60)
    for age, stays in ((0.0, True), (1e9, False)):  # it may be somebody's that makes it for long
        left.write_bytes(b"half of it")
        os.utime(left, (time.time() - age, time.time() - age))
        assert cache.fetch("models", cache.key(str(age)), content) == CONTENT
        assert left.exists() == stays
    left.write_bytes(b"half of it")
    assert cache.fetch("models", KEY, content) == cache.fetch("models", KEY, forbidden) == CONTENT


def test_folder_that_cannot_be_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a cache").touch()
    assert cache.fetch("models", KEY, content) == cache.fetch("models", KEY, forbidden) == CONTENT
    cache.fetch("models", cache.key("other"), content)
    assert caplog.messages == [unusable(f"{tmp_path}/a cache/openmxu: Not a directory")]


def test_tools_have_a_place(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Their usual one; where it cannot be made, one that goes with the process."""
    assert cache.for_tools(tmp_path / "new" / "tool") == tmp_path / "new" / "tool"
    assert caplog.messages == []
    (tmp_path / "file").touch()
    program = f"""
import pathlib, openmxu.runtime.cache as cache
place = cache.for_tools(pathlib.Path("{tmp_path}/file/tool"))
(place / "kept").touch()
assert place == cache.for_tools(pathlib.Path("/proc/tool"))
print(place)
"""
    done = python(program)
    assert done.returncode == 0
    assert not Path(done.stdout.strip()).exists()
    assert done.stderr.startswith(f"cache cannot be used ({tmp_path}/file/tool: Not a directory); ")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "made", "notes"), [("verilog pe -o pe.v", "pe.v", 1), ("roofline --plot r.svg", "r.svg", 0)]
)
def test_commands_without_a_home(command: str, made: str, notes: int, tmp_path: Path) -> None:
    """Each tool has its own idea of what to do without a cache."""
    variables = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"} | {"HOME": "/proc"}
    words = [sys.executable, "-m", "openmxu", *command.split()]
    done = ran(words, cwd=tmp_path, env=variables)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert done.stderr.count("cache cannot be used (/proc/.cache: ") == notes
    assert (tmp_path / made).stat().st_size > 0


def test_no_home(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "relative")
    assert cache.fetch("models", KEY, content) == CONTENT
    assert "(home directory: cannot be found; set XDG_CACHE_HOME)" in caplog.text
    with pytest.raises(FileNotFoundError, match="cannot be found; set XDG_CACHE_HOME"):
        cache.usage()


def test_full_disk(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # a write ends in the middle
    try:
        assert cache.fetch("models", KEY, content) == CONTENT
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "openmxu: File too large); what is compiled now" in caplog.text
    assert not list(folder.iterdir())
    assert cache.fetch("models", KEY, forbidden) == CONTENT


@pytest.mark.parametrize("place", ["openmxu/models", f"openmxu/models/{KEY}", f"openmxu/models/{KEY}.part"])
@pytest.mark.parametrize(
    "block",
    [
        lambda path, other: path.write_bytes(CONTENT),
        lambda path, other: (path / "in the way").mkdir(parents=True),
        lambda path, other: path.symlink_to(other),
        lambda path, other: path.symlink_to("/no/such/place"),
        lambda path, other: os.mkfifo(path),
    ],
    ids=["file", "folder", "link", "link to nothing", "pipe"],
)
def test_something_else_in_the_way(block: Callable[[Path, Path], None], place: str, tmp_path: Path) -> None:
    cache.fetch("netlists", KEY, content)
    path, other = tmp_path / "a cache" / place, tmp_path / "other"
    path.parent.mkdir(exist_ok=True)
    other.mkdir()
    (other / "kept").touch()
    block(path, other)
    assert cache.fetch("models", KEY, content) == cache.fetch("models", KEY, forbidden) == CONTENT
    assert "kept" in os.listdir(other)


# Whose it is


def test_nobody_else_reads_or_writes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0)
    try:
        cache.fetch("models", KEY, content)
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in (folder.parent, folder, folder / KEY)]
    assert modes == [0o700, 0o700, 0o600]
    monkeypatch.setattr(os, "utime", Mock(side_effect=PermissionError))
    assert cache.fetch("models", KEY, forbidden) == CONTENT  # one that can be read only, too


def give_away(path: Path) -> None:
    os.chown(path, 1234, 1234, follow_symlinks=False)


def give_link_away(place: Path) -> None:
    place.symlink_to(place.rename(place.with_name("elsewhere")))
    give_away(place)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        *((partial(Path.chmod, mode=mode), "can be written by other users") for mode in (0o770, 0o707, 0o777, 0o1777)),
        *(given_away(spoil, "belongs to another user") for spoil in (give_away, give_link_away)),
    ],
)
def test_folder_of_others(
    spoil: Callable[[Path], None], reason: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache.fetch("models", KEY, lambda: b"planted")
    spoil(folder.parent)
    assert cache.fetch("models", KEY, content) == CONTENT
    advice = "XDG_CACHE_HOME can name another place" if "belongs" in reason else "delete it"
    assert caplog.messages == [unusable(f"{folder.parent}: {reason}; {advice}")]
    for ask in (cache.usage, cache.clear):
        with pytest.raises(PermissionError, match=f"{reason}; {advice}"):
            ask()


def test_a_link_of_ours_to_another_place(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.parent.parent.mkdir()
    folder.parent.symlink_to(tmp_path / "elsewhere")
    assert cache.fetch("models", KEY, content) == CONTENT
    assert (tmp_path / "elsewhere" / "models" / KEY).is_file()


def test_find_keep_discard(folder: Path) -> None:
    assert cache.find("models", KEY) is None
    cache.keep("models", KEY, CONTENT)
    cache.keep("models", KEY, b"another")
    assert cache.find("models", KEY) == CONTENT
    cache.discard("models", KEY)
    cache.discard("models", KEY)
    assert cache.find("models", KEY) is None
    assert cache.fetch("models", KEY, content, worthy=lambda: False) == CONTENT
    assert cache.fetch("models", KEY, forbidden) == CONTENT  # it serves this process only
    assert not os.listdir(folder)
    cache.discard("models", KEY)
    assert cache.find("models", KEY) is None


def test_pack(tmp_path: Path) -> None:
    files = {"one": b"1", "a/two": b"", "a/b/three": CONTENT}
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    cache.unpack(cache.pack(tmp_path), tmp_path / "copy")
    assert {name: (tmp_path / "copy" / name).read_bytes() for name in files} == files


def test_least_recently_used_makes_room(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [cache.key(str(i)) for i in range(5)]
    for age, kind, key in zip((5, 4, 3), ("models", "netlists", "models"), keys, strict=False):
        cache.fetch(kind, key, content)
        os.utime(folder.parent / kind / key, (time.time() - age, time.time() - age))
    monkeypatch.setenv("OPENMXU_CACHE_SIZE", str(3 * (len(CONTENT) + 32)))
    cache.fetch("models", keys[0], forbidden)  # used again, so the second is the oldest now
    cache.fetch("simulations", keys[3], content)
    assert {path.name for path in folder.parent.rglob("*") if path.is_file()} == {keys[0], keys[2], keys[3]}
    monkeypatch.setenv("OPENMXU_CACHE_SIZE", "0")
    os.utime(folder.parent / "simulations" / keys[3], (2**32, 2**32))  # however young the others look
    cache.fetch("models", keys[4], content)
    assert [path.name for path in folder.parent.rglob("*") if path.is_file()] == [keys[4]]


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("12345", 12345), ("3K", 3 << 10), ("500m", 500 << 20), ("2G", 2 << 30)]
)
def test_size_bound(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.size_bound() == 1 << 30
    monkeypatch.setenv("OPENMXU_CACHE_SIZE", text)
    assert cache.size_bound() == size


@pytest.mark.parametrize("text", ["", "1T", "1.5G", "-1", "G", "1 G", "1GB", "9" * 5000])
def test_size_bound_that_is_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENMXU_CACHE_SIZE", text)
    with pytest.raises(ValueError, match=r"^OPENMXU_CACHE_SIZE must be a number of bytes, .*, not '.*'$"):
        cache.fetch("models", KEY, forbidden)


@pytest.mark.parametrize("ask", [partial(cache.fetch, key=KEY, make=forbidden), cache.clear])
def test_unknown_kind(ask: Callable[[str], object]) -> None:
    kinds = "simulations, models, netlists, areas, checks, studies"
    with pytest.raises(ValueError, match=f"^kind must be one of {kinds}, not 'toys'$"):
        ask("toys")


def test_usage_and_clear(folder: Path) -> None:
    nothing = cache.Usage(0, 0)
    empty = dict.fromkeys(("simulations", "models", "netlists", "areas", "checks", "studies"), nothing)
    assert cache.usage() == empty
    assert cache.clear() == nothing
    for kind, name in (("models", "a"), ("models", "b"), ("netlists", "c")):
        cache.fetch(kind, cache.key(name), content)
    foreign = [folder / "mine", folder / f"{KEY}.txt", folder.parent / KEY]
    for path in foreign:
        path.touch()
    (folder / f"{KEY}.part").touch()
    size = len(CONTENT) + 32
    assert cache.usage() == empty | {"models": (2, 2 * size), "netlists": (1, size)}
    assert (cache.clear("models"), cache.usage()["netlists"], cache.clear()) == ((2, 2 * size), (1, size), (1, size))
    foreign.append(folder / f"{KEY}.part")
    assert sorted(path for path in folder.parent.rglob("*") if path.is_file()) == sorted(foreign)


def test_clear_while_another_makes(tmp_path: Path) -> None:
    process = start(tmp_path)
    wait_for_makers(tmp_path)
    cache.clear()
    (tmp_path / "go").touch()
    assert process.wait(60) == 0
    assert cache.fetch("models", KEY, forbidden) == b"content"
