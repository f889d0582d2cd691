"""Locks of the kernel, on files and folders that are there anyway: none outlives its process, and no file stays behind.

The package filelock would leave a file beside each output, and name nobody who holds it.
"""

import logging
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


def is_free(handle: int) -> bool:
    """Lock an open file or folder until it is closed, unless another process has locked it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return True


def stands(handle: int, path: Path) -> bool:
    """Whether an open file still has its name, which only the holder of the lock may remove."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


@contextmanager
def lock(path: Path, *, what: str, limit: float = LIMIT) -> Iterator[BinaryIO]:
    """Hold a file alone, created if missing. Its holder may remove or rename it: who waits then makes a new one."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    start, told = time.monotonic(), False
    while True:
        # A pipe is refused at once, without a wait for its other end.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(path, flags, 0o600), "r+b", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(f"lock must be a file, not {path}")
            if is_free(file.fileno()):
                if stands(file.fileno(), path):
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


def holder(handle: int) -> str:
    """The process that holds the lock of an open file, as far as the kernel tells."""
    status = os.fstat(handle)
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    with suppress(OSError):  # another system, or a process that has ended meanwhile
        for line in Path("/proc/locks").read_text().splitlines():
            _, kind, *_, process, locked, _, _ = line.split()
            if kind == "FLOCK" and locked == place:
                command = Path("/proc", process, "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
                return f"process {process} ({command.decode(errors='replace')[:80]})"
    return "another process"
