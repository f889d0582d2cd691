"""What takes long to make, kept on disk: compiled simulations and models, netlists, what synthesis has counted.

The cache is the folder ``openmxu`` under ``XDG_CACHE_HOME`` or ``~/.cache``. ``openmxu cache`` shows it, ``openmxu
cache clear`` empties it, and whatever is in it may be deleted at any time. It holds at most 1 GiB, or what the variable
``OPENMXU_CACHE_SIZE`` says in bytes (also ``500M``, ``2G``): what has gone unused for longest makes room. The newest
entry stays in any case.

An entry is a file that carries a digest of its key and its content, and appears under its name at once. One that is
damaged is made again. Of several processes that need the same entry, one makes it and the others wait. Where the
cache cannot be written, a note says so, and what is made serves the one process only. Compiled programs run from
copies in the folder for temporary files, which must allow that; ``TMPDIR`` names another one.
"""

import errno
import fcntl
import functools
import hashlib
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO, NamedTuple

__all__ = ["KINDS", "Usage", "clear", "directory", "fetch", "fetch_netlist", "key", "processor", "size_bound",
           "sources", "usage"]

KINDS = ("simulations", "models", "netlists", "areas")
"""What entries may be; each has a folder."""

_SIZE = "OPENMXU_CACHE_SIZE"
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30}
_PART = ".part"
"""Ends the name of an entry that is being made, by whoever has locked it. The kernel unlocks what a process leaves."""

_log = logging.getLogger(__name__)
_kept: dict[tuple[str, str], bytes] = {}
"""What this process made and could not write."""
_noted = threading.Event()
"""Whether it has said so."""


class Usage(NamedTuple):
    """How much of something there is.

    Parameters
    ----------
    entries
        Their number.
    size
        Their bytes.
    """

    entries: int
    size: int


class _Entry(NamedTuple):
    path: Path
    size: int
    used: int  # nanoseconds


def key(*parts: str) -> str:
    """The name of what is made from ``parts``: give everything that it depends on."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()


@functools.cache
def sources(package: Path) -> str:
    """A digest of the source files in a folder, for the key of what they make."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if path.suffix in (".py", ".c"):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(package)}:{len(content)}:".encode() + content)
    return digest.hexdigest()


@functools.cache
def processor() -> str:
    """The processor here with its instruction sets, for the key of what is compiled for no other one."""
    machine = os.uname()
    try:
        with open("/proc/cpuinfo") as file:
            first = file.read(1 << 14).partition("\n\n")[0]
    except OSError:
        return " ".join(machine)
    same = [line for line in first.splitlines() if "mhz" not in line.lower() and "bogomips" not in line.lower()]
    return "\n".join([machine.machine, *same])


def directory() -> Path:
    """Where the cache is, or will be.

    Raises
    ------
    OSError
        There is no home directory.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
    if not os.path.isabs(base):
        raise FileNotFoundError(errno.ENOENT, "cannot be found; set XDG_CACHE_HOME", "home directory")
    return Path(base, "openmxu")


def size_bound() -> int:
    """How many bytes the cache may hold.

    Raises
    ------
    ValueError
        The variable ``OPENMXU_CACHE_SIZE`` says something else.
    """
    text = os.environ.get(_SIZE, "1G")
    found = re.fullmatch(r"([0-9]{1,18})([KMG]?)", text, re.IGNORECASE)
    if found is None:
        raise ValueError(f"{_SIZE} must be a number of bytes, or one with K, M or G behind it, not {text!r}")
    return int(found[1]) << _UNITS[found[2].upper()]


def fetch(kind: str, key: str, make: Callable[[], bytes]) -> bytes:
    """An entry's content, from the cache or made now.

    Parameters
    ----------
    kind
        One of :data:`KINDS`.
    key
        What :func:`key` says for everything that goes into the content.
    make
        Makes the content. What it raises is handed on, and nothing is kept.

    Raises
    ------
    ValueError
        There is no such kind, or as of :func:`size_bound`.
    """
    _check_kind(kind)
    bound = size_bound()
    content = _kept.get((kind, key))
    if content is None:
        content = _read(kind, key)
    if content is not None:
        return content
    with _turn(kind, key) as part:
        content = _read(kind, key)  # somebody else may have made it
        if content is None:
            content = make()
            if part is None or not _store(part, _path(kind, key), content, bound):
                _kept[kind, key] = content
    return content


def fetch_netlist(make: Callable[[], bytes], *what: str) -> bytes:
    """What this package's components become, from the cache or made now.

    Parameters
    ----------
    make
        Makes it.
    what
        Tells it from all else that this version of the sources and of Amaranth make.
    """
    return fetch("netlists", key(sources(Path(__file__).parent), version("amaranth"), *what), make)


def usage() -> dict[str, Usage]:
    """What the cache holds, by kind.

    Raises
    ------
    OSError
        It cannot be read.
    """
    return {kind: _sum(_entries(kind)) for kind in KINDS}


def clear(kind: str | None = None) -> Usage:
    """Delete what the cache holds, of one kind or all of it; what is being made just now stays.

    Returns
    -------
    Usage
        What was deleted.

    Raises
    ------
    ValueError
        There is no such kind.
    OSError
        Something cannot be deleted.
    """
    if kind is not None:
        _check_kind(kind)
    found = [entry for each in KINDS if kind in (None, each) for entry in _entries(each)]
    for entry in found:
        entry.path.unlink(missing_ok=True)
    _sweep()
    return _sum(found)


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")


def _path(kind: str, key: str) -> Path:
    return directory() / kind / key


def _digest(key: str, content: bytes) -> bytes:
    """What an entry begins with. The key is part of it, so that a file under another one's name is noticed."""
    digest = hashlib.sha256(key.encode())
    digest.update(content)
    return digest.digest()


