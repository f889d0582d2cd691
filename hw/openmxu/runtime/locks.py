"""Locks between the processes of a user, with a note and a time limit for waiting processes."""

import logging
import os
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError as error:
    raise ImportError(
        "OpenMXU runs on Linux, and is prepared for macOS; Windows has no fcntl, so use WSL there", name="fcntl"
    ) from error

LIMIT = 3600.0
"""Seconds that a process waits by default: more than any work under a lock takes."""

_PATIENCE = 2.0
"""Seconds after which a waiting process logs that it waits."""

_PAUSE = 0.05
"""Seconds between two tries."""

_log = logging.getLogger(__name__)


class LockedError(RuntimeError):
    """Another process has held a lock for too long; the text says which lock."""


@contextmanager
def lock(path: Path, *, what: str, wait: bool = True, limit: float = LIMIT) -> Iterator[BinaryIO]:
    """Hold an exclusive lock on a file, created if missing. The kernel releases it when the process dies.

    The holder of the lock may remove or rename the file: processes that wait then make a new one.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    start = time.monotonic()
    told = False
    while True:
        with ExitStack() as stack:
            file = stack.enter_context(_open(path))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not wait:
                    raise
            else:
                if stands(file, path):
                    yield file
                    return
                continue
        waited = time.monotonic() - start
        if waited > limit:
            raise LockedError(f"another process, which {what}, has held {path} for {limit:g} s; end it, or wait")
        if waited > _PATIENCE and not told:
            told = True
            _log.warning("waiting for another process, which %s", what)
        time.sleep(_PAUSE)


def _open(path: Path) -> BinaryIO:
    # A pipe is refused at once, without a wait for its other end.
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"lock must be a file, not {path}")
    return open(path, "ab", opener=lambda *_: handle)


def stands(file: BinaryIO, path: Path) -> bool:
    """Whether an open file still has its name, which only the holder of the lock may remove."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    except FileNotFoundError:
        return False


def holder(file: int | BinaryIO) -> str:
    """The process that holds the lock of an open file, as far as the kernel tells."""
    status = os.fstat(file if isinstance(file, int) else file.fileno())
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    with suppress(OSError):  # another system, or a process that has ended meanwhile
        for line in Path("/proc/locks").read_text().splitlines():
            _, kind, *_, process, locked, _, _ = line.split()
            if kind == "FLOCK" and locked == place:
                command = Path("/proc", process, "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
                return f"process {process} ({command.decode(errors='replace')[:80]})"
    return "another process"
