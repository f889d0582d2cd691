"""A cache on disk for results that take long: compiled simulations and models, netlists, counts of synthesis,
results of checks and of training.

The cache is the folder ``openmxu`` under ``XDG_CACHE_HOME`` or ``~/.cache``. ``openmxu cache`` shows it, ``openmxu
cache clear`` empties it, and whatever is in it may be deleted at any time. It holds at most 1 GiB, or the size in the
variable ``OPENMXU_CACHE_SIZE`` in bytes (also ``500M``, ``2G``): the entry that has been unused for longest is deleted
first. The newest entry always stays.

An entry is a file that carries a digest of its key and its content, and appears under its name at once. A damaged entry
is made again; so no entry is flushed to the disk before it appears. If several processes need the same entry, one makes
it and the others wait. If the cache cannot be used, a note says so, and the process makes its entries for itself only.
Compiled programs run from copies in the folder for temporary files, which must allow execution; ``TMPDIR`` names
another folder.

Entries are executed, so nobody else may have written them: the folder is made for this user alone, and refused if it
belongs to another one, or if others may write to it.
"""

import atexit
import errno
import functools
import hashlib
import io
import logging
import os
import re
import stat
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from openmxu.runtime.locks import LIMIT, LockedError, lock, stands
from openmxu.runtime.process import workspace
from openmxu.runtime.sources import Sources, digest_all, still_all

KINDS = ("simulations", "models", "netlists", "areas", "checks", "studies")
"""Kinds of entries; each has a folder."""

_SIZE = "OPENMXU_CACHE_SIZE"
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30}
_PART = ".part"
"""Suffix of an entry that a process is making and has locked."""

_log = logging.getLogger(__name__)
_kept: dict[tuple[str, str], bytes] = {}
"""Entries that this process made and could not write."""
_noted: list[str] = []
"""Why the cache cannot be used, once the process has said so."""


class Usage(NamedTuple):
    """Number of entries, and their bytes."""

    entries: int
    size: int


def key(*parts: str) -> str:
    """The key of an entry that is made from ``parts``: give everything that it depends on."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()


def directory() -> Path:
    """The cache's folder, whether it exists or not."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
    if not os.path.isabs(base):
        raise FileNotFoundError(errno.ENOENT, "cannot be found; set XDG_CACHE_HOME", "home directory")
    return Path(base, "openmxu")


def for_tools(folder: Path) -> Path:
    """``folder`` for what a tool compiles, created if missing: a tool fails if it cannot write its own.

    If it cannot be written, a warning says so, and a folder that is removed with this process takes its place.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    except OSError as error:
        _note(error)
        return _refuge()


@functools.cache
def _refuge() -> Path:
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(workspace())


def size_bound() -> int:
    """The most bytes that the cache may hold."""
    text = os.environ.get(_SIZE, "1G")
    match = re.fullmatch(r"([0-9]{1,18})([KMG]?)", text, re.IGNORECASE)
    if match is None:
        raise ValueError(f"{_SIZE} must be a number of bytes, or a number followed by K, M or G, not {text!r}")
    return int(match[1]) << _UNITS[match[2].upper()]


def fetch(kind: str, key: str, make: Callable[[], bytes], *, worthy: Callable[[], bool] = lambda: True) -> bytes:
    """An entry's content, from the cache or made now."""
    bound = size_bound()
    if (content := find(kind, key)) is not None:
        return content
    with _turn(kind, key) as part:
        content = _read(kind, key)  # another process may have made it
        if content is None:
            content = make()
            if part is None or not worthy() or not _store(part, _path(kind, key), content, bound):
                _kept[kind, key] = content
    return content


def fetch_result(sources: Sequence[Sources], make: Callable[[], bytes], *what: str, kind: str = "netlists") -> bytes:
    """A result of the sources' code, such as a netlist, from the cache or made now."""
    if (digest := digest_all(sources)) is None:
        return make()
    return fetch(kind, key(digest, *what), make, worthy=lambda: still_all(sources))


def find(kind: str, key: str) -> bytes | None:
    """An entry's content; ``None`` if there is none that is whole."""
    _check_kind(kind)
    content = _kept.get((kind, key))
    return _read(kind, key) if content is None else content


def keep(kind: str, key: str, content: bytes) -> None:
    """Make an entry, unless there is one; see :func:`fetch` for parameters and errors."""
    fetch(kind, key, lambda: content)


def discard(kind: str, key: str) -> None:
    """Delete an entry that is of no use."""
    _check_kind(kind)
    _kept.pop((kind, key), None)
    with suppress(OSError):
        _path(kind, key).unlink()