def _read(kind: str, key: str) -> bytes | None:
    """The content of an entry; ``None`` if it is missing, damaged or cannot be read."""
    try:
        path = _path(kind, key)
        data = path.read_bytes()
    except OSError:
        return None
    size = hashlib.sha256().digest_size
    content = data[size:]
    if data[:size] != _digest(key, content):
        return None
    with suppress(OSError):  # deleted by now, or not ours to touch
        os.utime(path)
    return content


@contextmanager
def _turn(kind: str, key: str) -> Iterator[BinaryIO | None]:
    """Wait until nobody else makes an entry; the file to write it to, or ``None`` if there can be none."""
    try:
        part = _lock(_path(kind, key).with_suffix(_PART))
    except OSError as error:
        _note(error)
        yield None
        return
    with part:
        try:
            yield part
        finally:
            with suppress(OSError):
                if _stands(part):
                    os.unlink(part.name)


def _lock(path: Path, *, wait: bool = True) -> BinaryIO:
    """A file opened and, for as long as it is, locked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with ExitStack() as stack:
            file = stack.enter_context(path.open("ab"))
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _stands(file):
                stack.pop_all()
                return file


def _stands(file: BinaryIO) -> bool:
    """Whether an open file still has its name, which nobody but who has locked it may take away."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(file.name))
    except FileNotFoundError:
        return False


def _store(part: BinaryIO, path: Path, content: bytes, bound: int) -> bool:
    """Make a locked file an entry; whether that could be done."""
    try:
        Path(part.name).write_bytes(_digest(path.name, content) + content)
        os.replace(part.name, path)
    except OSError as error:
        _note(error)
        return False
    with suppress(OSError):  # what cannot be deleted hinders nobody
        _make_room(bound, spare=path)
    return True


def _note(error: OSError) -> None:
    """Say that the cache cannot be written, once."""
    if not _noted.is_set():
        _noted.set()
        _log.warning("cache cannot be written (%s: %s); what is compiled now will be compiled again next time",
                     error.filename or directory(), error.strerror)


def _make_room(bound: int, spare: Path) -> None:
    _sweep()
    entries = [entry for kind in KINDS for entry in _entries(kind)]
    excess = _sum(entries).size - bound
    for entry in sorted(entries, key=lambda entry: entry.used):
        if excess > 0 and entry.path != spare:
            entry.path.unlink(missing_ok=True)
            excess -= entry.size


def _sweep() -> None:
    """Delete what killed processes left unfinished."""
    for path in [entry.path for kind in KINDS for entry in _entries(kind, _PART)]:
        with suppress(BlockingIOError), _lock(path, wait=False):
            path.unlink()


def _entries(kind: str, suffix: str = "") -> list[_Entry]:
    """The files of one kind, of which this cache made all whose names have this form."""
    found = []
    folder = directory() / kind
    with suppress(FileNotFoundError), os.scandir(folder) as files:
        for file in files:
            if re.fullmatch(f"[0-9a-f]{{64}}{suffix}", file.name) and file.is_file():
                with suppress(FileNotFoundError):  # another process may delete it meanwhile
                    status = file.stat()
                    found.append(_Entry(Path(file), status.st_size, status.st_mtime_ns))
    return found


def _sum(entries: list[_Entry]) -> Usage:
    return Usage(len(entries), sum(entry.size for entry in entries))