def pack(folder: Path, pattern: str = "*") -> bytes:
    """All files in a folder and below whose names match a pattern, as the content of one entry."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(folder.rglob(pattern)):
            if path.is_file():
                archive.writestr(str(path.relative_to(folder)), path.read_bytes())
    return buffer.getvalue()


def unpack(content: bytes, folder: Path) -> None:
    """Extract the files of a content from :func:`pack` into a folder."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(folder)


def usage() -> dict[str, Usage]:
    """Number and size of the cache's entries, by kind."""
    _check_folder()
    return {kind: _sum(_entries(kind)) for kind in KINDS}


def clear(kind: str | None = None) -> Usage:
    """Delete the entries of one kind or of all; entries that are being made stay."""
    if kind is not None:
        _check_kind(kind)
    _check_folder()
    entries = {path: status for name in KINDS if kind in (None, name) for path, status in _entries(name).items()}
    for path in entries:
        path.unlink(missing_ok=True)
    return _sum(entries)


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")


def _check_folder() -> None:
    path = directory()
    with suppress(FileNotFoundError):
        check_ours(path)
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "is no folder", str(path))


def check_ours(path: Path) -> None:
    """Refuse a file or folder that another user could have written."""
    link, target = os.lstat(path), os.stat(path)
    if not link.st_uid == target.st_uid == os.geteuid():
        raise PermissionError(errno.EPERM, "belongs to another user; XDG_CACHE_HOME can name another place", str(path))
    if target.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EPERM, "can be written by other users; delete it", str(path))


def _path(kind: str, key: str) -> Path:
    return directory() / kind / key


def _digest(key: str, content: bytes) -> bytes:
    """The first bytes of an entry. The digest covers the key, so that a file under another one's name is noticed."""
    return hashlib.sha256(key.encode() + content).digest()


def _read(kind: str, key: str) -> bytes | None:
    """The content of an entry; ``None`` if it is missing, damaged, or cannot be read."""
    try:
        _check_folder()
        path = _path(kind, key)
        data = path.read_bytes() if path.is_file() else b""  # a pipe would be waited for
    except OSError:
        return None
    content = data[hashlib.sha256().digest_size :]
    if data != _digest(key, content) + content:
        return None
    with suppress(OSError):  # it may be for reading only
        os.utime(path)
    return content


@contextmanager
def _turn(kind: str, key: str) -> Iterator[Path | None]:
    """Wait until nobody else makes an entry; gives the file to write it to, or ``None`` if there can be none."""
    with ExitStack() as stack:
        part = None
        try:
            path = _path(kind, key).with_suffix(_PART)
            directory().mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_folder()
            file = stack.enter_context(lock(path, what=f"makes the same entry of {kind}"))
            part = path
        except (OSError, LockedError) as error:
            _note(error)
        try:
            yield part
        finally:
            if part is not None and stands(file.fileno(), part):  # it has not become the entry
                with suppress(OSError):
                    part.unlink()


def _store(part: Path, path: Path, content: bytes, bound: int) -> bool:
    """Turn a locked file into an entry; whether that succeeded."""
    try:
        part.write_bytes(_digest(path.name, content) + content)
        os.replace(part, path)
    except OSError as error:
        _note(error)
        return False
    with suppress(OSError):  # files that cannot be deleted do no harm
        _make_room(bound, spare=path)
    return True


def _note(error: OSError | LockedError) -> None:
    """Say that the cache cannot be used, once."""
    if not _noted:
        reason = f"{error.filename or directory()}: {error.strerror}" if isinstance(error, OSError) else str(error)
        _noted.append(reason)
        _log.warning("cache cannot be used (%s); what is compiled now will be compiled again next time", reason)


def _make_room(bound: int, spare: Path) -> None:
    """Delete what killed processes have left, and the entries that have been unused for longest."""
    entries = {path: status for kind in KINDS for path, status in _entries(kind, _PART, "").items()}
    excess = _sum(entries).size - bound
    for path, status in sorted(entries.items(), key=lambda entry: entry[1].st_mtime_ns):
        old = path.suffix and time.time() - status.st_mtime > LIMIT
        if old or (excess > 0 and not path.suffix and path != spare):
            path.unlink(missing_ok=True)
            excess -= status.st_size


def _entries(kind: str, *suffixes: str) -> dict[Path, os.stat_result]:
    """The entries of one kind: files whose names are a digest, and perhaps a suffix."""
    entries = {}
    for path in (directory() / kind).glob("*"):
        if re.fullmatch("[0-9a-f]{64}", path.stem) and path.suffix in (suffixes or ("",)) and path.is_file():
            with suppress(FileNotFoundError):  # another process may delete it meanwhile
                entries[path] = path.stat()
    return entries


def _sum(entries: dict[Path, os.stat_result]) -> Usage:
    return Usage(len(entries), sum(status.st_size for status in entries.values()))
